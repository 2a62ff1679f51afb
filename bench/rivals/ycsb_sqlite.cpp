// SPDX-License-Identifier: Apache-2.0
// ycsb_sqlite.cpp: SQLite in memory, a connection for each thread. Such a database has one writer,
// and no readers beside it; statements are prepared once.
#include <sqlite3.h>

#include <fmt/format.h>
#include <spolia/base/atomic.hpp>

#include <stdexcept>
#include <thread>

#include "../options.hpp"
#include "../ycsb_engine.hpp"

namespace bench {
namespace {

[[noreturn]] void fail(sqlite3* base) {
  throw std::runtime_error(std::string("SQLite: ") + ::sqlite3_errmsg(base));
}

class statement {
 public:
  statement(sqlite3* base, const std::string& text) : base_(base) {
    if (::sqlite3_prepare_v2(base, text.c_str(), -1, &made_, nullptr) != SQLITE_OK) fail(base);
  }
  ~statement() { ::sqlite3_finalize(made_); }
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;

  statement& bind(int place, std::uint64_t v) {
    if (::sqlite3_bind_int64(made_, place, static_cast<sqlite3_int64>(v)) != SQLITE_OK) fail(base_);
    return *this;
  }
  statement& bind(int place, const std::string& v) {
    const auto size = static_cast<int>(v.size());
    if (::sqlite3_bind_blob(made_, place, v.data(), size, SQLITE_STATIC) != SQLITE_OK) fail(base_);
    return *this;
  }
  /// Calls row(statement) for each row; how many there were.
  template <class F>
  std::uint32_t each(F&& row) {
    std::uint32_t count = 0;
    int code = SQLITE_ROW;
    while ((code = ::sqlite3_step(made_)) == SQLITE_ROW) {
      row(made_);
      ++count;
    }
    ::sqlite3_reset(made_);
    if (code != SQLITE_DONE) fail(base_);
    return count;
  }
  std::uint32_t run() {
    each([](sqlite3_stmt*) {});
    return static_cast<std::uint32_t>(::sqlite3_changes(base_));
  }

 private:
  sqlite3* base_;
  sqlite3_stmt* made_ = nullptr;
};

class connection {
 public:
  explicit connection(const std::string& name) {
    const int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    if (::sqlite3_open_v2(name.c_str(), &base_, flags, nullptr) != SQLITE_OK) {
      const std::string why = ::sqlite3_errmsg(base_);
      ::sqlite3_close(base_);
      throw std::runtime_error("SQLite: " + why);
    }
    ::sqlite3_busy_handler(
        base_,
        [](void*, int) {
          std::this_thread::yield();
          return 1;
        },
        nullptr);
  }
  ~connection() { ::sqlite3_close(base_); }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  operator sqlite3*() const noexcept { return base_; }  // NOLINT: it is one

 private:
  sqlite3* base_ = nullptr;
};

std::string list_of(std::uint32_t columns, const char* form, const char* between) {
  std::string all;
  for (std::uint32_t c = 0; c < columns; ++c) {
    if (c != 0) all += between;
    all += fmt::format(fmt::runtime(form), c);
  }
  return all;
}

class engine final : public ycsb_engine {
 public:
  explicit engine(const ycsb_shape& shape) : shape_(shape), name_(fresh_name()), first_(name_) {
    statement(first_, "PRAGMA synchronous=OFF").run();
    statement(first_, "PRAGMA journal_mode=MEMORY").run();
    statement(first_,
              "CREATE TABLE usertable(k INTEGER PRIMARY KEY, " +
                  list_of(shape.columns, shape.width == 8 ? "f{} INTEGER" : "f{} BLOB", ", ") + ")")
        .run();
  }
  std::unique_ptr<ycsb_session> open() override;
  void hold() override {
    throw usage_error("--engine sqlite cannot write in memory while a snapshot is held");
  }

 private:
  friend class session;
  static std::string fresh_name() {
    static spolia::atomic<unsigned> number{0};
    return fmt::format("file:/spolia-bench-{}?vfs=memdb", number.fetch_add_relaxed(1));
  }
  const ycsb_shape shape_;
  const std::string name_;
  const connection first_;  // as long as one is open, the database is there
};

class session final : public ycsb_session {
 public:
  explicit session(const engine& of)
      : shape_(of.shape_),
        base_(of.name_),
        begin_(base_, "BEGIN"),
        begin_writing_(base_, "BEGIN IMMEDIATE"),
        commit_(base_, "COMMIT"),
        read_(base_, "SELECT * FROM usertable WHERE k = ?1"),
        scan_(base_, "SELECT * FROM usertable WHERE k >= ?1 ORDER BY k LIMIT ?2"),
        insert_(base_,
                "INSERT INTO usertable VALUES(?1, " + list_of(shape_.columns, "?2", ", ") + ")"),
        value_(shape_.width, 'a') {
    if (shape_.update_all && shape_.width == 8) {
      updates_.push_back(std::make_unique<statement>(
          base_, "UPDATE usertable SET " + list_of(shape_.columns, "f{0} = f{0} + 1", ", ") +
                     " WHERE k = ?1"));
    } else if (shape_.update_all) {
      updates_.push_back(std::make_unique<statement>(
          base_,
          "UPDATE usertable SET " + list_of(shape_.columns, "f{0} = ?2", ", ") + " WHERE k = ?1"));
    } else {
      const std::string to = shape_.width == 8 ? "f{0} + 1" : "?2";
      for (std::uint32_t c = 0; c < shape_.columns; ++c) {
        updates_.push_back(std::make_unique<statement>(
            base_,
            fmt::format(fmt::runtime("UPDATE usertable SET f{0} = " + to + " WHERE k = ?1"), c)));
      }
    }
  }

  bool run(std::span<const ycsb_op> ops) override {
    const bool reads = std::all_of(ops.begin(), ops.end(), [](const ycsb_op& op) {
      return op.what == ycsb_action::read || op.what == ycsb_action::scan;
    });
    (reads ? begin_ : begin_writing_).run();  // waits for the writer before
    for (const ycsb_op& op : ops) step(op);
    commit_.run();
    return true;
  }

 private:
  void step(const ycsb_op& op) {
    const auto look = [this](sqlite3_stmt* row) { add(row); };
    switch (op.what) {
      case ycsb_action::insert:
        insert_.bind(1, op.key);
        if (shape_.width == 8) {
          insert_.bind(2, 0);
        } else {
          insert_.bind(2, value_);
        }
        insert_.run();
        return;
      case ycsb_action::scan:
        scan_.bind(1, op.key).bind(2, op.count).each(look);
        return;
      case ycsb_action::read:
        if (read_.bind(1, op.key).each(look) == 0) missed.add();
        return;
      case ycsb_action::modify:
        read_.bind(1, op.key).each(look);
        [[fallthrough]];
      case ycsb_action::update: {
        statement& s = *updates_[shape_.update_all ? 0 : op.column];
        s.bind(1, op.key);
        if (shape_.width != 8) {
          std::fill(value_.begin(), value_.end(), static_cast<char>('a' + ++writes_ % 26));
          s.bind(2, value_);
        }
        if (s.run() == 0) missed.add();
        return;
      }
    }
  }
  void add(sqlite3_stmt* row) {
    for (std::uint32_t c = 1; c <= shape_.columns; ++c) {
      const auto place = static_cast<int>(c);
      if (shape_.width == 8) {
        sum += static_cast<std::uint64_t>(::sqlite3_column_int64(row, place));
      } else {
        sum += *static_cast<const unsigned char*>(::sqlite3_column_blob(row, place));
      }
    }
  }

  const ycsb_shape& shape_;
  const connection base_;
  statement begin_, begin_writing_, commit_, read_, scan_, insert_;
  std::vector<std::unique_ptr<statement>> updates_;
  std::string value_;
  std::uint64_t writes_ = 0;
};

std::unique_ptr<ycsb_session> engine::open() { return std::make_unique<session>(*this); }

[[maybe_unused]] const bool told = [] {
  ycsb_engines().push_back({"sqlite", [](const ycsb_shape& s) -> std::unique_ptr<ycsb_engine> {
                              return std::make_unique<engine>(s);
                            }});
  return true;
}();

}  // namespace
}  // namespace bench

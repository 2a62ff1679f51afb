// SPDX-License-Identifier: Apache-2.0
// ycsb_spolia.cpp: the store under YCSB.
#include <fmt/format.h>
#include <spolia/db.hpp>

#include "scratch_folder.hpp"
#include "store.hpp"
#include "ycsb_engine.hpp"

namespace bench {
namespace {

namespace db = spolia::db;

class engine final : public ycsb_engine {
 public:
  explicit engine(const ycsb_shape& shape)
      : shape_(shape), base_(open(shape, folder_)), table_(base_.create_table(spec(shape))) {
    for (std::uint32_t c = 0; c < shape.touched(); ++c) {
      if (shape.width == 8) {
        numbers_.push_back(table_.column<std::int64_t>(name(c)));
      } else {
        texts_.push_back(table_.column<std::string_view>(name(c)));
      }
    }
    if (shape.touch == 0) return;
    std::vector<std::string> names;
    for (std::uint32_t c = 0; c < shape.touched(); ++c) names.push_back(name(c));
    read_ = table_.select(names);
  }
  std::unique_ptr<ycsb_session> open() override;
  void hold() override { held_.emplace_back(new db::reader(base_.snapshot("held"))); }
  std::optional<std::uint64_t> scan(std::uint32_t threads) override;
  [[nodiscard]] std::optional<db::delta_stats> versions() const override {
    return base_.stats().versions;
  }
  [[nodiscard]] std::optional<std::uint64_t> table_bytes() const override {
    return base_.stats().table_bytes;
  }
  [[nodiscard]] std::optional<db::log_stats> log() const override {
    if (!folder_) return {};
    return base_.stats().log;
  }
  std::optional<db::checkpoint_report> checkpoint() override {
    if (!folder_) return {};
    return base_.checkpoint();
  }

 private:
  static db::database open(const ycsb_shape& shape, std::optional<scratch_folder>& folder) {
    db::options o;
    choose_versions(o, shape.versions, shape.changes);
    o.hash_indexes = hash_kind_of(shape.index);
    o.partition_transactions = shape.partition;
    o.partition_cache_bytes = shape.partition_cache;
    if (shape.durability == "memory") return db::database::open(o);
    o.durability = durability_of(shape.durability);
    o.checkpoint_log_bytes = 0;
    folder.emplace(shape.directory);
    return db::database::open(folder->path(), o);
  }
  friend class session;
  static std::string name(std::uint32_t c) { return fmt::format("f{}", c); }
  static db::table_spec spec(const ycsb_shape& shape) {
    db::table_spec s{.name = "usertable",
                     .columns = {{"k", db::int64, db::primary_key}},
                     .primary = shape.ordered ? db::index_kind::ordered : db::index_kind::hash};
    for (std::uint32_t c = 0; c < shape.columns; ++c) {
      s.columns.push_back({name(c), shape.width == 8 ? db::int64 : db::text(shape.width)});
    }
    return s;
  }

  const ycsb_shape shape_;
  std::optional<scratch_folder> folder_;
  db::database base_;
  db::table& table_;
  std::vector<db::column<std::int64_t>> numbers_;
  std::vector<db::column<std::string_view>> texts_;
  db::selection read_;
  std::vector<std::unique_ptr<db::reader>> held_;
  spolia::atomic<std::int64_t> scanned_{0};  // so that it is
};

class session final : public ycsb_session {
 public:
  explicit session(engine& of) : of_(of), text_(of.shape_.width, 'a') {
    row_.resize(of.shape_.columns + 1,
                of.shape_.width == 8 ? db::value(0) : db::value(std::string_view(text_)));
  }

  bool run(std::span<const ycsb_op> ops) override {
    std::uint64_t tries = 0;
    const db::status s = of_.base_.transact(with_conflicts([&](db::transaction& tx) -> db::status {
      ++tries;
      for (const ycsb_op& op : ops) {
        const db::status done = step(tx, op);
        if (done == db::outcome::not_found) {
          missed.add();
        } else if (!done) {
          return done;
        }
      }
      return db::outcome::ok;
    }));
    aborts.conflict.add(s == db::outcome::conflict ? tries : tries - 1);
    if (s == db::outcome::conflict) aborts.given_up.add();
    if (s == db::outcome::limit) aborts.limit.add();
    return static_cast<bool>(s);
  }

 private:
  db::status step(db::transaction& tx, const ycsb_op& op) {
    switch (op.what) {
      case ycsb_action::read: {
        const auto r = tx.find(of_.table_, {op.key}, of_.read_);
        if (!r) return r.why();
        look(*r);
        return db::outcome::ok;
      }
      case ycsb_action::insert:
        row_[0] = db::value(op.key);
        return tx.insert(of_.table_, row_);
      case ycsb_action::scan: {
        std::uint32_t left = op.count;
        const auto show = [&](const db::row& r) {
          look(r);
          return --left != 0;
        };
        tx.scan(of_.table_, {op.key}, {}, show, of_.read_);
        return db::outcome::ok;
      }
      case ycsb_action::update:
      case ycsb_action::modify:
        return update(tx, op);
    }
    return db::outcome::ok;
  }

  db::status update(db::transaction& tx, const ycsb_op& op) {
    auto e = tx.edit(of_.table_, {op.key});
    if (!e) return e.why();
    if (op.what == ycsb_action::modify) look(*e);
    if (!of_.shape_.update_all) {
      if (of_.shape_.width == 8) {
        const auto c = of_.numbers_[op.column];
        return e->set(c, e->get(c) + 1);
      }
      std::fill(text_.begin(), text_.end(), static_cast<char>('a' + ++writes_ % 26));
      return e->set(of_.texts_[op.column], std::string_view(text_));
    }
    for (const auto& c : of_.numbers_) {
      if (const db::status s = e->set(c, e->get(c) + 1); !s) return s;
    }
    for (const auto& c : of_.texts_) {
      std::fill(text_.begin(), text_.end(), static_cast<char>('a' + ++writes_ % 26));
      if (const db::status s = e->set(c, std::string_view(text_)); !s) return s;
    }
    return db::outcome::ok;
  }

  /// Something of every column.
  void look(const db::row& r) {
    for (const auto& c : of_.numbers_) sum += static_cast<std::uint64_t>(r.get(c));
    for (const auto& c : of_.texts_) sum += static_cast<unsigned char>(r.get(c).front());
  }
  void look(const db::editor& e) {
    for (const auto& c : of_.numbers_) sum += static_cast<std::uint64_t>(e.get(c));
    for (const auto& c : of_.texts_) {
      e.visit(c, [&](std::string_view text) { sum += static_cast<unsigned char>(text.front()); });
    }
  }

  engine& of_;
  std::string text_;
  std::vector<db::value> row_;
  std::uint64_t writes_ = 0;
};

std::optional<std::uint64_t> engine::scan(std::uint32_t threads) {
  const db::reader now = base_.snapshot("scan");
  if (threads != 0) {
    const auto what = shape_.width == 8 ? db::sum(name(0)) : db::min(name(0));
    const auto all = now.query(table_).aggregate(what, db::count()).run({.threads = threads});
    return all->get<std::int64_t>(0, 1);
  }
  std::uint64_t rows = 0;
  std::int64_t sum = 0;
  std::string least;
  const auto add = [&](const db::row& r) {
    ++rows;
    if (!numbers_.empty()) {
      sum += r.get(numbers_[0]);
    } else if (rows == 1 || r.get(texts_[0]) < least) {
      least = r.get(texts_[0]);
    }
  };
  now.for_each(table_, add, table_.select({name(0)}));
  scanned_.store_relaxed(sum + static_cast<std::int64_t>(least.size()));
  return rows;
}

std::unique_ptr<ycsb_session> engine::open() { return std::make_unique<session>(*this); }

[[maybe_unused]] const bool told = [] {
  ycsb_engines().insert(ycsb_engines().begin(),
                        {"spolia", [](const ycsb_shape& s) -> std::unique_ptr<ycsb_engine> {
                           return std::make_unique<engine>(s);
                         }});
  return true;
}();

}  // namespace
}  // namespace bench

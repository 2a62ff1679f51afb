// SPDX-License-Identifier: Apache-2.0
// ycsb_lmdb.cpp: LMDB: one writer at a time, readers of a snapshot beside it. Nothing is synced.
#include <lmdb.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "../scratch_folder.hpp"
#include "../ycsb_engine.hpp"

namespace bench {
namespace {

void need(int code) {
  if (code != 0) throw std::runtime_error(std::string("LMDB: ") + ::mdb_strerror(code));
}

class engine final : public ycsb_engine {
 public:
  explicit engine(const ycsb_shape& shape) : shape_(shape) {
    need(::mdb_env_create(&env_));
    try {
      constexpr std::size_t least = std::size_t{4} << 30U;
      need(::mdb_env_set_mapsize(env_, std::max(least, shape.rows * shape.bytes() * 8)));
      need(::mdb_env_set_maxreaders(env_, 2048));
      // NOTLS: a reader that is held may belong to the thread that writes.
      need(::mdb_env_open(env_, folder_.path().c_str(),
                          MDB_NOSYNC | MDB_NOMETASYNC | MDB_WRITEMAP | MDB_NOTLS, 0600));
      MDB_txn* first = nullptr;
      need(::mdb_txn_begin(env_, nullptr, 0, &first));
      need(::mdb_dbi_open(first, nullptr, 0, &rows_));
      need(::mdb_txn_commit(first));
    } catch (...) {
      ::mdb_env_close(env_);
      throw;
    }
  }
  ~engine() override {
    for (MDB_txn* const t : held_) ::mdb_txn_abort(t);
    ::mdb_env_close(env_);
  }
  std::unique_ptr<ycsb_session> open() override;
  void hold() override {
    MDB_txn* held = nullptr;
    need(::mdb_txn_begin(env_, nullptr, MDB_RDONLY, &held));
    held_.push_back(held);
  }

 private:
  friend class session;
  const ycsb_shape shape_;
  const scratch_folder folder_;
  MDB_env* env_ = nullptr;
  MDB_dbi rows_ = 0;
  std::vector<MDB_txn*> held_;
};

/// Ended when it goes out of scope, whatever happens.
class open_transaction {
 public:
  open_transaction(MDB_env* env, bool reads) {
    need(::mdb_txn_begin(env, nullptr, reads ? MDB_RDONLY : 0, &tx_));
  }
  ~open_transaction() {
    if (tx_ != nullptr) ::mdb_txn_abort(tx_);
  }
  open_transaction(const open_transaction&) = delete;
  open_transaction& operator=(const open_transaction&) = delete;
  void commit() { need(::mdb_txn_commit(std::exchange(tx_, nullptr))); }
  operator MDB_txn*() const noexcept { return tx_; }  // NOLINT: it is one

 private:
  MDB_txn* tx_ = nullptr;
};

class session final : public ycsb_session {
 public:
  explicit session(const engine& of) : of_(of), bytes_(of.shape_) {}

  bool run(std::span<const ycsb_op> ops) override {
    const bool reads = std::all_of(ops.begin(), ops.end(), [](const ycsb_op& op) {
      return op.what == ycsb_action::read || op.what == ycsb_action::scan;
    });
    open_transaction tx(of_.env_, reads);  // waits for the writer before
    for (const ycsb_op& op : ops) step(tx, op);
    tx.commit();
    return true;
  }

 private:
  void step(MDB_txn* tx, const ycsb_op& op) {
    char room[8];
    ycsb_key(op.key, room);
    MDB_val key{sizeof(room), room};
    MDB_val value{};
    if (op.what == ycsb_action::scan) return scan(tx, key, op.count);
    if (op.what != ycsb_action::insert) {
      const int code = ::mdb_get(tx, of_.rows_, &key, &value);
      if (code == MDB_NOTFOUND) return missed.add();
      need(code);
      const auto* const row = static_cast<const char*>(value.mv_data);
      if (op.what != ycsb_action::update) sum += bytes_.look(row);
      if (op.what == ycsb_action::read) return;
      put(tx, key, bytes_.changed(row, op));
    } else {
      put(tx, key, bytes_.fresh());
    }
  }
  void put(MDB_txn* tx, MDB_val key, const std::string& row) const {
    MDB_val value{row.size(), const_cast<char*>(row.data())};
    need(::mdb_put(tx, of_.rows_, &key, &value, 0));
  }
  void scan(MDB_txn* tx, MDB_val key, std::uint32_t count) {
    MDB_cursor* cursor = nullptr;
    need(::mdb_cursor_open(tx, of_.rows_, &cursor));
    MDB_val value{};
    int code = ::mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (; code == 0 && count != 0; --count) {
      sum += bytes_.look(static_cast<const char*>(value.mv_data));
      code = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    ::mdb_cursor_close(cursor);
    if (code != MDB_NOTFOUND) need(code);
  }

  const engine& of_;
  ycsb_bytes bytes_;
};

std::unique_ptr<ycsb_session> engine::open() { return std::make_unique<session>(*this); }

[[maybe_unused]] const bool told = [] {
  ycsb_engines().push_back({"lmdb", [](const ycsb_shape& s) -> std::unique_ptr<ycsb_engine> {
                              return std::make_unique<engine>(s);
                            }});
  return true;
}();

}  // namespace
}  // namespace bench

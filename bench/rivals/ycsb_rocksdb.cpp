// SPDX-License-Identifier: Apache-2.0
// ycsb_rocksdb.cpp: RocksDB's two kinds of transactions, each under a snapshot, as ours are;
// nothing is logged unless that is asked for, and the tables stay in memory for as long as they fit
// into its buffers.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>

#include <stdexcept>
#include <vector>

#include "../scratch_folder.hpp"
#include "../ycsb_engine.hpp"

namespace bench {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{256} << 20U;

void need(const rocksdb::Status& s) {
  if (!s.ok()) throw std::runtime_error("RocksDB: " + s.ToString());
}

rocksdb::Options options_of() {
  rocksdb::Options o;
  o.create_if_missing = true;
  o.write_buffer_size = buffer_bytes;
  o.max_write_buffer_number = 4;
  // What conflicts are found with.
  o.max_write_buffer_size_to_maintain = 4 * static_cast<std::int64_t>(buffer_bytes);
  o.info_log_level = rocksdb::ERROR_LEVEL;
  return o;
}

class engine final : public ycsb_engine {
 public:
  engine(const ycsb_shape& shape, bool optimistic) : shape_(shape), folder_(shape.directory) {
    if (optimistic) {
      need(rocksdb::OptimisticTransactionDB::Open(options_of(), folder_.path(), &optimistic_));
      base_.reset(optimistic_);
    } else {
      need(rocksdb::TransactionDB::Open(options_of(), rocksdb::TransactionDBOptions(),
                                        folder_.path(), &pessimistic_));
      base_.reset(pessimistic_);
    }
  }
  ~engine() override {
    for (const rocksdb::Snapshot* const s : held_) base_->ReleaseSnapshot(s);
  }
  std::unique_ptr<ycsb_session> open() override;
  void hold() override { held_.push_back(base_->GetSnapshot()); }

 private:
  friend class session;
  rocksdb::Transaction* begin(rocksdb::Transaction* old) const {
    rocksdb::WriteOptions how;
    how.disableWAL = shape_.durability == "memory" || shape_.durability == "none";
    how.sync = shape_.durability == "sync";
    if (optimistic_ != nullptr) {
      rocksdb::OptimisticTransactionOptions o;
      o.set_snapshot = true;
      return optimistic_->BeginTransaction(how, o, old);
    }
    rocksdb::TransactionOptions o;
    o.set_snapshot = true;
    o.lock_timeout = 0;  // as ours: who meets a lock gives up
    return pessimistic_->BeginTransaction(how, o, old);
  }

  const ycsb_shape shape_;
  const scratch_folder folder_;
  rocksdb::OptimisticTransactionDB* optimistic_ = nullptr;
  rocksdb::TransactionDB* pessimistic_ = nullptr;
  std::unique_ptr<rocksdb::DB> base_;
  std::vector<const rocksdb::Snapshot*> held_;
};

class session final : public ycsb_session {
 public:
  explicit session(const engine& of) : of_(of), bytes_(of.shape_) {}

  bool run(std::span<const ycsb_op> ops) override {
    return until_committed(aborts, [&] {
      tx_.reset(of_.begin(tx_.release()));
      for (const ycsb_op& op : ops) {
        const rocksdb::Status s = step(op);
        if (s.IsNotFound()) {
          missed.add();
        } else if (!s.ok()) {
          need(tx_->Rollback());
          return false_for(s);
        }
      }
      const rocksdb::Status s = tx_->Commit();
      return s.ok() || false_for(s);
    });
  }

 private:
  bool false_for(const rocksdb::Status& s) {
    if (s.IsTryAgain()) {
      aborts.no_history.add();
    } else if (s.IsBusy() || s.IsTimedOut()) {
      aborts.conflict.add();
    } else {
      need(s);
    }
    return false;
  }

  rocksdb::Status step(const ycsb_op& op) {
    char room[8];
    const std::string_view k = ycsb_key(op.key, room);
    const rocksdb::Slice key(k.data(), k.size());
    rocksdb::ReadOptions at;
    at.snapshot = tx_->GetSnapshot();
    switch (op.what) {
      case ycsb_action::read: {
        value_.Reset();
        const rocksdb::Status s = tx_->Get(at, of_.base_->DefaultColumnFamily(), key, &value_);
        if (s.ok()) sum += bytes_.look(value_.data());
        return s;
      }
      case ycsb_action::insert:
        return tx_->Put(key, bytes_.fresh());
      case ycsb_action::scan: {
        const std::unique_ptr<rocksdb::Iterator> i(tx_->GetIterator(at));
        std::uint32_t left = op.count;
        for (i->Seek(key); left != 0 && i->Valid(); i->Next(), --left) {
          sum += bytes_.look(i->value().data());
        }
        return i->status();
      }
      case ycsb_action::update:
      case ycsb_action::modify: {
        value_.Reset();
        rocksdb::Status s = tx_->GetForUpdate(at, of_.base_->DefaultColumnFamily(), key, &value_);
        if (!s.ok()) return s;
        if (op.what == ycsb_action::modify) sum += bytes_.look(value_.data());
        return tx_->Put(key, bytes_.changed(value_.data(), op));
      }
    }
    return rocksdb::Status::OK();
  }

  const engine& of_;
  ycsb_bytes bytes_;
  std::unique_ptr<rocksdb::Transaction> tx_;
  rocksdb::PinnableSlice value_;
};

std::unique_ptr<ycsb_session> engine::open() { return std::make_unique<session>(*this); }

template <bool Optimistic>
std::unique_ptr<ycsb_engine> make(const ycsb_shape& s) {
  return std::make_unique<engine>(s, Optimistic);
}

[[maybe_unused]] const bool told = [] {
  ycsb_engines().push_back({"rocksdb-optimistic", make<true>});
  ycsb_engines().push_back({"rocksdb-pessimistic", make<false>});
  return true;
}();

}  // namespace
}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// ycsb_rlu.cpp: YCSB's transactions as sections over records: under read-log-update with many
// versions, with one copy, and under one readers-writer lock. A row is found by its number, so what
// is measured is the records and not an index; and rows are neither added nor erased.
//
// Source: Kim et al.: MV-RLU, ASPLOS 2019, section 6.4 (DBx1000): a transaction is a section, a row
//         is an object. Here the row's bytes are part of the object's versions.
#include <fmt/format.h>
#include <spolia/rlu/domain.hpp>

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "options.hpp"
#include "rlu_single.hpp"
#include "ycsb_engine.hpp"

namespace bench {
namespace {

/// What a key names: ranges of numbers, one after the other, as ycsb.cpp hands them out.
template <class Row>
class numbered_rows {
 public:
  void add(std::uint64_t key, Row row) {
    const std::size_t range = key >> range_bits;
    if (range >= ranges_.size()) ranges_.resize(range + 1);
    ranges_[range].push_back(std::move(row));
  }
  Row* find(std::uint64_t key) {
    const std::size_t range = key >> range_bits;
    const std::uint64_t number = key & ((std::uint64_t{1} << range_bits) - 1);
    if (range >= ranges_.size() || number >= ranges_[range].size()) return nullptr;
    return &ranges_[range][number];
  }
  template <class F>
  void for_each(F&& f) {
    for (auto& range : ranges_) std::for_each(range.begin(), range.end(), f);
  }

 private:
  static constexpr unsigned range_bits = 40;
  std::vector<std::vector<Row>> ranges_;
};

bool only_reads(std::span<const ycsb_op> ops) {
  return std::all_of(ops.begin(), ops.end(),
                     [](const ycsb_op& op) { return op.what == ycsb_action::read; });
}

/// The columns are the tail.
struct row {
  using tail = std::uint64_t;
  std::uint64_t changes = 0;
};
using row_pointer = spolia::rlu::ptr<row>;

template <class Domain>
inline constexpr bool has_versions = std::is_same_v<Domain, spolia::rlu::domain>;

/// `together`: of read-log-update with one copy.
template <class Domain>
class section_engine final : public ycsb_engine {
 public:
  section_engine(const ycsb_shape& shape, bool serializable, std::uint32_t together = 1)
      : shape_(shape), serializable_(serializable), home_(make_home(together)) {}
  ~section_engine() override {
    over_.store_release(true);  // → the acquire in hold
    for (std::thread& h : holders_) h.join();
    rows_.for_each([&](row_pointer p) { home_->discard(p); });
  }
  std::unique_ptr<ycsb_session> open() override { return std::make_unique<session>(*this); }
  void hold() override {
    if constexpr (has_versions<Domain>) {
      spolia::atomic<bool> there{false};
      holders_.emplace_back([&] {
        home_->read("held", [&](auto&) {
          there.store_release(true);  // → the acquire below
          while (!over_.load_acquire()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
      });
      while (!there.load_acquire()) std::this_thread::yield();
    } else {
      throw usage_error("--hold with one copy of each row: no thread could write");
    }
  }

 private:
  class session final : public ycsb_session {
   public:
    explicit session(section_engine& of) : of_(of), bytes_(of.shape_) {}

    bool run(std::span<const ycsb_op> ops) override {
      if (ops.front().what == ycsb_action::insert) return of_.fill(ops);
      std::uint64_t seen = 0;
      if (only_reads(ops)) {
        of_.home_->read([&](auto& in) {
          for (const ycsb_op& op : ops) seen += look(in, op);
          return true;
        });
      } else {
        std::uint64_t tries = 0;
        of_.home_->update([&](auto& in) {
          ++tries;
          seen = 0;
          if constexpr (has_versions<Domain>) {
            if (of_.serializable_) in.serializable();
          }
          for (const ycsb_op& op : ops) {
            if (op.what != ycsb_action::update) seen += look(in, op);
            if (op.what != ycsb_action::read && !change(in, op)) return false;
          }
          return true;
        });
        aborts.conflict.add(tries - 1);
      }
      sum += seen;
      return true;
    }

   private:
    template <class In>
    std::uint64_t look(In& in, const ycsb_op& op) {
      const row_pointer* const p = of_.rows_.find(op.key);
      if (p != nullptr)
        return bytes_.look(reinterpret_cast<const char*>(in.read(*p).tail().data()));
      missed.add();
      return 0;
    }
    /// False: another section has the row.
    template <class In>
    bool change(In& in, const ycsb_op& op) {
      const row_pointer* const p = of_.rows_.find(op.key);
      if (p == nullptr) return missed.add(), true;
      auto mine = in.try_lock(*p);
      if (!mine) return false;
      ++mine->changes;
      bytes_.change(reinterpret_cast<char*>(mine.tail().data()), op);
      return true;
    }

    section_engine& of_;
    ycsb_bytes bytes_;
  };

  static std::unique_ptr<Domain> make_home(std::uint32_t together) {
    if constexpr (has_versions<Domain>) {
      return std::make_unique<Domain>();
    } else {
      return std::make_unique<Domain>(together);
    }
  }
  /// By one thread, before all others.
  bool fill(std::span<const ycsb_op> ops) {
    for (const ycsb_op& op : ops) {
      rows_.add(op.key, home_->template make<row>({}, row(), (shape_.bytes() + 7) / 8));
    }
    return true;
  }

  const ycsb_shape shape_;
  const bool serializable_;
  const std::unique_ptr<Domain> home_;
  numbered_rows<row_pointer> rows_;
  spolia::atomic<bool> over_{false};
  std::vector<std::thread> holders_;
};

/// All rows under one readers-writer lock.
class locked_engine final : public ycsb_engine {
 public:
  explicit locked_engine(const ycsb_shape& shape) : shape_(shape) {}
  std::unique_ptr<ycsb_session> open() override { return std::make_unique<session>(*this); }
  void hold() override {
    throw usage_error("--hold with a readers-writer lock: no thread could write");
  }

 private:
  class session final : public ycsb_session {
   public:
    explicit session(locked_engine& of) : of_(of), bytes_(of.shape_) {}
    bool run(std::span<const ycsb_op> ops) override {
      if (only_reads(ops)) {
        const std::shared_lock lock(of_.lock_);
        for (const ycsb_op& op : ops) step(op);
      } else {
        const std::unique_lock lock(of_.lock_);
        for (const ycsb_op& op : ops) step(op);
      }
      return true;
    }

   private:
    void step(const ycsb_op& op) {
      if (op.what == ycsb_action::insert) return of_.rows_.add(op.key, bytes_.fresh());
      std::string* const found = of_.rows_.find(op.key);
      if (found == nullptr) return missed.add();
      if (op.what != ycsb_action::update) sum += bytes_.look(found->data());
      if (op.what != ycsb_action::read) bytes_.change(found->data(), op);
    }
    locked_engine& of_;
    ycsb_bytes bytes_;
  };

  const ycsb_shape shape_;
  std::shared_mutex lock_;
  numbered_rows<std::string> rows_;
};

using many = section_engine<spolia::rlu::domain>;
using single = section_engine<rlu_single>;

[[maybe_unused]] const bool told = [] {
  const auto add = [](const char* name, auto make) {
    ycsb_engines().push_back({name, make, false});
  };
  using made = std::unique_ptr<ycsb_engine>;
  add("mvrlu", [](const ycsb_shape& s) -> made { return std::make_unique<many>(s, false); });
  add("mvrlu-serializable",
      [](const ycsb_shape& s) -> made { return std::make_unique<many>(s, true); });
  add("rlu", [](const ycsb_shape& s) -> made { return std::make_unique<single>(s, false); });
  add("rlu-deferred",
      [](const ycsb_shape& s) -> made { return std::make_unique<single>(s, false, 10); });
  add("rwlock", [](const ycsb_shape& s) -> made { return std::make_unique<locked_engine>(s); });
  return true;
}();

}  // namespace
}  // namespace bench

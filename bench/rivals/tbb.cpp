// SPDX-License-Identifier: Apache-2.0
// tbb.cpp: oneTBB's concurrent_hash_map. Not ordered. Its ordered concurrent_map is not here: it
// cannot erase while others use it.
#include <tbb/concurrent_hash_map.h>

#include <memory>
#include <utility>

#include "trial.hpp"

namespace {

using bench::set_options;
using bench::sums;
using bench::trial_result;

class hash_map {
  struct spread {
    static std::size_t hash(std::uint64_t key) { return bench::random_source(key).next(); }
    static bool equal(std::uint64_t a, std::uint64_t b) { return a == b; }
  };
  // With the allocator that all others here use, not with oneTBB's own.
  using map =
      tbb::concurrent_hash_map<std::uint64_t, std::uint64_t, spread,
                               std::allocator<std::pair<const std::uint64_t, std::uint64_t>>>;

 public:
  class worker {
   public:
    explicit worker(hash_map& m) noexcept : map_(m.map_) {}
    bool insert(std::uint64_t key) { return map_.insert({key, key}); }
    bool erase(std::uint64_t key) { return map_.erase(key); }
    bool contains(std::uint64_t key) { return map_.count(key) != 0; }

   private:
    map& map_;
  };

  explicit hash_map(const set_options& o) : map_(o.keys / 2) {}
  static sums counted() { return {}; }
  static std::optional<std::uint64_t> garbage() { return std::nullopt; }
  static void describe(trial_result&, std::size_t) {}

 private:
  map map_;
};

const bool listed = bench::add_rival("tbb_hash_map", "bucket_locks", bench::run_trial<hash_map>);

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// tbb_snapshots.cpp: oneTBB's concurrent_hash_map beside maps with snapshots. It has none: its read
// transactions look up what is there, key by key, of no one instant.
#include <tbb/concurrent_hash_map.h>

#include <cstdint>
#include <memory_resource>
#include <utility>

#include "snapshots_trial.hpp"

namespace {

class hash_map {
  struct spread {
    static std::size_t hash(std::uint64_t key) { return bench::random_source(key).next(); }
    static bool equal(std::uint64_t a, std::uint64_t b) { return a == b; }
  };
  using pair = std::pair<const std::uint64_t, std::uint64_t>;
  using map = tbb::concurrent_hash_map<std::uint64_t, std::uint64_t, spread,
                                       std::pmr::polymorphic_allocator<pair>>;

 public:
  struct instant {};

  explicit hash_map(std::uint64_t keys) : map_(keys / 2, &weight_) {}
  bool insert(std::uint64_t key) { return map_.insert(pair(key, key)); }
  bool erase(std::uint64_t key) { return map_.erase(key); }
  bool contains(std::uint64_t key) const { return map_.count(key) != 0; }
  static instant snapshot(const char*) { return {}; }
  bool at(const instant&, std::uint64_t key) const { return contains(key); }

  static spolia::collector_stats stats() { return {}; }
  std::uint64_t bytes() const { return weight_.bytes(); }
  static void finish(bench::snapshot_result&) {}

 private:
  bench::weighing_resource weight_;
  map map_;
};

const bool listed =
    bench::add_snapshot_rival({"tbb_hash_map", "none", bench::run_snapshot_trial<hash_map>});

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// delta_guarded.hpp: the readers' side of storages that retire versions one by one: each walk down
// a chain is inside a guard of the domain to which they are retired.
//
// Cost:        find(), and visit() and fetch() of several rows: one guard each.
// Threads:     any. Why no reader meets a freed version: delta_chain.hpp.
// Errors:      std::bad_alloc from a thread's first guard.
#pragma once

#include <cstdint>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/versions/delta_blocks.hpp"
#include "db/versions/delta_walk.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_guarded : public delta {
 public:
  void visit(std::span<const old_row> rows, std::uint64_t time, const taking_back* on_the_way,
             version_taker& take) const override {
    if (rows.size() == 1) return delta::visit(rows, time, on_the_way, take);
    if (SPOLIA_FAULT("chain.visits_without_guard")) {
      return visit_together(rows, time, lengths_, version_at, take);
    }
    auto guard = nodes_.enter();
    visit_together(rows, time, lengths_, version_at, take);
  }
  void fetch(std::span<const old_row> rows, std::uint64_t time) const override {
    if (SPOLIA_FAULT("chain.fetches_without_guard")) return fetch_together(rows, time, version_at);
    auto guard = nodes_.enter();
    fetch_together(rows, time, version_at);
  }

 protected:
  using nodes = region_domain;

  explicit delta_guarded(const nodes::options& o) : nodes_(o) {}

  /// For find(). The guard begins before the chain's first link is read; with the planted fault
  /// `early`, after it.
  const version* walk_guarded(const atomic<std::uint64_t>& chain, std::uint64_t time,
                              const taking_back* on_the_way, bool early) const {
    if (early) {
      const atomic<std::uint64_t> begin(chain.load_acquire());  // as in walk()
      auto late = nodes_.enter();
      return walk(begin, time, on_the_way, lengths_, version_at);
    }
    auto guard = nodes_.enter();
    return walk(chain, time, on_the_way, lengths_, version_at);
  }

  mutable nodes nodes_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

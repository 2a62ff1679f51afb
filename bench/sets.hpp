// SPDX-License-Identifier: Apache-2.0
// sets.hpp: Spolia's own structures, as subjects of a trial.
#pragma once

#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/release.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <memory_resource>

#include "counting.hpp"
#include "trial.hpp"

namespace bench {

template <class Scheme>
inline constexpr bool protects_abtree = spolia::protects_stepwise_search<Scheme>;
template <class Scheme>
inline constexpr bool protects_avl = spolia::protects_regions<Scheme>;
template <class Scheme>
inline constexpr bool protects_external_bst = spolia::protects_stepwise_search<Scheme>;
template <class Scheme>
inline constexpr bool protects_list = spolia::scheme<Scheme>;

/// One structure under one scheme and release policy.
template <class Structure, class Scheme, class Release>
class own_set {
 public:
  using domain = spolia::domain<Scheme, Release>;
  using map = typename Structure::template of<domain>;

  class worker {
   public:
    explicit worker(own_set& s) noexcept : map_(*s.map_) {}
    bool insert(std::uint64_t key) { return map_.insert(key, key); }
    bool erase(std::uint64_t key) { return map_.erase(key); }
    bool contains(std::uint64_t key) const { return map_.contains(key); }

   private:
    map& map_;
  };

  explicit own_set(const set_options& o)
      : counting_(o.count ? std::make_unique<counting_resource>() : nullptr),
        bag_(std::max<std::uint64_t>(o.batch, 1)),
        domain_(domain_options(o, counting_.get())) {}

  void prepare() { map_ = std::make_unique<map>(domain_); }

  /// Parks while it looks at a pair, or, where a search can be made to start over, while it
  /// searches.
  template <class Park>
  void stall(Park&& park) {
    if constexpr (spolia::protects_by_restart<Scheme>) {
      auto guard = domain_.enter("stalled");
      guard.read([&] { return park(); });
    } else {
      for (std::uint64_t key = 0; !map_->visit(key, [&](const auto&) { park(); }); ++key) {
      }
    }
  }

  sums counted() const {
    const auto s = domain_.stats();
    return {.retired = s.retired, .freed = s.freed, .epochs = s.epochs};
  }

  std::optional<std::uint64_t> garbage() const { return domain_.garbage(); }

  /// For --count: calls of free are counted from now on, or no longer.
  void count(bool on) noexcept { counting_->count(on); }
  free_counts counts() const { return counting_->counts(); }

  void describe(trial_result& r, std::size_t threads) const {
    const auto pauses = domain_.stats().pauses;
    r.pauses = pauses.count();
    r.free_ns_p50 = pauses.quantile(0.5);
    r.free_ns_p999 = pauses.quantile(0.999);
    r.free_ns_max = pauses.max();
    r.garbage_bound = domain_.garbage_bound(threads + 1);  // the main thread fills and watches
    if (Scheme::info.reclaims) r.bag = bag_;
  }

 private:
  static typename domain::options domain_options(const set_options& o,
                                                 std::pmr::memory_resource* counting) {
    typename domain::options d;
    d.memory = counting;
    d.time_pauses_one_in = o.time_frees;
    d.turn_us = o.turn_us.value_or(d.turn_us);
    if (o.batch != 0) d.release.at_least = o.batch;
    return d;
  }

  const std::unique_ptr<counting_resource> counting_;  // null: the domain asks operator new itself
  const std::uint64_t bag_;                            // what the policy was given
  domain domain_;
  std::unique_ptr<map> map_;
};

template <class Structure, class Scheme, class Release, bool Built>
void add_cell() {
  cell c{Structure::name, std::string(Scheme::info.name),          std::string(Release::name),
         &Scheme::info,   Structure::template protectable<Scheme>, nullptr};
  if constexpr (Built && Structure::template protectable<Scheme>) {
    c.run = run_trial<own_set<Structure, Scheme, Release>>;
  }
  cells().push_back(c);
}

/// Called before main by each generated source.
template <class Structure, class Scheme, bool Built>
bool add_cells() {
  add_cell<Structure, Scheme, spolia::batch, Built>();
  add_cell<Structure, Scheme, spolia::amortized, Built>();
  add_cell<Structure, Scheme, spolia::pooled, Built>();
  return true;
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// cds.hpp: the sets of libcds, under whatever it reclaims memory with.
//
// A garbage collector of libcds is one object a process, and threads attach to it. What it holds
// back it does not tell, so records have no figures of garbage.
#pragma once

#include <cds/container/details/ellen_bintree_base.h>
#include <cds/container/details/lazy_list_base.h>
#include <cds/container/details/michael_list_base.h>
#include <cds/container/details/skip_list_base.h>
#include <cds/init.h>
#include <cds/threading/model.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "probe.hpp"
#include "trial.hpp"

namespace bench {

/// The library, as long as this lives.
struct cds_library {
  cds_library() { cds::Initialize(); }
  ~cds_library() { cds::Terminate(); }
  cds_library(const cds_library&) = delete;
  cds_library& operator=(const cds_library&) = delete;
};

/// A thread that may use the sets, as long as this lives.
struct cds_thread {
  cds_thread() { cds::threading::Manager::attachThread(); }
  ~cds_thread() { cds::threading::Manager::detachThread(); }
  cds_thread(const cds_thread&) = delete;
  cds_thread& operator=(const cds_thread&) = delete;
};

/// The names of its traits differ from structure to structure, the need does not.
template <class Traits>
struct cds_less : Traits {
  using less = std::less<std::uint64_t>;
};

/// Map is a set of libcds. Collector names its reclamation:
///   Collector::gc, Collector::name, Collector::by_region (readers lock, or protect pointers),
///   and Collector(hazards, threads), which keeps the process's one object of it.
template <class Collector, class Map>
class cds_set {
 public:
  class worker {
   public:
    explicit worker(cds_set& s) : map_(s.map_) {}
    bool insert(std::uint64_t key) { return map_.insert(key, key); }
    bool erase(std::uint64_t key) { return map_.erase(key); }
    bool contains(std::uint64_t key) { return map_.contains(key); }

   private:
    cds_thread here_;
    Map& map_;
  };

  explicit cds_set(const set_options& o) : collector_(hazards(), o.threads + 3) {}

  template <class Park>
  void stall(Park&& park) {
    const cds_thread here;
    if constexpr (Collector::by_region) {
      const typename Collector::gc::scoped_lock inside;
      park();
    } else {
      for (std::uint64_t key = 0;; ++key) {
        const auto held = map_.get(key);
        if (!held) continue;
        park();
        return;
      }
    }
  }

  static sums counted() { return {}; }
  static std::optional<std::uint64_t> garbage() { return std::nullopt; }
  static void describe(trial_result&, std::size_t) {}

 private:
  /// As few as the structure can do with: the scans of hazard pointers are shorter then.
  static constexpr std::size_t hazards() {
    if constexpr (requires { Map::c_nHazardPtrCount; }) return Map::c_nHazardPtrCount + 2;
    return 16;
  }

  cds_library library_;
  Collector collector_;
  cds_thread main_;  // its destructor and that of the map free what is left
  Map map_;
};

template <class Collector, class Map>
bool add_cds(const char* structure) {
  return add_rival(structure, Collector::name, run_trial<cds_set<Collector, Map>>);
}

/// The sets that every collector can protect. Their headers, of which each collector has its own,
/// come before.
template <class Collector>
bool add_cds_sets() {
  namespace sets = cds::container;
  using gc = typename Collector::gc;
  using word = std::uint64_t;
  using ellen = sets::EllenBinTreeMap<gc, word, word, cds_less<sets::ellen_bintree::traits>>;
  using skips = sets::SkipListMap<gc, word, word, cds_less<sets::skip_list::traits>>;
  using michael = sets::MichaelKVList<gc, word, word, cds_less<sets::michael_list::traits>>;
  using lazy = sets::LazyKVList<gc, word, word, cds_less<sets::lazy_list::traits>>;
  return add_cds<Collector, ellen>("cds_ellen_bst") && add_cds<Collector, skips>("cds_skip_list") &&
         add_cds<Collector, michael>("cds_michael_list") &&
         add_cds<Collector, lazy>("cds_lazy_list");
}

/// What a probe of one collector needs. Made for each measurement: a thread attaches to those
/// collectors only that there are by then.
template <class Collector>
struct cds_probed {
  cds_library library;
  Collector collector{8, 2};
  cds_thread main;
};

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// cds_rcu.cpp: the sets of libcds under its RCU, which collects retired blocks in a buffer. Either
// the thread that fills the buffer waits for a grace period and frees the blocks, or a thread of
// the library does.
#include <cds/urcu/general_buffered.h>
#include <cds/urcu/general_threaded.h>
// Only now what is built on them.
#include <cds/container/bronson_avltree_map_rcu.h>
#include <cds/container/ellen_bintree_map_rcu.h>
#include <cds/container/lazy_kvlist_rcu.h>
#include <cds/container/michael_kvlist_rcu.h>
#include <cds/container/skip_list_map_rcu.h>

#include "rivals/cds.hpp"

namespace {

/// Blocks that a buffer holds. With the library's default, 256, the freeing thread is awake all the
/// time and its sets are up to twice as slow.
constexpr std::size_t buffer = 4096;

struct buffered {
  using gc = cds::urcu::gc<cds::urcu::general_buffered<>>;
  static constexpr const char* name = "cds_rcu";
  static constexpr bool by_region = true;
  buffered(std::size_t, std::size_t) : process(buffer) {}
  gc process;
};

struct threaded {
  using gc = cds::urcu::gc<cds::urcu::general_threaded<>>;
  static constexpr const char* name = "cds_rcu_threaded";
  static constexpr bool by_region = true;
  threaded(std::size_t, std::size_t) : process(buffer) {}
  gc process;
};

template <class Collector>
void add_probes(std::vector<bench::probe>& all) {
  using lock = typename Collector::gc::scoped_lock;
  all.push_back({Collector::name,
                 "enter+leave",
                 [] {
                   const bench::cds_probed<Collector> on;
                   return bench::ns_each([] {
                     const lock inside;
                     bench::touch();
                   });
                 },
                 {}});
}

template <class Collector>
bool add() {
  namespace sets = cds::container;
  using avl = sets::BronsonAVLTreeMap<typename Collector::gc, std::uint64_t, std::uint64_t,
                                      bench::cds_less<sets::bronson_avltree::traits>>;
  bench::rival_probes().push_back(add_probes<Collector>);
  return bench::add_cds_sets<Collector>() && bench::add_cds<Collector, avl>("cds_bronson_avl");
}

const bool listed = add<buffered>() && add<threaded>();

}  // namespace

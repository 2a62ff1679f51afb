// SPDX-License-Identifier: Apache-2.0
// cds_pointers.cpp: the sets of libcds under its hazard pointers, plain and dynamic.
#include <cds/container/ellen_bintree_map_dhp.h>
#include <cds/container/ellen_bintree_map_hp.h>
#include <cds/container/lazy_kvlist_dhp.h>
#include <cds/container/lazy_kvlist_hp.h>
#include <cds/container/michael_kvlist_dhp.h>
#include <cds/container/michael_kvlist_hp.h>
#include <cds/container/skip_list_map_dhp.h>
#include <cds/container/skip_list_map_hp.h>
#include <cds/gc/dhp.h>
#include <cds/gc/hp.h>

#include "rivals/cds.hpp"

namespace {

struct hazard_pointers {
  using gc = cds::gc::HP;
  static constexpr const char* name = "cds_hp";
  static constexpr bool by_region = false;
  hazard_pointers(std::size_t hazards, std::size_t threads) : process(hazards, threads) {}
  gc process;
};

struct dynamic_hazard_pointers {
  using gc = cds::gc::DHP;
  static constexpr const char* name = "cds_dhp";
  static constexpr bool by_region = false;
  dynamic_hazard_pointers(std::size_t hazards, std::size_t) : process(hazards) {}
  gc process;
};

template <class Collector>
void add_probes(std::vector<bench::probe>& all) {
  using gc = typename Collector::gc;
  auto source = std::make_shared<atomics::atomic<int*>>(new int);  // lives as long as the program
  all.push_back({Collector::name,
                 "enter+leave",
                 [] {
                   const bench::cds_probed<Collector> on;
                   return bench::ns_each([] {
                     typename gc::Guard guard;
                     bench::touch();
                   });
                 },
                 {}});
  all.push_back({Collector::name,
                 "protect",
                 [source] {
                   const bench::cds_probed<Collector> on;
                   typename gc::Guard guard;
                   return bench::ns_each([&] { bench::use(guard.protect(*source)); });
                 },
                 {}});
  all.push_back({Collector::name,
                 "enter+protect+leave",
                 [source] {
                   const bench::cds_probed<Collector> on;
                   return bench::ns_each([&] {
                     typename gc::Guard guard;
                     bench::use(guard.protect(*source));
                   });
                 },
                 {}});
}

template <class Collector>
bool add() {
  bench::rival_probes().push_back(add_probes<Collector>);
  return bench::add_cds_sets<Collector>();
}

const bool listed = add<hazard_pointers>() && add<dynamic_hazard_pointers>();

}  // namespace

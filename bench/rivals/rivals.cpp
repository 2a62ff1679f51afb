// SPDX-License-Identifier: Apache-2.0
// rivals.cpp: which sets of other libraries there are to compare with, built or not.
#include <algorithm>
#include <map>

#include "registry.hpp"

namespace bench {

const std::vector<library>& libraries() {
  // The versions come from CMake, which leaves those empty that it did not find.
  static const std::vector<library> all = {
      {.name = "standard library", .package = "", .version = SPOLIA_STANDARD_LIBRARY},
      {.name = "liburcu", .package = "liburcu-dev", .version = SPOLIA_LIBURCU},
      {.name = "libcds", .package = "libcds-dev", .version = SPOLIA_LIBCDS},
      {.name = "oneTBB", .package = "libtbb-dev", .version = SPOLIA_ONETBB},
  };
  return all;
}

const std::vector<rival>& rivals() {
  static const std::string trees = "abtree, avl, external_bst";
  static const std::vector<std::string> urcu = {"urcu_memb", "urcu_qsbr", "urcu_bp"};
  static const std::vector<std::string> cds = {"cds_hp", "cds_dhp", "cds_rcu", "cds_rcu_threaded"};
  static const std::vector<std::string> cds_rcu = {"cds_rcu", "cds_rcu_threaded"};
  static const std::vector<rival> all = {
      {"std_map",
       "standard library",
       "std::map under locks",
       trees,
       {"mutex", "shared_mutex", "sharded_mutex"},
       false},
      {"urcu_list", "liburcu", "sorted list, read under RCU, one lock for writers", "list", urcu,
       true},
      {"urcu_hash", "liburcu", "lock-free hash table (rculfhash), not ordered", "", urcu, true},
      {"cds_ellen_bst", "libcds", "lock-free external binary tree (Ellen et al.)", trees, cds,
       true},
      {"cds_bronson_avl", "libcds", "optimistic AVL tree (Bronson et al.)", trees, cds_rcu, true},
      {"cds_skip_list", "libcds", "lock-free skip list (Herlihy and Shavit)", trees, cds, true},
      {"cds_michael_list", "libcds", "lock-free list (Michael)", "list", cds, true},
      {"cds_lazy_list", "libcds", "lazy list with locks (Heller et al.)", "list", cds, true},
      {"tbb_hash_map", "oneTBB", "concurrent_hash_map, not ordered", "", {"bucket_locks"}, false},
  };
  return all;
}

const std::string& rival_scheme_title(const std::string& scheme) {
  static const std::map<std::string, std::string> titles = {
      {"mutex", "one std::mutex"},
      {"shared_mutex", "one std::shared_mutex"},
      {"sharded_mutex", "64 maps, each with a std::mutex"},
      {"urcu_memb", "liburcu, memb"},
      {"urcu_qsbr", "liburcu, qsbr"},
      {"urcu_bp", "liburcu, bp"},
      {"cds_hp", "libcds, hazard pointers"},
      {"cds_dhp", "libcds, dynamic hazard pointers"},
      {"cds_rcu", "libcds, buffered RCU"},
      {"cds_rcu_threaded", "libcds, RCU with a freeing thread"},
      {"bucket_locks", "oneTBB, a lock a bucket and element"},
  };
  return titles.at(scheme);
}

}  // namespace bench

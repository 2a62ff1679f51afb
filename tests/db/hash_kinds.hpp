// SPDX-License-Identifier: Apache-2.0
// hash_kinds.hpp: tests that run over each table that a hash index may be.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "db/index/cuckoo_index.hpp"
#include "db/index/hash_index.hpp"
#include "db/index/hash_secondary.hpp"

namespace spolia::test {

template <db::hash_kind Kind, template <class, class> class Table>
struct hash_table {
  static constexpr db::hash_kind kind = Kind;
  template <class Same>
  using primary = Table<Same, region_domain>;
  using secondary = db::hash_secondary<region_domain, Table>;
};
using probing_table = hash_table<db::hash_kind::probing, db::hash_index>;
using cuckoo_table = hash_table<db::hash_kind::cuckoo, db::cuckoo_index>;
using hash_tables = testing::Types<probing_table, cuckoo_table>;

struct hash_table_name {
  template <class T>
  static std::string GetName(int) {
    return T::kind == db::hash_kind::probing ? "probing" : "cuckoo";
  }
};

}  // namespace spolia::test

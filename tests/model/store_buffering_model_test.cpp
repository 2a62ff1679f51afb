// SPDX-License-Identifier: Apache-2.0
// Store buffering under the model checker: what is linearizable puts an update before all that its
// thread does next. Two threads each change one object and then look into the other one; one of
// them has to see the other's change. No clocks, and no third thread that could bring news.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>

#include <spolia/base/atomic.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/map/abtree.hpp>
#include <spolia/map/avl.hpp>
#include <spolia/map/changes.hpp>
#include <spolia/map/counted_bst.hpp>
#include <spolia/map/counted_btree.hpp>
#include <spolia/map/counted_hash.hpp>
#include <spolia/map/external_bst.hpp>
#include <spolia/map/list.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/version/dl_rt.hpp>

#include "model/counted_scenarios.hpp"
#include "model/domain_scenarios.hpp"

/// Maps have limits by time, which these do not ask for; the clock's rate is not in this build
/// variant.
double spolia::core::ns_per_tick() noexcept { return 1; }

namespace {

using namespace spolia;
using namespace spolia::test;

using short_domain = domain<debra, batch>;

/// Two maps in one domain.
template <class Map>
struct two_maps {
  two_maps() {
    for (auto& m : maps) {
      m.emplace(home);
      m->insert(0, 1);
    }
  }
  void end() {
    for (auto& m : maps) m.reset();
  }
  Map& operator[](std::size_t i) { return *maps[i]; }
  typename Map::domain_type home;
  std::array<std::optional<Map>, 2> maps;
};
template <class Map>
struct two_counted_maps : counted_state {
  two_counted_maps() {
    for (auto& m : maps) {
      m.emplace();
      m->insert(0, 1);
      m->insert(9, 1);  // else a leaf of counted_btree that loses its last pair goes, too
    }
  }
  void end() {
    for (auto& m : maps) m.reset();
    counted_state::end();
  }
  Map& operator[](std::size_t i) { return *maps[i]; }
  std::array<std::optional<Map>, 2> maps;
};
/// On one timeline.
template <class Map>
struct two_snapshot_maps {
  two_snapshot_maps() {
    for (auto& m : maps) {
      m.emplace(nodes, time, typename Map::options{});
      m->insert(0, 1);
    }
  }
  void end() {
    for (auto& m : maps) m.reset();
  }
  Map& operator[](std::size_t i) { return *maps[i]; }
  short_domain nodes;
  typename Map::timeline_type time;
  std::array<std::optional<Map>, 2> maps;
};

struct by_insert {
  template <class Map>
  static void change(Map& m) {
    m.insert(5, 5);
  }
  template <class Map>
  static bool is_changed(const Map& m) {
    return m.contains(5);
  }
};
struct by_assign {
  template <class Map>
  static void change(Map& m) {
    m.insert_or_assign(0, 2);
  }
  template <class Map>
  static bool is_changed(const Map& m) {
    return m.find(0) == 2;
  }
};
struct by_erase {
  template <class Map>
  static void change(Map& m) {
    m.erase(0);
  }
  template <class Map>
  static bool is_changed(const Map& m) {
    return !m.contains(0);
  }
};
struct by_batch {
  template <class Map>
  static void change(Map& m) {
    changes one;
    one.insert(m, 5, 5);
    one.commit();
  }
  template <class Map>
  static bool is_changed(const Map& m) {
    return m.contains(5);
  }
};

template <class Maps, class By>
void two_objects(model::scenario& run) {
  const auto s = std::make_shared<Maps>();
  const auto seen = std::make_shared<std::array<bool, 2>>();
  for (const std::size_t mine : {0U, 1U}) {
    run.thread([=] {
      By::change((*s)[mine]);
      (*seen)[mine] = By::is_changed((*s)[1 - mine]);
    });
  }
  run.finally([=] {
    model::check((*seen)[0] || (*seen)[1], "neither saw the other's change");
    s->end();
  });
}

/// A map and an atomic variable. By C++ a seq_cst store does not order a look into a map that comes
/// after it, whose loads are acquires: the thread that stores needs a fence, as docs/containers.md
/// says. The map brings its own.
template <class Maps, class By>
void an_object_and_an_atomic(model::scenario& run) {
  struct world : Maps {
    atomic<int> flag{0};
  };
  const auto s = std::make_shared<world>();
  const auto seen = std::make_shared<std::array<bool, 2>>();
  run.thread([=] {
    By::change((*s)[0]);
    (*seen)[0] = s->flag.load_seq_cst() == 1;
  });
  run.thread([=] {
    s->flag.store_seq_cst(1);
    fence::full();
    (*seen)[1] = By::is_changed((*s)[0]);
  });
  run.finally([=] {
    model::check((*seen)[0] || (*seen)[1], "neither saw the other's change");
    s->end();
  });
}

template <class Maps>
struct litmus : testing::Test {
  static void expect_kept(int preemptions) {
    expect_clean(two_objects<Maps, by_insert>, at_most(preemptions));
    expect_clean(two_objects<Maps, by_assign>, at_most(preemptions));
    expect_clean(two_objects<Maps, by_erase>, at_most(preemptions));
    expect_clean(an_object_and_an_atomic<Maps, by_insert>, at_most(preemptions));
    expect_clean(an_object_and_an_atomic<Maps, by_erase>, at_most(preemptions));
  }
};

using none_domain = domain<none>;
using all_maps =
    testing::Types<two_maps<list<int, int, none_domain>>, two_maps<abtree<int, int, none_domain>>,
                   two_maps<external_bst<int, int, none_domain>>,
                   two_maps<avl<int, int, none_domain>>, two_counted_maps<counted_bst<int, int>>,
                   two_counted_maps<counted_btree<int, int>>,
                   two_counted_maps<counted_hash<int, int>>,
                   two_snapshot_maps<snapshot_hash<int, int, dl_rt<short_domain>>>,
                   two_snapshot_maps<snapshot_tree<int, int, dl_rt<short_domain>>>>;
TYPED_TEST_SUITE(litmus, all_maps);

TYPED_TEST(litmus, one_of_two_sees_the_other) { this->expect_kept(0); }

/// Those that publish a change in seq_cst order, and look for it in that, need no fence among
/// themselves.
template <class Maps>
struct litmus_of_fences : testing::Test {};
using maps_with_fences =
    testing::Types<two_maps<list<int, int, none_domain>>, two_maps<abtree<int, int, none_domain>>,
                   two_maps<external_bst<int, int, none_domain>>,
                   two_maps<avl<int, int, none_domain>>, two_counted_maps<counted_btree<int, int>>>;
TYPED_TEST_SUITE(litmus_of_fences, maps_with_fences);

TYPED_TEST(litmus_of_fences, it_is_the_update_that_sees_to_it) {
  expect_found(two_objects<TypeParam, by_erase>, "map.no_fence", at_most(0), "neither saw");
  expect_found(an_object_and_an_atomic<TypeParam, by_erase>, "map.no_fence", at_most(0),
               "neither saw");
}

TEST(batches_litmus, one_of_two_sees_the_other) {
  using maps = two_snapshot_maps<snapshot_hash<int, int, dl_rt<short_domain>>>;
  expect_clean(two_objects<maps, by_batch>, at_most(0));
}

}  // namespace

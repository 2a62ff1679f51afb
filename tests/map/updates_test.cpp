// SPDX-License-Identifier: Apache-2.0
// Updates that go by the value that a key has, in every map: what one thread sees, and what another
// one changes amid an update.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "map/every_map.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using enum update_result::outcome;

template <class Subject>
class updates_by_value : public testing::Test {
 public:
  using numbers = typename Subject::template of<std::uint64_t, std::uint64_t>;
  using texts = typename Subject::template of<std::uint64_t, std::string>;
};
TYPED_TEST_SUITE(updates_by_value, updated_maps, every_map_name);

TYPED_TEST(updates_by_value, answer_like_std_map) {
  typename TestFixture::texts m;
  std::map<std::uint64_t, std::string> model;
  rng random(seed_for(0));
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t key = random.below(40);
    const std::string fresh = std::to_string(random.below(5));
    const auto at = model.find(key);
    const bool there = at != model.end();
    switch (random.below(6)) {
      case 0:
        ASSERT_EQ(m.update(key, [&](std::string& v) { v += fresh; }), there ? updated : absent);
        if (there) at->second += fresh;
        break;
      case 1:
        ASSERT_EQ(m.upsert(
                      key, [&](const std::string& v) { return v + fresh; }, fresh),
                  there ? updated : inserted);
        model[key] += fresh;
        break;
      case 2: {
        const auto got = m.get_or_insert(key, [&] { return fresh; });
        ASSERT_EQ(got.inserted, !there);
        ASSERT_EQ(got.value, model.emplace(key, fresh).first->second);
        break;
      }
      case 3: {
        const auto done = m.compare_exchange(key, fresh, "changed");
        ASSERT_EQ(done, !there ? absent : at->second == fresh ? updated : unchanged);
        if (done == updated) at->second = "changed";
        break;
      }
      case 4: {
        const auto done = m.erase_if(key, [](const std::string& v) { return v.size() > 4; });
        ASSERT_EQ(done, !there ? absent : at->second.size() > 4 ? erased : unchanged);
        if (done == erased) model.erase(at);
        break;
      }
      default:
        ASSERT_EQ(m.extract(key), there ? std::optional(at->second) : std::nullopt);
        model.erase(key);
    }
    ASSERT_EQ(m.size_approx(), model.size());
  }
  for (const auto& [key, value] : model) ASSERT_EQ(m.find(key), value);
}

TYPED_TEST(updates_by_value, a_function_may_leave_the_value_as_it_is_or_throw) {
  typename TestFixture::texts m;
  m.insert(1, "one");
  EXPECT_EQ(m.update(1, [](std::string& v) { return v.clear(), false; }), unchanged);
  EXPECT_THROW(m.update(1, [](std::string& v) { v.clear(), throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_THROW(m.erase_if(1, [](auto&) -> bool { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_THROW(m.get_or_insert(2, []() -> std::string { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(m.find(1), "one");
  EXPECT_FALSE(m.contains(2));
  EXPECT_EQ(m.update(1, [](auto& v) { return v += "!", true; }), updated);
  EXPECT_EQ(m.find(1), "one!");
}

/// All are equal.
struct lookalike {
  explicit lookalike(int n) : number(n) {}
  lookalike(const lookalike& other) : number(other.number) {
    if (copies_left-- != 0) return;
    if (!instead_of_a_copy) throw std::runtime_error("no copy");
    std::exchange(instead_of_a_copy, nullptr)();
  }
  lookalike& operator=(const lookalike& other) = default;
  ~lookalike() {}
  [[maybe_unused]] friend bool operator==(const lookalike&, const lookalike&) {
    if (when_compared) std::exchange(when_compared, nullptr)();
    return true;
  }
  int number;
  static inline int copies_left = -1;  // below zero: as many as one likes
  static inline std::function<void()> instead_of_a_copy{};
  static inline std::function<void()> when_compared{};
};

template <class F>
void elsewhere_meanwhile(F f) {
  std::thread(f).join();
}

TYPED_TEST(updates_by_value, a_value_that_only_looks_the_same_is_another) {
  typename TypeParam::template of<int, lookalike> m;
  for (int n = 0; n < 50; ++n) m.insert(n, lookalike(1));
  // It is replaced; erased and put in again; and both with others around it.
  using change = void (*)(decltype(m)&);
  for (const change meanwhile :
       {change([](auto& map) { map.insert_or_assign(7, lookalike(2)); }), change([](auto& map) {
          map.erase(7);
          map.insert(7, lookalike(2));
        }),
        change([](auto& map) {
          for (int n = 0; n < 50; ++n) map.erase(n);
          for (int n = 0; n < 50; ++n) map.insert(n, lookalike(2));
        })}) {
    m.insert_or_assign(7, lookalike(1));
    std::vector<int> seen;
    const auto with_a_change = [&](const lookalike& v) {
      if (seen.empty()) elsewhere_meanwhile([&] { meanwhile(m); });
      seen.push_back(v.number);
      return true;
    };
    EXPECT_EQ(m.update(7, [&](lookalike& v) { return with_a_change(v), v.number += 10, true; }),
              updated);
    EXPECT_EQ(seen, (std::vector<int>{1, 2}));
    EXPECT_EQ(m.find(7)->number, 12);
    m.insert_or_assign(7, lookalike(1));
    seen.clear();
    EXPECT_EQ(m.erase_if(7, with_a_change), erased);
    EXPECT_EQ(seen, (std::vector<int>{1, 2}));
    EXPECT_FALSE(m.contains(7));
  }
  m.insert(7, lookalike(1));
  lookalike::when_compared = [&] { elsewhere_meanwhile([&] { m.erase(7); }); };
  EXPECT_EQ(m.compare_exchange(7, lookalike(1), lookalike(2)), absent);
  EXPECT_FALSE(m.contains(7));
}

/// Where a node with two children is erased, those on the way to the next key are copied.
TEST(updates_beside_copies, a_value_stays_the_same_in_a_copied_node_and_another_one_does_not) {
  counted_tree<int, std::string> m;
  for (const int key : {40, 20, 80, 60, 50, 45}) m.insert(key, "first");
  const auto update_beside = [&m](const std::function<void()>& change) {
    std::vector<std::string> seen;
    EXPECT_EQ(m.update(60,
                       [&](std::string& v) {
                         if (seen.empty()) elsewhere_meanwhile(change);
                         seen.push_back(v);
                         v += "!";
                       }),
              updated);
    return seen;
  };
  using texts = std::vector<std::string>;
  EXPECT_EQ(update_beside([&] { m.erase(40); }), texts{"first"});
  EXPECT_EQ(update_beside([&] {
              m.insert_or_assign(60, "second");
              m.erase(45);
            }),
            (texts{"first!", "second"}));
  EXPECT_EQ(update_beside([&] { m.erase(50); }), texts{"second!"}) << "it comes in its place";
  EXPECT_EQ(update_beside([&] {
              m.erase(60);
              m.insert(60, "third");
              m.insert(10, "first");
              m.erase(20);
            }),
            (texts{"second!!", "third"}));
  EXPECT_EQ(m.find(60), "third!");
}

TYPED_TEST(updates_by_value, a_copy_that_fails_changes_nothing) {
  typename TypeParam::template of<int, lookalike> m;
  m.insert(7, lookalike(1));
  // With so many copies, and more each time until that is enough.
  const auto fails_until_there_are_enough = [&](auto&& f) {
    for (int copies = 0;; ++copies) {
      lookalike::copies_left = copies;
      try {
        f();
        lookalike::copies_left = -1;
        return copies;
      } catch (const std::runtime_error&) {
        lookalike::copies_left = -1;
        EXPECT_EQ(m.find(7).value_or(lookalike(0)).number, 1) << copies;
      }
    }
  };
  EXPECT_GT(fails_until_there_are_enough([&] { m.update(7, [](auto& v) { v.number = 2; }); }), 0);
  EXPECT_EQ(m.find(7)->number, 2);
  m.insert_or_assign(7, lookalike(1));
  const int copies = fails_until_there_are_enough([&] { m.extract(7); });
  EXPECT_GT(copies, 0);
  EXPECT_FALSE(m.contains(7));
  // And what comes in the place of the value before it has gone is what is taken out.
  m.insert(7, lookalike(1));
  lookalike::copies_left = copies - 1;
  lookalike::instead_of_a_copy = [&] {
    elsewhere_meanwhile([&] { m.insert_or_assign(7, lookalike(2)); });
  };
  EXPECT_EQ(m.extract(7)->number, 2);
  EXPECT_FALSE(m.contains(7));
  lookalike::copies_left = -1;
}

/// An update is not taken in by another value, though the map has moved both.
template <class Map, class Change>
void expect_known(Map& m, int key, Change meanwhile) {
  std::vector<int> seen;
  EXPECT_EQ(m.update(key,
                     [&](lookalike& v) {
                       seen.push_back(v.number);
                       if (seen.size() == 1) elsewhere_meanwhile(meanwhile);
                       v.number += 10;
                     }),
            updated);
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
  EXPECT_EQ(m.find(key)->number, 12);
}
template <class Map>
void insert_lookalikes(Map& m, std::initializer_list<int> keys) {
  for (const int k : keys) m.insert(k, lookalike(1));
}

TEST(updates_of_counted_maps, know_values_wherever_they_were_moved) {
  counted_hash<int, lookalike> hash;
  const auto grow = [&](int from, int to) {
    for (int n = from; n < to; ++n) hash.insert(n, lookalike(0));
  };
  hash.insert(-1, lookalike(1));
  grow(0, 1000);
  expect_known(hash, -1, [&] {
    hash.insert_or_assign(-1, lookalike(2));
    grow(1000, 4000);
  });
  // Where two children hang, the way down to the next key is copied; this lies on the way,
  counted_bst<int, lookalike> tree;
  insert_lookalikes(tree, {50, 40, 80, 70, 60});
  tree.erase(50);
  expect_known(tree, 70, [&] {
    tree.insert_or_assign(70, lookalike(2));
    tree.insert(65, lookalike(0));
    tree.erase(60);
  });
  // and this is the next key.
  counted_bst<int, lookalike> other;
  insert_lookalikes(other, {50, 40, 80, 70});
  other.erase(50);
  expect_known(other, 70, [&] {
    other.erase(70);
    other.insert(70, lookalike(2));
    other.insert(30, lookalike(0));
    other.erase(40);
  });
}

TYPED_TEST(updates_by_value, what_was_put_in_meanwhile_is_not_lost) {
  typename TestFixture::numbers m;
  int made = 0;
  const auto too_late = [&] {
    if (made++ == 0) elsewhere_meanwhile([&] { m.insert(7, std::uint64_t{1}); });
    return std::uint64_t{100};
  };
  EXPECT_EQ(m.get_or_insert(7, too_late).value, 1U);
  EXPECT_EQ(made, 1);
  m.erase(7);
  made = 0;
  EXPECT_EQ(m.upsert(7, [](std::uint64_t& n) { ++n; }, too_late), updated);
  EXPECT_EQ(m.find(7), 2U);
  // And what has gone meanwhile does not come back.
  int calls = 0;
  EXPECT_EQ(m.update(7,
                     [&](std::uint64_t& n) {
                       if (calls++ == 0) elsewhere_meanwhile([&] { m.erase(7); });
                       ++n;
                     }),
            absent);
  EXPECT_FALSE(m.contains(7));
}

/// Padding is no part of a value.
struct padded {
  char small;
  std::uint64_t large;
  friend bool operator==(const padded&, const padded&) = default;
};
struct nothing_inside {};

TYPED_TEST(updates_by_value, padding_is_no_part_of_a_value) {
  typename TypeParam::template of<int, padded> m;
  for (int n = 0; n < 100; ++n) m.upsert(n % 20, [](padded& p) { ++p.large; }, padded{'a', 1});
  EXPECT_EQ(m.find(3), (padded{'a', 5}));
}

TYPED_TEST(updates_by_value, values_are_the_same_by_their_own_operator) {
  if constexpr (no_long_cases) {
    GTEST_SKIP() << "SKIPPED it takes long to compile";
  } else {
    typename TypeParam::template of<int, nothing_inside> set;
    typename TypeParam::template of<int, double> reals;
    for (int n = 0; n < 100; ++n) {
      set.upsert(n % 20, [](nothing_inside&) {}, nothing_inside{});
      reals.upsert(n % 20, [](double x) { return -x; }, 0.0);
    }
    EXPECT_EQ(set.update(3, [](nothing_inside&) {}), updated);
    EXPECT_EQ(reals.compare_exchange(3, -0.0, 1.0), updated);
  }
}

TYPED_TEST(updates_by_value, a_map_is_cleared_and_shows_all_its_pairs_before) {
  typename TestFixture::texts m;
  std::map<std::uint64_t, std::string> model;
  rng random(seed_for(0));
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t key = random.below(2000);
    m.insert_or_assign(key, std::to_string(i));
    model.insert_or_assign(key, std::to_string(i));
    if (i % 3 == 0) model.erase(key / 2), m.erase(key / 2);
  }
  std::map<std::uint64_t, std::string> shown;
  m.for_each([&](std::uint64_t key, const std::string& v) {
    ASSERT_TRUE(shown.emplace(key, v).second) << key << " came twice";
  });
  EXPECT_EQ(shown, model);
  if constexpr (requires { m.range(1, 2, [](auto, auto&) {}); }) {
    std::vector<std::uint64_t> keys;
    m.range(500, 1500, [&](std::uint64_t key, const std::string&) { keys.push_back(key); });
    std::vector<std::uint64_t> expected;
    for (auto at = model.lower_bound(500); at != model.lower_bound(1500); ++at) {
      expected.push_back(at->first);
    }
    EXPECT_EQ(keys, expected);
  }
  int calls = 0;
  m.for_each([&](std::uint64_t, const std::string&) { return ++calls < 10; });
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(m.clear(), model.size());
  EXPECT_TRUE(m.empty_approx());
  m.for_each([](std::uint64_t, const std::string&) { FAIL(); });
}

/// Equivalent if they are so many hundreds.
struct hundreds {
  int number;
  friend bool operator<(const hundreds& a, const hundreds& b) {
    return a.number / 100 < b.number / 100;
  }
  friend bool operator==(const hundreds& a, const hundreds& b) {
    return a.number / 100 == b.number / 100;
  }
};
/// The same on the heap.
struct long_hundreds : hundreds {
  explicit(false) long_hundreds(int n) : hundreds{n}, text(std::to_string(n)) {}
  std::string text;
};

}  // namespace

template <>
struct std::hash<hundreds> {
  std::size_t operator()(const hundreds& h) const noexcept {
    return static_cast<std::size_t>(h.number / 100);
  }
};
template <>
struct std::hash<long_hundreds> : std::hash<hundreds> {};

namespace {

template <class Map>
void expect_keys_stay(Map&& m) {
  for (int n = 0; n < 40; ++n) m.insert({100 * n + 1}, 1);
  for (int n = 0; n < 40; ++n) {
    EXPECT_FALSE(m.insert({100 * n + 2}, 2));
    EXPECT_FALSE(m.insert_or_assign({100 * n + 3}, 3));
    EXPECT_EQ(m.update({100 * n + 4}, [](int& v) { ++v; }), updated);
  }
  int seen = 0;
  m.for_each([&](const auto& key, int v) {
    EXPECT_EQ(key.number % 100, 1);
    EXPECT_EQ(v, 4);
    ++seen;
  });
  EXPECT_EQ(seen, 40);
}
TYPED_TEST(updates_by_value, the_key_that_is_there_stays) {
  if constexpr (!no_long_cases) expect_keys_stay(typename TypeParam::template of<hundreds, int>());
  expect_keys_stay(typename TypeParam::template of<long_hundreds, int>());
}

template <class Map>
bool is_free_of_guards(Map& m) {
  m.domain().pins();  // the first check only takes note of a guard
  return m.domain().pins().empty();
}

TYPED_TEST(updates_by_value, no_guard_is_held_while_a_function_runs) {
  typename TestFixture::texts m;
  if constexpr (requires { m.domain().pins(); }) {
    m.insert(1, "one");
    const auto free_of_guards = [&](const std::string& v) {
      EXPECT_TRUE(is_free_of_guards(m));
      return v + "!";
    };
    EXPECT_EQ(m.update(1, free_of_guards), updated);
    EXPECT_EQ(m.upsert(2, free_of_guards, [&] { return free_of_guards("two"); }), inserted);
    EXPECT_EQ(m.erase_if(1, [&](auto& v) { return !free_of_guards(v).empty(); }), erased);
  }
}

/// A number whose end may be asked about.
struct ends_with_a_question {
  explicit(false) ends_with_a_question(std::uint64_t n) : number(n) {}
  ends_with_a_question(const ends_with_a_question&) = default;
  ends_with_a_question& operator=(const ends_with_a_question&) = default;
  ~ends_with_a_question() {
    if (question != nullptr) (*question)();
  }
  std::uint64_t number;
  static inline const std::function<void()>* question = nullptr;
};

TYPED_TEST(updates_by_value, no_guard_is_held_while_a_copy_ends) {
  using value = ends_with_a_question;
  typename TypeParam::template of<std::uint64_t, value> m;
  if constexpr (requires { m.domain().pins(); }) {
    for (std::uint64_t n = 0; n < 500; ++n) m.insert(n, value(n));
    int asked = 0;
    const std::function<void()> question = [&] {
      ++asked;
      EXPECT_TRUE(is_free_of_guards(m));
    };
    value::question = &question;
    m.for_each([](std::uint64_t, const value&) {});
    int calls = 0;
    m.update(7, [&](const value& v) {
      if (++calls < 3) {
        std::thread([&] { m.insert_or_assign(7, value(v.number + 10)); }).join();
      }
      return value(v.number + 1);
    });
    value::question = nullptr;
    EXPECT_EQ(m.find(7)->number, 28U);
    EXPECT_GT(asked, 0);
  }
}

template <class Map>
void expect_works_without_copies(Map& m) {
  m.insert(1, std::make_unique<int>(1));
  const auto more = [](const std::unique_ptr<int>& p) { return std::make_unique<int>(*p + 1); };
  EXPECT_EQ(m.update(1, more), updated);
  EXPECT_EQ(m.upsert(1, more, [] { return std::make_unique<int>(1); }), updated);
  EXPECT_EQ(m.upsert(2, more, [] { return std::make_unique<int>(1); }), inserted);
  EXPECT_TRUE(m.visit(1, [](auto& p) { EXPECT_EQ(*p, 3); }));
  EXPECT_EQ(m.erase_if(1, [](auto& p) { return *p == 4; }), unchanged);
  EXPECT_EQ(m.erase_if(1, [](auto& p) { return *p == 3; }), erased);
}
TEST(updates_of_snapshot_maps, take_values_that_can_only_be_moved) {
  snapshot_hash<int, std::unique_ptr<int>> hash;
  expect_works_without_copies(hash);
  snapshot_tree<int, std::unique_ptr<int>> tree;
  expect_works_without_copies(tree);
}

template <class Map>
void expect_key_stays_beside_a_moved_value(Map&& m) {
  m.insert({101}, std::make_unique<int>(1));
  EXPECT_FALSE(m.insert_or_assign({102}, std::make_unique<int>(2)));
  const snapshot now;
  for (const auto& [key, value] : m.all(now)) {
    EXPECT_EQ(key.number, 101);
    EXPECT_EQ(*value, 2);
  }
}
TEST(updates_of_snapshot_maps, keep_the_key_that_is_there) {
  expect_key_stays_beside_a_moved_value(snapshot_hash<hundreds, std::unique_ptr<int>>());
  expect_key_stays_beside_a_moved_value(snapshot_tree<hundreds, std::unique_ptr<int>>());
}

}  // namespace

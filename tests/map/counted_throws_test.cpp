// SPDX-License-Identifier: Apache-2.0
// Values whose destructors change the map that they are in, and whose copies fail: what was copied
// in vain ends after the writer's turn, or its locks. Else it would wait for itself forever, which
// the children of forks do here until an alarm ends them.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include <spolia/map.hpp>
#include <spolia/memory.hpp>

#include "support/elsewhere.hpp"
#include "support/faults.hpp"
#include "support/few_types.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct no_copy : std::runtime_error {
  no_copy() : runtime_error("no copy") {}
};

/// What the values of this file's one thread do.
struct conduct {
  int copies_left = -1;  // before one throws; negative: none does
  bool ends = false;     // a destructor has been at the map, or is
  bool again = false;    // the next one may, too
  std::function<void()> at_end;
  int beside = 1;  // the key that destructors change: odd, beside the one that is changed
  std::int64_t alive = 0;
};
thread_local conduct now;

/// apart: it owns memory, so a B tree's leaves have it in a block of its own. large: its nodes are
/// not the pool's, so each is an allocation that can fail.
enum class kind : std::uint8_t { plain, apart, large };
template <kind Is>
class meddler {
 public:
  explicit meddler(int n) : number(n) { ++now.alive; }
  meddler(const meddler& r) : number(r.number) {
    if (now.copies_left >= 0 && now.copies_left-- == 0) throw no_copy();
    ++now.alive;
  }
  meddler& operator=(const meddler&) = delete;
  ~meddler() {
    --now.alive;
    if (!now.at_end || std::exchange(now.ends, true)) return;
    const int left = std::exchange(now.copies_left, -1);
    now.at_end();
    now.copies_left = left;
    if (now.again) now.ends = false;
  }
  [[nodiscard]] std::size_t owned_bytes() const noexcept
    requires(Is == kind::apart)
  {
    return 8;
  }
  const int number;

 private:
  std::array<char, Is == kind::large ? 600 : 1> bytes_{};
};

template <template <class...> class Map, class Family, kind Is>
struct subject {
  using value = meddler<Is>;
  using map = Map<int, value, Family>;
};

template <class Subject>
class counted_throws : public testing::Test {};
using subjects = types<6, subject<counted_bst, thin_family, kind::plain>,
                       subject<counted_tree, thin_family, kind::large>,
                       subject<counted_btree, thin_family, kind::plain>,
                       subject<counted_btree_locked, thin_family, kind::large>,
                       subject<counted_hash, thin_family, kind::plain>,
                       subject<counted_btree, thin_family, kind::apart>,
                       subject<counted_btree_locked, thin_family, kind::plain>,
                       subject<counted_btree_locked, shared_family, kind::apart>,
                       subject<counted_bst, shared_family, kind::large>,
                       subject<counted_tree, shared_family, kind::plain>,
                       subject<counted_btree, shared_family, kind::large>>;
TYPED_TEST_SUITE(counted_throws, subjects);

template <class Map>
std::map<int, int> content_of(const Map& m) {
  std::map<int, int> all;
  m.for_each([&](int key, const auto& value) {
    if (key % 2 == 0) all.emplace(key, value.number);
  });
  return all;
}

/// Fails at the first copy, then at the second, and so on, until nothing fails. True: so it did,
/// and some copies ended. Each time the map is as it was, but for what a destructor does.
template <class Map, class Change>
bool fails_at_each_copy(Map& m, const Change& change) {
  bool some_ended = false;
  const auto before = content_of(m);
  for (int n = 0;; ++n) {
    now.ends = false;
    now.copies_left = n;
    bool failed = false;
    try {
      change();
    } catch (const no_copy&) {
      failed = true;
    }
    now.copies_left = -1;
    some_ended |= failed && now.ends;
    if (!failed) return some_ended;
    EXPECT_EQ(content_of(m), before);
    if (testing::Test::HasFailure()) return some_ended;
  }
}
/// The same where there is no more memory.
template <class Map, class Change>
void fails_at_each_allocation(Map& m, const Change& change) {
  const auto before = content_of(m);
  for (std::uint64_t n = 1;; ++n) {
    now.ends = false;
    {
      const fail_after nth(n);
      try {
        change();
        return;
      } catch (const std::bad_alloc&) {
      }
    }
    now.ends = true;
    EXPECT_EQ(content_of(m), before);
    if (testing::Test::HasFailure()) return;
  }
}

/// Even ones, in an order in which trees get nodes with two children, and ways below these.
std::vector<int> order_of(int many) {
  std::vector<int> keys;
  for (int i = 0; i < many; ++i) keys.push_back(i * 37 % many * 2);
  return keys;
}
constexpr int many = 70;

/// `each(change)` of insertions, replacements, updates and erasures.
template <class Map, class Value, class Each>
void change_all(Map& m, const Each& each) {
  const auto beside = [&](int key, const auto& change) {
    now.beside = key + 1;
    each(change);
  };
  for (const int key : order_of(many)) {
    const Value fresh(key);
    beside(key, [&] { m.insert(key, fresh); });
  }
  for (const int key : order_of(many)) {
    const Value fresh(-key);
    beside(key, [&] { m.insert_or_assign(key, fresh); });
    beside(key, [&] { m.update(key, [&](const Value& v) { return Value(v.number - 1); }); });
  }
  for (const int key : order_of(many)) {
    if (key % 3 != 0) beside(key, [&] { m.erase(key); });
  }
}
template <class Map, class Value>
void let_destructors_meddle(Map& m) {
  now.at_end = [&m] {
    try {
      if (!m.erase(now.beside)) m.insert(now.beside, Value(0));
    } catch (const std::bad_alloc&) {  // an allocation's failure may strike here
    }
  };
}
void expect_none_left() {
  now.at_end = nullptr;
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(now.alive, 0);
}

TYPED_TEST(counted_throws, copies_in_vain_end_after_the_turn) {
  using value = typename TypeParam::value;
  EXPECT_EQ(status_of_child([] {
              bool some_ended = false;
              {
                typename TypeParam::map m;
                let_destructors_meddle<typename TypeParam::map, value>(m);
                change_all<typename TypeParam::map, value>(
                    m, [&](const auto& change) { some_ended |= fails_at_each_copy(m, change); });
                now.at_end = nullptr;
              }
              EXPECT_TRUE(some_ended);
              expect_none_left();
            }),
            0);
}

TYPED_TEST(counted_throws, copies_end_after_the_turn_where_memory_is_short) {
  using value = typename TypeParam::value;
  EXPECT_EQ(status_of_child([] {
              {
                typename TypeParam::map m;
                let_destructors_meddle<typename TypeParam::map, value>(m);
                change_all<typename TypeParam::map, value>(
                    m, [&](const auto& change) { fails_at_each_allocation(m, change); });
                now.at_end = nullptr;
              }
              expect_none_left();
            }),
            0);
}

/// A scan copies in a turn, too.
TYPED_TEST(counted_throws, copies_of_a_scan_end_after_the_turn) {
  using value = typename TypeParam::value;
  EXPECT_EQ(status_of_child([] {
              {
                typename TypeParam::map m;
                const int pairs = 400;
                for (int i = 0; i < pairs; ++i) m.insert(i * 37 % pairs * 2, value(i));
                let_destructors_meddle<typename TypeParam::map, value>(m);
                now.again = true;
                for (int n = 0; n < pairs; n += 1 + n / 2) {
                  now.ends = false;
                  now.copies_left = n;
                  EXPECT_THROW(m.for_each([](int, const value&) {}), no_copy);
                  now.copies_left = -1;
                }
                now.at_end = nullptr;
              }
              expect_none_left();
            }),
            0);
}

/// A range of which a map is made: where a copy fails there is no map, and nothing left.
template <class Map, class Value>
void expect_no_map_of_a_range() {
  EXPECT_EQ(status_of_child([] {
              const int pairs = 200;
              Map other;  // which destructors change meanwhile
              {
                std::vector<std::pair<int, Value>> sorted;
                for (int key = 0; key < pairs; ++key) sorted.emplace_back(key, Value(key));
                let_destructors_meddle<Map, Value>(other);
                for (int n = 0; n < pairs; ++n) {
                  now.ends = false;
                  now.copies_left = n;
                  EXPECT_THROW(Map(sorted_unique, sorted.begin(), sorted.end()), no_copy);
                  now.copies_left = -1;
                  EXPECT_TRUE(counted::drain());
                  EXPECT_EQ(now.ends, n != 0);
                }
                now.at_end = nullptr;
              }
              other.erase(now.beside);
              expect_none_left();
            }),
            0);
}
TEST(counted_throws_sorted, a_range_that_fails_makes_no_map) {
  expect_no_map_of_a_range<counted_btree<int, meddler<kind::plain>>, meddler<kind::plain>>();
  expect_no_map_of_a_range<counted_btree_locked<int, meddler<kind::apart>>, meddler<kind::apart>>();
}

}  // namespace

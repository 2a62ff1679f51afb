// SPDX-License-Identifier: Apache-2.0
// A hash map and a tree on one timeline, changed one by one and in batches in any order, while
// snapshots and leases come and go, are cloned and moved, and values and iterators of theirs are
// held: all of it shows what plain maps say.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <spolia/map/changes.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/snapshot.hpp>

#include "support/few_types.hpp"
#include "support/stress.hpp"
#include "version/all_collectors.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr std::uint64_t keys = 60;

/// Pairs that lie in leaves as they are, and pairs in counted blocks.
struct numbers {
  using text = std::uint64_t;
  static text of(std::uint64_t n) { return n; }
};
struct texts {
  using text = std::string;
  /// Ordered as the numbers are; longer than what a string holds in itself.
  static text of(std::uint64_t n) {
    const std::string digits = std::to_string(n);
    return std::string(24 - digits.size(), '0') + digits;
  }
};

template <class Collector, class Pairs, std::size_t LeafPairs>
struct subject {
  using collector = Collector;
  using pairs = Pairs;
  using text = typename Pairs::text;
  using hash = snapshot_hash<text, text, Collector>;
  using tree = snapshot_tree<text, text, Collector, std::less<text>, LeafPairs>;
};

template <class Subject>
class snapshots_against_maps : public testing::Test {
 protected:
  using collector = typename Subject::collector;
  using pairs = typename Subject::pairs;
  using text = typename Subject::text;
  using hash = typename Subject::hash;
  using tree = typename Subject::tree;
  using model = std::map<text, text>;
  struct both {
    model in_hash;
    model in_tree;
  };
  using instant = std::shared_ptr<const both>;

  /// A snapshot, and values that were found at it.
  struct held {
    snapshot at;
    instant sees;
    std::vector<std::pair<const text*, text>> found{};
  };
  /// A walk over the tree that goes on when its snapshot has gone elsewhere.
  struct walk {
    using range = decltype(std::declval<const tree&>().all(std::declval<const snapshot&>()));
    walk(range&& r, const instant& i, typename model::const_iterator lo,
         typename model::const_iterator hi)
        : all(std::move(r)), sees(i), first(lo), last(hi), expected(lo), at(all.begin()) {}
    range all;
    instant sees;
    typename model::const_iterator first, last, expected;
    decltype(all.begin()) at;
  };
  struct leased {
    lease at;
    instant sees;
  };

  void SetUp() override {
    if (!usable<collector>()) GTEST_SKIP() << "this machine has no such clock";
    typename hash::options o;
    o.collector = eager_options<collector>();
    o.buckets = 2;
    o.load = 2;
    h = std::make_unique<hash>(time, o);
    t = std::make_unique<tree>(time, typename tree::options{.collector = o.collector});
  }

  text any_key() { return pairs::of(random.below(keys)); }
  template <class Of>
  auto any(Of& list) {
    return std::next(list.begin(), static_cast<std::ptrdiff_t>(random.below(list.size())));
  }
  instant present() { return std::make_shared<const both>(now); }

  template <class Map>
  void change(Map& m, model& plain) {
    const text key = any_key();
    const text value = pairs::of(++made);
    switch (random.below(3)) {
      case 0:
        ASSERT_EQ(m.insert(key, value), plain.emplace(key, value).second);
        break;
      case 1:
        ASSERT_EQ(m.insert_or_assign(key, value), plain.insert_or_assign(key, value).second);
        break;
      default:
        ASSERT_EQ(m.erase(key), plain.erase(key) == 1);
    }
  }
  template <class Map>
  void name_change(changes& all, Map& m, model& plain) {
    const text key = any_key();
    const text value = pairs::of(++made);
    switch (random.below(3)) {
      case 0:
        all.insert(m, key, value);
        plain.emplace(key, value);
        break;
      case 1:
        all.insert_or_assign(m, key, value);
        plain.insert_or_assign(key, value);
        break;
      default:
        all.erase(m, key);
        plain.erase(key);
    }
  }
  void change_together() {
    changes all;
    both then = now;
    for (std::uint64_t n = 1 + random.below(6); n > 0; --n) {
      random.chance(1, 2) ? name_change(all, *h, then.in_hash) : name_change(all, *t, then.in_tree);
    }
    if (random.chance(1, 8)) return;  // and nothing happens
    all.commit();
    now = std::move(then);
  }

  void take() {
    if (!snapshots.empty() && random.chance(1, 3)) {
      const auto of = any(snapshots);
      snapshots.push_back({of->at.clone(), of->sees});
    } else {
      snapshots.push_back({snapshot(time, random.chance(1, 2) ? "a label" : nullptr), present()});
    }
  }
  void let_go() {
    const auto which = any(snapshots);
    if (random.chance(1, 3)) {
      snapshot elsewhere(std::move(which->at));
      ASSERT_FALSE(which->at);
      check(elsewhere, *which->sees);
    }
    snapshots.erase(which);
  }

  template <class Map>
  void find_one(const Map& m, held& from, const model& plain) {
    const text key = any_key();
    const text* const found = m.find(from.at, key);
    const auto expected = plain.find(key);
    ASSERT_EQ(found != nullptr, expected != plain.end());
    if (found == nullptr) return;
    ASSERT_EQ(*found, expected->second);
    from.found.emplace_back(found, *found);
  }
  static void what_was_found_stays(const held& of) {
    for (const auto& [at, value] : of.found) ASSERT_EQ(*at, value);
  }
  template <class Map>
  void find_many(const Map& m, const snapshot& at, const model& plain) {
    std::vector<text> asked;
    for (std::uint64_t n = random.below(40); n > 0; --n) asked.push_back(any_key());
    std::size_t i = 0;
    m.find_all(at, asked, [&](const text* found) {
      const auto expected = plain.find(asked[i++]);
      ASSERT_EQ(found != nullptr, expected != plain.end());
      if (found != nullptr) {
        ASSERT_EQ(*found, expected->second);
      }
    });
    ASSERT_EQ(i, asked.size());
  }
  void check(const snapshot& at, const both& sees) {
    model shown;
    for (const auto& [key, value] : h->all(at)) ASSERT_TRUE(shown.emplace(key, value).second);
    ASSERT_EQ(shown, sees.in_hash);
    ASSERT_EQ(h->size(at), sees.in_hash.size());
    auto expected = sees.in_tree.begin();
    for (const auto& [key, value] : t->all(at)) {
      ASSERT_TRUE(expected != sees.in_tree.end() && key == expected->first);
      ASSERT_EQ(value, (expected++)->second);
    }
    ASSERT_TRUE(expected == sees.in_tree.end());
    find_many(*h, at, sees.in_hash);
    find_many(*t, at, sees.in_tree);
  }

  void begin_walk() {
    const auto of = any(snapshots);
    const model& plain = of->sees->in_tree;
    if (random.chance(1, 2)) {
      walks.emplace_back(t->all(of->at), of->sees, plain.begin(), plain.end());
      return;
    }
    text lo = any_key();
    text hi = any_key();
    if (hi < lo) std::swap(lo, hi);
    walks.emplace_back(t->range(of->at, lo, hi), of->sees, plain.lower_bound(lo),
                       plain.lower_bound(hi));
  }
  void go_on(walk& w) {
    for (std::uint64_t n = random.below(12); n > 0; --n) {
      if (random.chance(1, 3)) {
        if (w.expected == w.first) return;
        --w.at;
        --w.expected;
      } else {
        if (w.expected == w.last) {
          ASSERT_TRUE(w.at == w.all.end());
          return;
        }
        ++w.at;
        ++w.expected;
      }
      ASSERT_EQ(w.at == w.all.end(), w.expected == w.last);
      if (w.expected == w.last) continue;
      const auto [key, value] = *w.at;
      ASSERT_EQ(key, w.expected->first);
      ASSERT_EQ(value, w.expected->second);
    }
  }

  void read_lease(const leased& of) {
    const text key = any_key();
    const auto expect = [&](const auto& m, const model& plain) {
      const auto expected = plain.find(key);
      const std::optional<text> found = m.find(of.at, key);
      ASSERT_EQ(found.has_value(), expected != plain.end());
      if (found) {
        ASSERT_EQ(*found, expected->second);
      }
      model shown;
      m.for_each(of.at, [&](const text& k, const text& v) { shown.emplace(k, v); });
      ASSERT_EQ(shown, plain);
    };
    try {
      expect(*h, of.sees->in_hash);
      expect(*t, of.sees->in_tree);
      ASSERT_FALSE(of.at.expired());
    } catch (const snapshot_expired&) {
      ASSERT_TRUE(of.at.expired());
    }
  }
  void begin_lease() {
    const auto at_most = random.chance(1, 4) ? std::chrono::nanoseconds(1) : std::chrono::hours(1);
    leases.push_back({lease(time, at_most), present()});
  }

  void look_at_what_is_current() {
    const text key = any_key();
    const auto in_hash = now.in_hash.find(key);
    ASSERT_EQ(h->find(key).value_or(text()),
              in_hash == now.in_hash.end() ? text() : in_hash->second);
    ASSERT_EQ(t->contains(key), now.in_tree.contains(key));
    ASSERT_EQ(h->size_approx(), now.in_hash.size());
    ASSERT_EQ(t->size_approx(), now.in_tree.size());
  }
  void look_after() {
    switch (random.below(4)) {
      case 0:
        h->collect();
        break;
      case 1:
        t->collect();
        break;
      case 2:
        static_cast<void>(h->account());
        break;
      default:
        static_cast<void>(t->account());
        time.leases().end_overdue();
    }
  }

  void step() {
    switch (random.below(32)) {
      case 0:
      case 1:
      case 2:
        return change_together();
      case 3:
        if (snapshots.size() < 6) take();
        return;
      case 4:
        if (!snapshots.empty()) let_go();
        return;
      case 5:
        if (!snapshots.empty() && walks.size() < 4) begin_walk();
        return;
      case 6:
        if (!walks.empty() && random.chance(1, 3)) walks.erase(any(walks));
        return;
      case 7:
      case 8:
      case 9:
        if (!walks.empty()) go_on(*any(walks));
        return;
      case 10:
        if (leases.size() < 3) return begin_lease();
        leases.erase(any(leases));
        return;
      case 11:
        if (!leases.empty()) read_lease(*any(leases));
        return;
      case 12:
        return look_after();
      case 13:
        if (!snapshots.empty()) {
          const auto of = any(snapshots);
          check(of->at, *of->sees);
        }
        return;
      case 14:
      case 15:
        if (!snapshots.empty()) {
          const auto of = any(snapshots);
          random.chance(1, 2) ? find_one(*h, *of, of->sees->in_hash)
                              : find_one(*t, *of, of->sees->in_tree);
          what_was_found_stays(*of);
        }
        return;
      case 16:
        return look_at_what_is_current();
      default:
        // Mostly the tree: it changes its shape more often.
        random.chance(1, 3) ? change(*h, now.in_hash) : change(*t, now.in_tree);
    }
  }

  rng random{seed_for(0)};
  std::uint64_t made = 0;
  typename collector::timeline_type time;
  std::unique_ptr<hash> h;
  std::unique_ptr<tree> t;
  both now;
  std::list<held> snapshots;
  std::list<walk> walks;
  std::list<leased> leases;
};

/// As map_collectors.
template <class Collector>
using with_texts = testing::Types<subject<Collector, texts, 3>>;
using subjects =
    with_every_collector<types_where_cheap, 3, with_texts, subject<bbf<>, texts, 3>,
                         subject<dl_rt<domain<debra>, on_update>, texts, 1>,
                         subject<sl_rt<domain<qsbr>, by_hardware>, numbers, 0>,
                         subject<sl_rt<>, numbers, 2>, subject<epoch_collector<>, numbers, 1>,
                         subject<steam<>, texts, 2>>;
struct subject_names {
  template <class Subject>
  static std::string GetName(int i) {
    return collector_names::GetName<typename Subject::collector>(i);
  }
};
TYPED_TEST_SUITE(snapshots_against_maps, subjects, subject_names);

TYPED_TEST(snapshots_against_maps, in_any_order) {
  for (int i = 0; i < 6000; ++i) {
    this->step();
    if (this->HasFatalFailure()) FAIL() << "at step " << i;
  }
  for (const auto& of : this->snapshots) {
    this->check(of.at, *of.sees);
    this->what_was_found_stays(of);
  }
  this->leases.clear();
  this->walks.clear();
  this->snapshots.clear();
  const snapshot last(this->time);
  this->check(last, this->now);
  const auto audit = this->t->audit();
  EXPECT_EQ(audit.wrong, "");
  EXPECT_EQ(audit.pairs, this->now.in_tree.size());
}

}  // namespace

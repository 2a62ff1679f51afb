// SPDX-License-Identifier: Apache-2.0
// The hash tables over sorted lists in whole domains under the model checker. What happens within
// one list is seen in list_model, too.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <spolia/map/michael_hash.hpp>
#include <spolia/map/split_ordered_hash.hpp>
#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/reclaim/token.hpp>

#include "model/map_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct michaels {
  static constexpr bool unordered = true;
  template <class Domain>
  struct of : michael_hash<int, int, Domain> {
    explicit of(Domain& d) : michael_hash<int, int, Domain>(d, 2) {}
  };
};
/// Doubled by the third key.
struct split_ordereds {
  static constexpr bool unordered = true;
  template <class Domain>
  struct of : split_ordered_hash<int, int, Domain> {
    explicit of(Domain& d) : split_ordered_hash<int, int, Domain>(d, {.buckets = 2, .load = 1}) {}
  };
};

/// All keys in one list.
template <template <class, class, class, class, class> class Map>
struct one_bucket {
  struct all_meet {
    std::size_t operator()(int) const noexcept { return 5; }
  };
  static constexpr bool unordered = true;
  template <class Domain>
  struct of : Map<int, int, Domain, all_meet, std::less<int>> {
    using base = Map<int, int, Domain, all_meet, std::less<int>>;
    explicit of(Domain& d)
      requires std::constructible_from<base, Domain&>
        : base(d) {}
    explicit of(Domain& d) : base(d, 2) {}
  };
};

TEST(list_hashes_model, michaels_is_right) {
  expect_all_clean<michaels, none>(at_most(1));
  expect_all_clean<michaels, hazard_pointers>(at_most_in_order(1));
}
TEST(list_hashes_model, the_split_ordered_one_is_right) {
  expect_all_clean<split_ordereds, none>(at_most_in_order(2));
  expect_all_clean<split_ordereds, token>(at_most_in_order(1));
}
TEST(list_hashes_model, the_split_ordered_one_is_right_under_hazards) {
  expect_all_clean<split_ordereds, hazard_pointers>(at_most_in_order(1));
  expect_all_clean<split_ordereds, hazard_eras>(at_most_in_order(1));
}
TEST(list_hashes_model, three_threads_at_one_place) {
  expect_clean(three_at_one_place<michaels, hazard_pointers>, at_most_in_order(1));
  expect_clean(three_at_one_place<split_ordereds, token>, at_most_in_order(1));
}

TEST(list_hashes_model, a_bucket_whose_marks_are_not_set_loses_insertions) {
  expect_found(insert_behind_an_erase<one_bucket<split_ordered_hash>, token>, "list.no_mark",
               at_most(2), "what the operations' answers say");
  expect_found(insert_behind_an_erase<one_bucket<michael_hash>, token>, "list.no_mark", at_most(2),
               "what the operations' answers say");
}
TEST(list_hashes_model, a_search_that_does_not_ask_for_marks_reads_what_is_freed) {
  expect_found(search_over_what_is_freed<one_bucket<split_ordered_hash>, hazard_pointers>,
               "list.no_validate", at_most_in_order(2), "freed");
  expect_found(search_over_what_is_freed<one_bucket<michael_hash>, hazard_pointers>,
               "list.no_validate", at_most_in_order(2), "freed");
}

// ----------------------------------------------------------------- buckets that are put in order

/// The n-th key of a bucket in a table of that size.
int key_of(std::uint64_t bucket, std::uint64_t size, int n) {
  const detail::map::hash_spread spread(detail::map::next_hash_seed());
  for (int key = 1;; ++key) {
    const std::uint64_t hash = spread.mixed(std::hash<int>()(key));
    if (hash % size == bucket && n-- == 0) return key;
  }
}

/// A table of `size` buckets of which only the first is in order, with two keys that belong into
/// the one asked for, and were put there when it was a part of that.
template <class Scheme>
struct grown_table {
  using domain_type = domain<Scheme, batch>;
  using map = split_ordered_hash<int, int, domain_type>;

  explicit grown_table(std::uint64_t bucket, std::uint64_t size)
      : keys{key_of(bucket, size, 0), key_of(bucket, size, 1), key_of(bucket, size, 2),
             key_of(bucket, size, 3)},
        m(std::make_unique<map>(d, split_ordered_options{.buckets = 1, .load = 2})) {
    m->insert(keys[0], 10);
    m->insert(keys[1], 20);
    m->reserve(2 * size);
    model::check(m->bucket_count() == size, "the table has the size that was reserved");
  }
  bool has(int n) const { return m->contains(keys[static_cast<std::size_t>(n)]); }
  bool insert(int n) { return m->insert(keys[static_cast<std::size_t>(n)], n); }
  bool erase(int n) { return m->erase(keys[static_cast<std::size_t>(n)]); }

  domain_type d;
  const std::array<int, 4> keys;
  std::unique_ptr<map> m;
};

template <class Scheme>
void judge_grown(model::scenario& run, const std::shared_ptr<grown_table<Scheme>>& s,
                 std::array<bool, 4> there) {
  run.finally([=] {
    for (int n = 0; n < 4; ++n) {
      model::check(s->has(n) == there[static_cast<std::size_t>(n)],
                   "the map holds what the operations' answers say");
    }
    std::size_t shown = 0;
    s->m->for_each([&](int, int) { ++shown; });
    model::check(shown == s->m->size_approx(), "the list holds as many pairs as were counted");
    s->m.reset();
  });
}

/// Two threads put the same bucket in order, and a parent of it.
template <class Scheme, std::uint64_t Bucket, std::uint64_t Size>
void put_one_bucket_in_order(model::scenario& run) {
  auto s = std::make_shared<grown_table<Scheme>>(Bucket, Size);
  run.thread([=] { model::check(s->insert(2), "it was not there"); });
  run.thread([=] { model::check(s->insert(3), "nor was that"); });
  judge_grown<Scheme>(run, s, {true, true, true, true});
}

/// A key is looked for, and another one erased, while their bucket is put in order.
template <class Scheme, std::uint64_t Bucket, std::uint64_t Size>
void read_beside_a_bucket_that_comes(model::scenario& run) {
  auto s = std::make_shared<grown_table<Scheme>>(Bucket, Size);
  run.thread([=] { model::check(s->insert(2), "it was not there"); });
  run.thread([=] {
    model::check(s->has(0), "a key that was there all the time is found");
    model::check(s->erase(1), "it was there");
  });
  judge_grown<Scheme>(run, s, {true, false, true, false});
}

/// A scan goes past a bucket that is put in order.
template <class Scheme>
void scan_beside_a_bucket_that_comes(model::scenario& run) {
  auto s = std::make_shared<grown_table<Scheme>>(3, 4);
  run.thread([=] { model::check(s->insert(2), "it was not there"); });
  run.thread([=] {
    int old = 0;
    s->m->for_each([&](int key, int) { old += key == s->keys[0] || key == s->keys[1] ? 1 : 0; });
    model::check(old == 2, "each of the keys that were there comes once");
  });
  judge_grown<Scheme>(run, s, {true, true, true, false});
}

TEST(list_hashes_model, buckets_are_put_in_order_by_several_threads) {
  expect_clean(put_one_bucket_in_order<none, 3, 4>, at_most(2));
  expect_clean(put_one_bucket_in_order<hazard_pointers, 3, 4>, at_most_in_order(1));
  expect_clean(read_beside_a_bucket_that_comes<none, 3, 4>, at_most(2));
  expect_clean(read_beside_a_bucket_that_comes<token, 3, 4>, at_most_in_order(1));
  expect_clean(read_beside_a_bucket_that_comes<hazard_pointers, 3, 4>, at_most_in_order(1));
  expect_clean(scan_beside_a_bucket_that_comes<none>, at_most_in_order(2));
}
/// The words of buckets from the eighth on lie in segments of their own.
TEST(list_hashes_model, segments_are_made_by_several_threads) {
  expect_clean(put_one_bucket_in_order<none, 8, 16>, at_most_in_order(1));
  expect_clean(read_beside_a_bucket_that_comes<none, 8, 16>, at_most_in_order(1));
}

TEST(list_hashes_model, a_bucket_is_published_after_its_dummy_node_is_linked) {
  expect_found(read_beside_a_bucket_that_comes<none, 3, 4>, "split_ordered.set_before_linked",
               at_most(2), "a key that was there all the time is found");
}
TEST(list_hashes_model, a_bucket_has_one_dummy_node) {
  expect_found(put_one_bucket_in_order<none, 3, 4>, "split_ordered.own_dummy", at_most(2),
               "answers say");
}
TEST(list_hashes_model, a_bucket_leads_to_a_dummy_node_that_can_be_read) {
  expect_found(read_beside_a_bucket_that_comes<none, 3, 4>, "split_ordered.set_relaxed", at_most(2),
               "race");
}
TEST(list_hashes_model, a_segment_is_published_whole) {
  expect_found(read_beside_a_bucket_that_comes<none, 8, 16>, "split_ordered.segment_relaxed",
               at_most(2), "race");
}

}  // namespace

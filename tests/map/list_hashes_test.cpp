// SPDX-License-Identifier: Apache-2.0
// What both hash tables over sorted lists promise of their nodes: how many bytes they take, when
// they are retired, and how many wait beside a reader that has stopped.
#include <spolia/map/michael_hash.hpp>
#include <spolia/map/split_ordered_hash.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <utility>

#include "map/subjects.hpp"
#include "support/ledger.hpp"
#include "support/parked_thread.hpp"

namespace spolia::test {
namespace {

/// Bytes and blocks of a domain that are there.
class node_memory final : public std::pmr::memory_resource {
 public:
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> blocks{0};

 private:
  void* do_allocate(std::size_t n, std::size_t align) override {
    bytes += n;
    ++blocks;
    return std::pmr::new_delete_resource()->allocate(n, align);
  }
  void do_deallocate(void* p, std::size_t n, std::size_t align) override {
    bytes -= n;
    --blocks;
    std::pmr::new_delete_resource()->deallocate(p, n, align);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

template <class Kind>
class list_hashes : public testing::Test {};
using list_hash_kinds = testing::Types<michael_hashes, split_ordered_hashes>;
struct list_hash_names {
  template <class Kind>
  static std::string GetName(int) {
    return std::is_same_v<Kind, michael_hashes> ? "michael" : "split_ordered";
  }
};
TYPED_TEST_SUITE(list_hashes, list_hash_kinds, list_hash_names);

TYPED_TEST(list_hashes, a_node_takes_as_much_as_is_said) {
  if (SPOLIA_CHECKS) return;  // a checked block knows its maker
  constexpr bool split = std::is_same_v<TypeParam, split_ordered_hashes>;
  node_memory memory;
  domain<token> d({.memory = &memory});
  typename TypeParam::template of<std::uint64_t, std::uint64_t, domain<token>,
                                  std::less<std::uint64_t>>
      m(d);
  for (std::uint64_t k = 0; k < 1000; ++k) m.insert(k, k);
  const std::uint64_t dummies = memory.blocks - 1000;
  EXPECT_EQ(memory.bytes, 1000U * (split ? 48 : 40) + dummies * 32);
  EXPECT_TRUE(split ? dummies > 100 && dummies <= 1024 : dummies == 0) << dummies;
}

TYPED_TEST(list_hashes, each_erase_and_each_replacement_retires_one_node) {
  domain<> d;
  {
    typename TypeParam::template of<int, int, domain<>, std::less<int>> m(d);
    for (int k = 0; k < 100; ++k) m.insert(k, k);
    for (int k = 0; k < 100; ++k) m.insert(k, k);
    EXPECT_EQ(d.stats().retired, 0U);
    for (int k = 0; k < 30; ++k) m.insert_or_assign(k, k + 1);
    EXPECT_EQ(d.stats().retired, 30U);
    for (int k = 0; k < 100; k += 2) m.erase(k);
    EXPECT_EQ(d.stats().retired, 80U);
    EXPECT_EQ(&m.domain(), &d);
  }
  EXPECT_EQ(d.stats().retired, 80U) << "the destructor gives the rest back without retiring it";
}

TYPED_TEST(list_hashes, keys_that_are_moved_are_not_copied) {
  using tracked_key = test::tracked;
  ledger book;
  int replaced = 0;
  {
    typename TypeParam::template of<tracked_key, tracked_key, domain<>, std::less<tracked_key>> m;
    for (std::uint64_t i = 0; i < 50; ++i) {
      m.insert(tracked_key(book, i), tracked_key(book, i));
      if (!m.insert_or_assign(tracked_key(book, i / 2), tracked_key(book, i))) ++replaced;
      if (i % 3 == 0) m.erase(tracked_key(book, i));
    }
    EXPECT_EQ(book.copied(), replaced) << "the key that is there, into the node that replaces it";
  }
  book.expect_empty();
}

/// What waits beside a reader that stops in a visit is within the scheme's bound: in blocks as the
/// domain counts them, and in bytes as they come from memory.
template <class Kind, class Scheme>
void expect_bounded_beside_a_stalled_reader() {
  using home = domain<Scheme, amortized>;
  constexpr std::uint64_t keys = 50;
  node_memory memory;
  auto options = eager<home>();
  options.memory = &memory;
  home d(options);
  {
    typename Kind::template of<std::uint64_t, std::uint64_t, home, std::less<std::uint64_t>> m(d);
    for (std::uint64_t k = 0; k < keys; ++k) m.insert(k, k);
    const std::uint64_t blocks = memory.blocks;
    const std::uint64_t largest = memory.bytes / blocks + 64;
    parked_thread reader(
        [&](parking_spot& spot) { m.visit(7, [&](std::uint64_t) { spot.park(); }); });
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      ASSERT_TRUE(m.erase(i % keys));
      ASSERT_TRUE(m.insert(i % keys, i));
    }
    const auto bound = d.garbage_bound(2);
    ASSERT_TRUE(bound.has_value());
    ASSERT_LT(*bound, 10'000U) << "less than what was erased, so that it says something";
    EXPECT_LE(d.garbage(), *bound);
    EXPECT_LE(memory.blocks, blocks + *bound + 64);
    EXPECT_LE(memory.bytes, (blocks + *bound + 64) * largest);
    reader.release();
  }
  EXPECT_TRUE(drain_all(d));
  EXPECT_EQ(memory.blocks, 0U);
}

TYPED_TEST(list_hashes, what_waits_beside_a_stalled_reader_is_bounded) {
  expect_bounded_beside_a_stalled_reader<TypeParam, robust_token>();
  expect_bounded_beside_a_stalled_reader<TypeParam, hazard_pointers>();
}

}  // namespace
}  // namespace spolia::test

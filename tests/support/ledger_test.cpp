// SPDX-License-Identifier: Apache-2.0
// ledger_test.cpp: the book is right, and misuse of an object is noticed.
#include "support/ledger.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <set>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace spolia::test {
namespace {

TEST(ledger, counts_what_is_made_retired_and_destroyed) {
  ledger book;
  {
    tracked a(book, 1);
    tracked b(book, 2);
    b.note_retired();
    EXPECT_EQ(book.made(), 2);
    EXPECT_EQ(book.live(), 2);
    EXPECT_EQ(book.retired(), 1);
    EXPECT_EQ(book.limbo(), 1);
    EXPECT_EQ(book.destroyed(), 0);
  }
  EXPECT_EQ(book.live(), 0);
  EXPECT_EQ(book.limbo(), 0);
  EXPECT_EQ(book.destroyed(), 2);
  EXPECT_EQ(book.retired(), 1);
  EXPECT_EQ(book.peak_live(), 2);
  EXPECT_EQ(book.peak_limbo(), 1);
  book.expect_empty();
}

TEST(ledger, restarts_its_peaks_from_the_present) {
  ledger book;
  const tracked stays(book);
  {
    const std::vector<tracked> many(10, stays);
  }
  EXPECT_EQ(book.peak_live(), 11);
  book.reset_peaks();
  EXPECT_EQ(book.peak_live(), 1);
}

TEST(ledger, expects_to_be_empty) {
  static ledger book;
  auto alive = std::make_unique<tracked>(book);
  EXPECT_NONFATAL_FAILURE(book.expect_empty(), "1 objects were made, 0 destroyed");
  alive.reset();
  book.expect_empty();
}

template <class T>
class tracked_kinds : public testing::Test {};
using kinds = testing::Types<tracked, tracked_overaligned, tracked_big>;
TYPED_TEST_SUITE(tracked_kinds, kinds);

TYPED_TEST(tracked_kinds, counts_copies_and_moves) {
  ledger book;
  {
    TypeParam a(book, 7);
    TypeParam b(a);
    TypeParam c(std::move(a));
    EXPECT_EQ(b.read(), 7U);
    EXPECT_EQ(c.read(), 7U);
    EXPECT_EQ(book.made(), 3);
    EXPECT_EQ(book.copied(), 1);
    EXPECT_EQ(book.moved(), 1);
    a = b;
    EXPECT_EQ(a.read(), 7U);
    b = std::move(c);
    EXPECT_EQ(book.copied(), 2);
    EXPECT_EQ(book.moved(), 2);
    EXPECT_EQ(book.made(), 3);
  }
  book.expect_empty();
}

TYPED_TEST(tracked_kinds, works_in_containers) {
  ledger book;
  {
    std::vector<TypeParam> many;
    for (std::uint64_t i = 0; i < 20; ++i) many.emplace_back(book, i % 10);
    EXPECT_EQ(std::set<TypeParam>(many.begin(), many.end()).size(), 10U);
    EXPECT_EQ(std::unordered_set<TypeParam>(many.begin(), many.end()).size(), 10U);
  }
  book.expect_empty();
}

TEST(tracked, comes_in_sizes_and_alignments) {
  static_assert(sizeof(tracked_big) == 4096);
  static_assert(alignof(tracked_overaligned) == 256);
  static_assert(std::is_nothrow_move_constructible_v<tracked>);
}

// The objects below live in storage of their own, so that what was destroyed can be touched.
template <class T>
struct grave {
  alignas(T) unsigned char storage[sizeof(T)];
  T* object;
  template <class... Args>
  explicit grave(Args&&... args) : object(::new(storage) T(std::forward<Args>(args)...)) {}
};

TYPED_TEST(tracked_kinds, aborts_on_reading_what_was_destroyed) {
  ledger book;
  grave<TypeParam> g(book, 1U);
  g.object->~TypeParam();
  EXPECT_DEATH((void)g.object->read(), "tracked: .* is read, but it is already destroyed");
}

TYPED_TEST(tracked_kinds, aborts_on_a_double_destroy) {
  ledger book;
  grave<TypeParam> g(book, 1U);
  g.object->~TypeParam();
  EXPECT_DEATH(g.object->~TypeParam(), "tracked: .* is destroyed, but it is already destroyed");
}

TYPED_TEST(tracked_kinds, aborts_on_a_double_retire_and_a_late_one) {
  ledger book;
  grave<TypeParam> g(book, 1U);
  g.object->note_retired();
  EXPECT_DEATH(g.object->note_retired(), "tracked: .* is retired, but it is already retired");
  g.object->~TypeParam();
  EXPECT_DEATH(g.object->note_retired(), "tracked: .* is retired, but it is already destroyed");
}

TYPED_TEST(tracked_kinds, aborts_on_copying_what_was_destroyed) {
  ledger book;
  grave<TypeParam> g(book, 1U);
  g.object->~TypeParam();
  EXPECT_DEATH(TypeParam(*g.object), "tracked: .* is read, but it is already destroyed");
}

TYPED_TEST(tracked_kinds, aborts_on_reading_what_was_moved_from) {
  ledger book;
  TypeParam a(book, 1);
  const TypeParam b(std::move(a));
  EXPECT_DEATH((void)a.read(), "tracked: .* is read, but it is moved from");
}

TYPED_TEST(tracked_kinds, aborts_on_reading_memory_that_was_used_again) {
  ledger book;
  grave<TypeParam> g(book, 1U);
  g.object->~TypeParam();
  for (unsigned char& byte : g.storage) byte = 0x41;
  EXPECT_DEATH((void)g.object->read(), "tracked: .* overwritten, or its memory used again");
}

TEST(tracked_big, notices_that_its_end_was_overwritten) {
  ledger book;
  grave<tracked_big> g(book, 1U);
  g.storage[sizeof(g.storage) - 1] ^= 1U;
  EXPECT_DEATH((void)g.object->read(), "tracked: .* is read, but it is overwritten");
}

TEST(tracked, aborts_in_memory_that_is_not_aligned) {
  ledger book;
  alignas(256) unsigned char storage[sizeof(tracked_overaligned) + 16];
  EXPECT_DEATH(::new (storage + 16) tracked_overaligned(book),
               "tracked: .* it is not aligned|misaligned address");
}

TEST(ledger, counts_from_many_threads) {
  ledger book;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        tracked a(book, 1);
        a.note_retired();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(book.made(), 20000);
  EXPECT_EQ(book.retired(), 20000);
  EXPECT_GE(book.peak_live(), 1);
  EXPECT_LE(book.peak_live(), 4);
  EXPECT_LE(book.peak_limbo(), 4);
  book.expect_empty();
}

}  // namespace
}  // namespace spolia::test

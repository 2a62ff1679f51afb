// SPDX-License-Identifier: Apache-2.0
// spolia::atomic and spolia::plain as values. That each operation has the memory order that its
// name says is tested in the model build variant, where it can be seen.

#include <spolia/base/atomic.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

namespace {

using spolia::atomic;
using spolia::plain;

enum class colour : unsigned char { red, green };

// With less alignment clang and libstdc++ 14 call libatomic for a compare-and-swap.
struct alignas(8) two_halves {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  bool operator==(const two_halves&) const = default;
};

static_assert(sizeof(plain<int>) == sizeof(int));
static_assert(std::is_trivially_destructible_v<plain<int>>);
static_assert(!std::is_trivially_destructible_v<plain<std::string>>);
static_assert(sizeof(atomic<char>) == 1 && sizeof(atomic<two_halves>) == 8);
static_assert(!std::is_copy_constructible_v<atomic<int>> &&
              !std::is_copy_assignable_v<atomic<int>>);
static_assert(!std::is_copy_constructible_v<plain<int>> && !std::is_copy_assignable_v<plain<int>>);
static_assert(!std::is_convertible_v<int, atomic<int>> && !std::is_convertible_v<int, plain<int>>);

constinit atomic<int*> null_at_start;
constinit atomic<colour> green_at_start{colour::green};
constinit plain<int> four_at_start{4};

template <class T>
void exercise(T first, T second) {
  atomic<T> word{first};
  EXPECT_EQ(word.load_relaxed(), first);
  word.store_release(second);
  EXPECT_EQ(word.load_acquire(), second);
  EXPECT_EQ(word.exchange_acq_rel(first), second);
  T expected = second;
  EXPECT_FALSE(word.cas_strong_acq_rel(expected, second));
  EXPECT_EQ(expected, first);
  EXPECT_TRUE(word.cas_strong_acq_rel(expected, second));
  EXPECT_EQ(expected, first);
  expected = second;
  while (!word.cas_weak_seq_cst(expected, first)) EXPECT_EQ(expected, second);
  EXPECT_EQ(word.load_seq_cst(), first);
}

TEST(atomic, holds_every_kind_of_small_value) {
  int a = 0, b = 0;
  exercise<bool>(false, true);
  exercise<colour>(colour::red, colour::green);
  exercise<int*>(&a, &b);
  exercise<std::uint8_t>(200, 1);
  exercise<std::int64_t>(-1, std::numeric_limits<std::int64_t>::min());
  exercise<double>(0.5, -2.25);
  exercise<two_halves>({1, 2}, {3, 4});
}

TEST(atomic, starts_with_zero_or_the_given_value) {
  EXPECT_EQ(atomic<int>().load_relaxed(), 0);
  EXPECT_EQ(null_at_start.load_relaxed(), nullptr);
  EXPECT_EQ(green_at_start.load_relaxed(), colour::green);
}

TEST(atomic, arithmetic_returns_the_old_value_and_wraps) {
  atomic<std::uint8_t> byte{250};
  EXPECT_EQ(byte.fetch_add_relaxed(10), 250);
  EXPECT_EQ(byte.fetch_sub_acq_rel(5), 4);
  EXPECT_EQ(byte.fetch_and_release(0xf0), 255);
  EXPECT_EQ(byte.fetch_or_acquire(0x0f), 240);
  EXPECT_EQ(byte.load_relaxed(), 255);
  atomic<int> number{std::numeric_limits<int>::max()};
  number.fetch_add_seq_cst(1);
  EXPECT_EQ(number.load_relaxed(), std::numeric_limits<int>::min());
}

template <class T>
concept has_arithmetic = requires(atomic<T>& word, T value) { word.fetch_add_relaxed(value); };

TEST(atomic, has_arithmetic_for_integers_only) {
  EXPECT_TRUE(has_arithmetic<unsigned>);
  EXPECT_FALSE(has_arithmetic<bool>);
  EXPECT_FALSE(has_arithmetic<int*>);
  EXPECT_FALSE(has_arithmetic<colour>);
  EXPECT_FALSE(has_arithmetic<double>);
}

TEST(plain, holds_a_value_of_any_type) {
  EXPECT_EQ(plain<int>().read(), 0);
  EXPECT_EQ(four_at_start.read(), 4);
  plain<std::string> text{std::string(100, 'a')};
  text.write("b");
  EXPECT_EQ(text.read(), "b");
}

// For the race detector as much as for the value: release and acquire hand plain data over.
TEST(plain, is_handed_over_by_release_and_acquire) {
  plain<int> data;
  atomic<bool> ready;
  std::thread sender([&] {
    data.write(42);
    ready.store_release(true);
  });
  while (!ready.load_acquire()) std::this_thread::yield();
  EXPECT_EQ(data.read(), 42);
  sender.join();
}

TEST(atomic, concurrent_additions_all_count) {
  constexpr int rounds = 20000;
  atomic<int> total;
  atomic<int> swapped;
  auto work = [&] {
    for (int i = 0; i < rounds; ++i) {
      total.fetch_add_relaxed(1);
      int seen = swapped.load_relaxed();
      while (!swapped.cas_weak_relaxed(seen, seen + 1)) {
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(total.load_relaxed(), 2 * rounds);
  EXPECT_EQ(swapped.load_relaxed(), 2 * rounds);
}

}  // namespace

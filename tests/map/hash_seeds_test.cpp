// SPDX-License-Identifier: Apache-2.0
// Hash maps spread keys whose hashes are themselves: such as have a pattern, and such as were
// chosen beforehand. What is counted is how often keys are compared.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <spolia/map/counted_hash.hpp>
#include <spolia/map/hash_seeds.hpp>
#include <spolia/map/michael_hash.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/split_ordered_hash.hpp>

#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using test::tries;
using numbers = std::vector<std::uint64_t>;

std::uint64_t compared = 0;

/// A number that counts how often it is compared.
struct key {
  std::uint64_t number;
  friend bool operator==(key a, key b) noexcept {
    ++compared;
    return a.number == b.number;
  }
  friend bool operator<(key a, key b) noexcept {
    ++compared;
    return a.number < b.number;
  }
};
/// As std::hash of integers and pointers.
struct as_it_is {
  std::size_t operator()(key k) const noexcept { return k.number; }
};

// ------------------------------------------------------------------------------- maps with a seed

struct of_snapshots {
  static constexpr const char* name = "snapshot_hash";
  using map = snapshot_hash<key, int, sl_rt<>, as_it_is>;
  static std::unique_ptr<map> make(std::uint64_t seed, std::size_t) {
    return std::make_unique<map>(map::options{.seed = seed});
  }
  static std::unique_ptr<map> make() { return std::make_unique<map>(); }
  /// Where a key is looked for, as far as a table with 2^bits lists goes by it.
  static std::uint64_t place(std::uint64_t k, std::uint64_t seed, unsigned bits) {
    // And the tag, which saves comparisons.
    const std::uint64_t mixed = spolia::detail::map::hash_spread(seed).mixed(k);
    return mixed >> 56U << bits | (mixed & ((std::uint64_t{1} << bits) - 1));
  }
};
struct counted {
  static constexpr const char* name = "counted_hash";
  using map = counted_hash<key, int, thin_family, as_it_is>;
  static std::unique_ptr<map> make(std::uint64_t seed, std::size_t) {
    return std::make_unique<map>(as_it_is{}, seed);
  }
  static std::unique_ptr<map> make() { return std::make_unique<map>(); }
  static std::uint64_t place(std::uint64_t k, std::uint64_t seed, unsigned bits) {
    // And the partition.
    const std::uint64_t mixed = spolia::detail::map::hash_spread(seed).mixed(k);
    return (mixed >> 40U) % 64 << bits | (mixed & ((std::uint64_t{1} << bits) - 1));
  }
};
struct of_rlu {
  static constexpr const char* name = "rlu_hash";
  using map = rlu_hash<key, int, rlu::domain, as_it_is, std::less<>>;
  static constexpr std::size_t usual = 1000;
  static std::unique_ptr<map> make(std::uint64_t seed, std::size_t keys) {
    return std::make_unique<map>(std::max<std::size_t>(keys / 4, 1), seed);
  }
  static std::unique_ptr<map> make() { return std::make_unique<map>(usual); }
  static std::uint64_t place(std::uint64_t k, std::uint64_t seed, unsigned bits) {
    return spolia::detail::map::hash_spread(seed).bucket_of(k, std::size_t{1} << bits);
  }
};

struct of_michael : of_rlu {
  static constexpr const char* name = "michael_hash";
  using map = michael_hash<key, int, domain<>, as_it_is, std::less<>>;
  static std::unique_ptr<map> make(std::uint64_t seed, std::size_t keys) {
    return std::make_unique<map>(std::max<std::size_t>(keys / 4, 1), seed);
  }
  static std::unique_ptr<map> make() { return std::make_unique<map>(usual); }
};
/// Of which keys are hardly compared, but by the mixed hashes.
struct of_split_order {
  using map = split_ordered_hash<key, int, domain<>, as_it_is, std::less<>>;
  static std::unique_ptr<map> make(std::uint64_t seed, std::size_t) {
    return std::make_unique<map>(split_ordered_options{.seed = seed});
  }
  static std::unique_ptr<map> make() { return std::make_unique<map>(); }
};

/// Of insertions of all keys, and of looks at all: comparisons, and what each takes besides, which
/// is as much as some two of them.
template <class Of>
std::uint64_t work(const numbers& keys, std::uint64_t seed, std::size_t room) {
  const auto m = Of::make(seed, room);
  compared = 0;
  for (const std::uint64_t k : keys) EXPECT_TRUE(m->insert(key{k}, 1));
  for (const std::uint64_t k : keys) EXPECT_TRUE(m->contains(key{k}));
  return compared + 4 * keys.size();
}

template <class Of>
class hash_seeds : public testing::Test {};
using all_maps = testing::Types<of_snapshots, counted, of_rlu, of_michael>;
TYPED_TEST_SUITE(hash_seeds, all_maps);

using rule = std::uint64_t (*)(std::uint64_t);
constexpr std::array<rule, 15> rules{
    [](std::uint64_t i) { return i; },
    [](std::uint64_t i) { return ~i; },
    [](std::uint64_t i) { return i << 4U; },
    [](std::uint64_t i) { return i << 10U; },
    [](std::uint64_t i) { return i << 12U; },
    [](std::uint64_t i) { return i << 20U; },
    [](std::uint64_t i) { return i << 32U; },
    [](std::uint64_t i) { return i << 48U; },
    [](std::uint64_t i) { return i * 1000; },
    [](std::uint64_t i) { return i * 1024000; },
    [](std::uint64_t i) { return 0x7F0012340000 + i * 64; },
    [](std::uint64_t i) { return i << 32U | 0xDEADBEEF; },
    [](std::uint64_t i) { return i >> 7U << 32U | (i & 127U); },
    [](std::uint64_t i) { return std::bit_cast<std::uint64_t>(static_cast<double>(i)); },
    [](std::uint64_t i) {
      return std::uint64_t{std::bit_cast<std::uint32_t>(static_cast<float>(i))};
    }};

TYPED_TEST(hash_seeds, patterns_cost_at_most_three_times_numbers_in_a_row) {
  const auto n = static_cast<std::uint64_t>(tries(20000));
  for (const std::uint64_t seed :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0xC0FFEE1234567891}}) {
    std::uint64_t in_a_row = 0;
    for (std::size_t r = 0; r < rules.size(); ++r) {
      numbers keys;
      for (std::uint64_t i = 0; i < n; ++i) keys.push_back(rules.at(r)(i));
      const std::uint64_t now = work<TypeParam>(keys, seed, n);
      if (r == 0) in_a_row = now;
      EXPECT_LE(now, 3 * in_a_row) << TypeParam::name << ", rule " << r << ", seed " << seed;
    }
  }
}

/// With the seed one can choose keys that all meet. For a map of another one they are as any keys.
TYPED_TEST(hash_seeds, chosen_keys_meet_in_the_map_that_they_were_chosen_for) {
  constexpr std::uint64_t known = 12345;
  constexpr std::size_t n = 128;
  constexpr unsigned bits = 7;
  numbers chosen;
  const std::uint64_t there = TypeParam::place(0, known, bits);
  for (std::uint64_t k = 0; chosen.size() < n; ++k) {
    if (TypeParam::place(k << 7U, known, bits) == there) chosen.push_back(k << 7U);
  }
  numbers others;
  for (std::uint64_t k = 0; k < n; ++k) others.push_back(k);
  const std::size_t room = std::size_t{4} << bits;
  const std::uint64_t usual = work<TypeParam>(others, known, room);
  EXPECT_GT(work<TypeParam>(chosen, known, room), 4 * usual) << "they were not chosen well";
  for (const std::uint64_t seed :
       {std::uint64_t{0}, std::uint64_t{99}, std::uint64_t{0xFFFFFFFF00000000}}) {
    EXPECT_LT(work<TypeParam>(chosen, seed, room), 3 * usual) << TypeParam::name;
  }
}

template <class Map>
numbers order_of(Map& m) {
  for (std::uint64_t k = 0; k < 200; ++k) m.insert(key{k * 1001}, 1);
  numbers order;
  m.for_each([&](key k, int) { order.push_back(k.number); });
  return order;
}

template <class Of>
numbers order_in_a_new_one() {
  const auto m = Of::make();
  return order_of(*m);
}

/// Which one has it shows in the order of a loop.
template <class Of>
class seeds_of_maps : public testing::Test {
 protected:
  ~seeds_of_maps() override { draw_hash_seeds(); }
};
using maps_with_loops = testing::Types<of_snapshots, of_rlu, of_michael, of_split_order>;
TYPED_TEST_SUITE(seeds_of_maps, maps_with_loops);

TYPED_TEST(seeds_of_maps, are_drawn_or_fixed_for_all_or_given) {
  EXPECT_NE(order_in_a_new_one<TypeParam>(), order_in_a_new_one<TypeParam>());
  fix_hash_seeds(7);
  const numbers fixed = order_in_a_new_one<TypeParam>();
  EXPECT_EQ(order_in_a_new_one<TypeParam>(), fixed);
  fix_hash_seeds(8);
  EXPECT_NE(order_in_a_new_one<TypeParam>(), fixed);
  draw_hash_seeds();
  EXPECT_NE(order_in_a_new_one<TypeParam>(), fixed);
  const auto given = TypeParam::make(7, 4 * of_rlu::usual);
  EXPECT_EQ(order_of(*given), fixed);
}

/// Tables go by the lower bits, and tags by the upper ones: both are as if by chance, or more even.
TEST(mixed_hashes, are_even_in_both_halves) {
  constexpr std::size_t keys = 1U << 18U;
  constexpr std::size_t buckets = keys / 8;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x0123456789ABCDEF}}) {
    for (std::size_t r = 0; r < rules.size(); ++r) {
      if (r == 7) continue;  // there are 2^16 of them only
      std::vector<std::size_t> filled(buckets);
      std::array<std::size_t, 256> tags{};
      for (std::size_t i = 0; i < keys; ++i) {
        const std::uint64_t h = spolia::detail::map::hash_spread(seed).mixed(rules.at(r)(i));
        ++filled[h % buckets];
        ++tags.at(h >> 56U);
      }
      double apart = 0;  // chi square over its mean, which is 1 by chance, within 0.03
      for (const std::size_t n : filled) {
        const double off = static_cast<double>(n) - 8;
        apart += off * off / 8 / static_cast<double>(buckets);
      }
      SCOPED_TRACE("rule " + std::to_string(r) + ", seed " + std::to_string(seed));
      EXPECT_LT(apart, 3);
      EXPECT_LT(*std::ranges::max_element(filled), 60U);
      EXPECT_LT(*std::ranges::max_element(tags), 3 * keys / tags.size());
    }
  }
}

}  // namespace

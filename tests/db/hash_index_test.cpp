// SPDX-License-Identifier: Apache-2.0
// Hash indexes from keys to slots, each kind of table.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "db/hash_kinds.hpp"
#include "support/faults.hpp"
#include "support/history.hpp"
#include "support/linearizability.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// Slots whose rows have the keys that they were given.
struct key_column {
  std::vector<key_words> keys;
  std::uint32_t words = 1;
  bool operator()(std::uint64_t slot, const key_words& k) const {
    return std::equal(k.begin(), k.begin() + words, keys[slot].begin());
  }
};
struct same_in {
  const key_column* of;
  bool operator()(std::uint64_t slot, const key_words& k) const { return (*of)(slot, k); }
};
/// Each key has 16 slots, one for each thread.
struct slot_of_many {
  bool operator()(std::uint64_t slot, const key_words& k) const { return slot / 16 == k[0]; }
};

key_words number(std::uint64_t n) { return {std::uint64_t{1} << 63U | n}; }

std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}
/// The key of one word that has this hash.
std::uint64_t word_with_hash(std::uint64_t hash) {
  constexpr std::uint64_t factor = 0xD6E8FEB86659FD93U;
  const auto undo = [](std::uint64_t h, unsigned shift) {
    std::uint64_t x = h;
    for (unsigned done = shift; done < 64; done += shift) x = h ^ x >> shift;
    return x;
  };
  const std::uint64_t all = undo(hash, 29) * inverse(factor);
  return (undo(all, 32) * inverse(factor)) ^ no_words_hash;
}

template <class Kind>
class hash_index_of : public testing::Test {
 protected:
  template <class Same>
  using table = typename Kind::template primary<Same>;
  static constexpr bool cuckoo = Kind::kind == hash_kind::cuckoo;

  region_domain nodes;
};
TYPED_TEST_SUITE(hash_index_of, hash_tables, hash_table_name);

/// Keys of one word, of three that fit into one and of such that do not; while it grows and while
/// it shrinks.
TYPED_TEST(hash_index_of, does_what_a_map_does) {
  constexpr int third = fewer > 4 ? 5000 : 20000;
  for (const std::uint32_t words : {1U, 3U, 8U}) {
    key_column rows{.keys = std::vector<key_words>(20000), .words = words};
    typename TestFixture::template table<same_in> index(this->nodes, words, same_in{&rows});
    std::map<key_words, std::uint64_t> expected;
    std::vector<std::uint64_t> unused(rows.keys.size());
    for (std::uint64_t n = 0; n < unused.size(); ++n) unused[n] = n;
    std::mt19937_64 random(words);
    for (int n = 0; n < 3 * third; ++n) {
      key_words key{};
      const std::uint64_t which = random() % 12000;
      key[0] = which % 2 == 0 ? std::uint64_t{1} << 63U | which : which;
      if (words > 1) key[2] = which * 7;
      const auto there = expected.find(key);
      ASSERT_EQ(index.find(key), there == expected.end() ? no_slot : there->second);
      const bool shrinking = n / third == 1;
      if (random() % 16 < (shrinking ? 15 : 2)) {
        if (there == expected.end()) continue;
        ASSERT_TRUE(index.remove(key, there->second));
        unused.push_back(there->second);
        expected.erase(there);
      } else {
        const std::uint64_t slot = unused.back();
        rows.keys[slot] = key;
        ASSERT_EQ(index.claim(key, slot), there == expected.end() ? slot : there->second);
        if (there != expected.end()) continue;
        unused.pop_back();
        expected[key] = slot;
      }
    }
    std::uint64_t all = 0;
    index.for_each([&](std::uint64_t slot) {
      ++all;
      EXPECT_EQ(expected.at(rows.keys[slot]), slot);
    });
    EXPECT_EQ(all, expected.size());
    for (const auto& [key, slot] : expected) {
      ASSERT_EQ(index.find(key), slot);
      ASSERT_TRUE(index.remove(key, slot));
      ASSERT_EQ(index.find(key), no_slot);
    }
  }
}

/// What was noted of an index that is being filled is no entry yet, and what is an entry stays one.
TYPED_TEST(hash_index_of, tells_notes_from_entries) {
  const auto same = [](std::uint64_t slot, const key_words& k) { return number(slot) == k; };
  typename TestFixture::template table<decltype(same)> index(this->nodes, 1, same);
  constexpr std::uint64_t entries = 500;
  constexpr std::uint64_t all = 3000;
  index.reserve(all - entries);
  for (std::uint64_t n = 0; n < entries; ++n) ASSERT_EQ(index.claim(number(n), n), n);
  for (std::uint64_t n = entries; n < all; n += 250) {
    std::vector<key_words> keys;
    std::vector<std::uint64_t> slots;
    for (std::uint64_t i = n; i < n + 250; ++i) {
      keys.push_back(number(i));
      slots.push_back(i);
    }
    std::vector<key_note> notes(keys.size());
    if (n % 500 == 0) {
      std::vector<std::uint64_t> words;
      for (const key_words& k : keys) words.push_back(k[0]);
      ASSERT_TRUE(index.note_words(words, slots.data(), notes.data()));
    } else {
      ASSERT_TRUE(index.note_all(keys, slots.data(), notes.data()));
    }
    index.keep(notes);
  }
  for (std::uint64_t n = 0; n < all; ++n) {
    ASSERT_EQ(index.find(number(n)), n < entries ? n : no_slot);
  }
  for (unsigned part = 0; part < 3; ++part) {
    ASSERT_TRUE(index.settle(part, 3, number));
  }
  for (std::uint64_t n = 0; n < all; ++n) ASSERT_EQ(index.find(number(n)), n);
  ASSERT_EQ(index.find(number(all)), no_slot);
}

TYPED_TEST(hash_index_of, a_key_that_is_noted_twice_is_told) {
  for (const bool claimed : {false, true}) {
    key_column rows{.keys = {number(5), number(6), number(5)}};
    typename TestFixture::template table<same_in> index(this->nodes, 1, same_in{&rows});
    std::vector<std::uint64_t> slots = {0, 1, 2};
    std::vector<key_words> keys = rows.keys;
    if (claimed) {
      index.claim(keys[0], 0);
      keys.erase(keys.begin());
      slots.erase(slots.begin());
    }
    std::vector<key_note> notes(keys.size());
    ASSERT_TRUE(index.note_all(keys, slots.data(), notes.data()));
    index.keep(notes);
    EXPECT_FALSE(index.settle(0, 1, [&](std::uint64_t slot) { return rows.keys[slot]; }));
  }
}

/// Guesses are right, or found to be guesses.
TYPED_TEST(hash_index_of, guesses_lead_to_the_rows) {
  const auto same = [](std::uint64_t slot, const key_words& k) { return number(slot) == k; };
  typename TestFixture::template table<decltype(same)> index(this->nodes, 1, same);
  std::vector<key_words> keys;
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    keys.push_back(number(n));
    hashes.push_back(hash_of_word(keys.back()[0]));
    if (n % 2 == 0) {
      ASSERT_EQ(index.claim(keys[n], n), n);
    }
  }
  std::vector<std::uint64_t> slots(keys.size());
  EXPECT_EQ(index.guess_all(keys, slots.data()), !TestFixture::cuckoo);
  for (std::uint64_t n = 0; n < 1000; n += 2) ASSERT_EQ(slots[n], n);
  std::fill(slots.begin(), slots.end(), 7);
  EXPECT_EQ(index.guess_words(hashes, slots.data()), !TestFixture::cuckoo);
  std::uint64_t absent = 0;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    if (n % 2 == 0) {
      ASSERT_EQ(slots[n], n);
    }
    if (slots[n] == no_slot) ++absent;
  }
  EXPECT_GE(absent, 490U) << "few that are not there look as if they were";
}

/// Keys of one shard and of one position in it, which no larger array would spread.
TYPED_TEST(hash_index_of, keys_that_are_alike_are_found) {
  key_column rows;
  typename TestFixture::template table<same_in> index(this->nodes, 1, same_in{&rows});
  constexpr std::uint64_t alike = 600;
  rows.keys.reserve(2 * alike);
  for (std::uint64_t n = 0; n < alike; ++n) {
    const std::uint64_t hash = n << 38U | 0x1234567U;
    rows.keys.push_back({word_with_hash(hash)});
    ASSERT_EQ(hash_of_word(rows.keys.back()[0]), hash);
    rows.keys.push_back(number(n));
  }
  for (std::uint64_t n = 0; n < rows.keys.size(); ++n) {
    ASSERT_EQ(index.find(rows.keys[n]), no_slot);
    ASSERT_EQ(index.claim(rows.keys[n], n), n);
  }
  EXPECT_LE(index.bytes(), 200000U);
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t n = 0; n < rows.keys.size(); ++n) {
      ASSERT_EQ(index.find(rows.keys[n]), round == 1 && n % 3 == 0 ? no_slot : n);
      if (round == 0 && n % 3 == 0) {
        ASSERT_TRUE(index.remove(rows.keys[n], n));
      }
    }
  }
}

/// As the headers state it, while keys come and while they go.
TYPED_TEST(hash_index_of, memory_is_bounded) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  const auto same = [](std::uint64_t slot, const key_words& k) { return number(slot) == k; };
  typename TestFixture::template table<decltype(same)> index(this->nodes, 1, same);
  EXPECT_EQ(index.bytes(), 0U);
  // 64 shards, each with an array; in the checked variant an array says which domain made it, and
  // of what size.
  const std::uint64_t least = (TestFixture::cuckoo ? 20480 : 13824) + (SPOLIA_CHECKS ? 1024 : 0);
  double most = 0;
  constexpr std::uint64_t all = 100000;
  for (std::uint64_t n = 1; n <= all; ++n) {
    index.claim(number(n), n);
    if (n < 20000 || n % 500 != 0) continue;
    most = std::max(most, static_cast<double>(index.bytes()) / static_cast<double>(n));
  }
  EXPECT_LE(most, TestFixture::cuckoo ? 14.5 : 43.0);
  const std::uint64_t a_key = TestFixture::cuckoo ? 74 : 128;
  for (std::uint64_t n = 1; n <= all; ++n) {
    ASSERT_TRUE(index.remove(number(n), n));
    if (n % 100 != 0) continue;
    ASSERT_LE(index.bytes(), least + (all - n) * a_key) << "after " << n;
  }
  EXPECT_LE(index.bytes(), least);
}

TYPED_TEST(hash_index_of, memory_that_is_missing_changes_nothing) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  const std::int64_t before = live_allocations();
  for_each_allocation_failure([] {
    region_domain own;
    const auto same = [](std::uint64_t slot, const key_words& k) { return number(slot) == k; };
    typename TypeParam::template primary<decltype(same)> index(own, 1, same);
    constexpr std::uint64_t all = 1500;
    std::uint64_t n = 0;
    try {
      for (; n < all; ++n) index.claim(number(n), n);
    } catch (const std::bad_alloc&) {
      for (std::uint64_t k = 0; k <= n; ++k) {
        ASSERT_EQ(index.find(number(k)), k == n ? no_slot : k);
      }
      throw;
    }
    for (; n > 0; --n) ASSERT_TRUE(index.remove(number(n - 1), n - 1));
    ASSERT_EQ(index.find(number(0)), no_slot);
  });
  EXPECT_EQ(live_allocations(), before);
}

/// Keys of one shard, so that its array is full, moves entries, grows and shrinks all the time.
std::vector<std::uint64_t> keys_of_a_shard(std::size_t count) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t k = 1; keys.size() < count; ++k) {
    if (part_of_hash(hash_of_word(k), hash_parts) == 3) keys.push_back(k);
  }
  return keys;
}

/// What is there all the time is found, and what is not is not, while others come and go. So few
/// that each is moved again and again; and now and then many.
TYPED_TEST(hash_index_of, keys_that_stay_are_found_beside_writers) {
  typename TestFixture::template table<slot_of_many> index(this->nodes, 1, slot_of_many{});
  constexpr std::size_t stay = 8;
  const std::vector<std::uint64_t> keys = keys_of_a_shard(3000);
  for (std::size_t n = 0; n < stay; ++n) index.claim({keys[n]}, keys[n] * 16);
  run_stress({.threads = 4, .share = 0.6}, [&](stress_thread& self) {
    const unsigned me = self.index();
    while (self.running()) {
      if (me % 2 == 0) {
        for (int times = 0; times < 100; ++times) {
          for (std::size_t n = 0; n < stay; ++n) ASSERT_EQ(index.find({keys[n]}), keys[n] * 16);
        }
        ASSERT_EQ(index.find({keys.back()}), no_slot);
        continue;
      }
      const std::size_t more = self.random().chance(1, 50) ? 2000 : 60;
      const std::size_t most = stay + self.random().below(more);
      std::vector<std::size_t> mine;
      for (std::size_t n = stay; n < most; ++n) {
        if (index.claim({keys[n]}, keys[n] * 16 + me) == keys[n] * 16 + me) mine.push_back(n);
      }
      for (const std::size_t n : mine) {
        ASSERT_EQ(index.find({keys[n]}), keys[n] * 16 + me);
        ASSERT_TRUE(index.remove({keys[n]}, keys[n] * 16 + me));
      }
    }
  });
  std::uint64_t left = 0;
  index.for_each([&](std::uint64_t) { ++left; });
  EXPECT_EQ(left, stay);
}

/// Histories of a few keys, beside many others that keep the buckets full.
TYPED_TEST(hash_index_of, is_linearizable) {
  constexpr unsigned threads = 3;
  constexpr std::size_t each = 600;
  constexpr std::size_t few = 12;
  const std::vector<std::uint64_t> keys = keys_of_a_shard(400);
  for (std::uint64_t round = 0; round < 20; ++round) {
    typename TestFixture::template table<slot_of_many> index(this->nodes, 1, slot_of_many{});
    map_recorder record(threads, each);
    run_stress({.threads = threads, .stream = round}, [&](stress_thread& self) {
      const unsigned me = self.index();
      auto& lane = record.of(me);
      std::vector<bool> mine(few);
      for (std::size_t n = 0; n < each; ++n) {
        const std::uint64_t k = self.random().below(few);
        const key_words key{keys[k]};
        const std::uint64_t slot = keys[k] * 16 + me;
        const std::uint64_t other = keys[few + self.random().below(keys.size() - few)];
        if (self.random().chance(3, 5)) {
          index.claim({other}, other * 16 + me);
        } else {
          index.remove({other}, other * 16 + me);
        }
        if (n % 50 == 0) self.jitter();
        if (self.random().chance(1, 2)) {
          lane.find(keys[k], [&]() -> std::optional<std::uint64_t> {
            const std::uint64_t there = index.find(key);
            if (there == no_slot) return {};
            return there;
          });
        } else if (mine[k]) {
          lane.erase(keys[k], [&] { return index.remove(key, slot); });
          mine[k] = false;
        } else {
          mine[k] = lane.insert(keys[k], slot, [&] { return index.claim(key, slot) == slot; });
        }
      }
    });
    ASSERT_TRUE(accepted(check_map(record.events()))) << "round " << round;
  }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Read-log-update: how versions lie in a log.

#include <gtest/gtest.h>

#include <spolia/rlu.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace spolia;

struct one_word {
  long value = 0;
};
struct two_words {
  long first = 0;
  long second = 0;
};

template <class T>
std::size_t behind_a_line(const T& body) {
  return reinterpret_cast<std::uintptr_t>(&body) % rlu::detail::record_line;
}

TEST(rlu_records, copies_of_two_words_are_cache_lines) {
  rlu::domain d({.segment_bytes = 1000, .in_place = false});
  std::vector<rlu::ptr<one_word>> small;
  std::vector<rlu::ptr<two_words>> large;
  for (int i = 0; i < 40; ++i) {
    small.push_back(d.make<one_word>({i}));
    large.push_back(d.make<two_words>({i, i}));
  }
  const rlu::ptr<one_word> freed = d.make<one_word>({0});
  const rlu::ptr<one_word> kept = d.make<one_word>({0});
  EXPECT_TRUE(d.update([&](auto& in) {
    ASSERT_TRUE(in.free(freed));
    ASSERT_TRUE(in.try_lock_const(kept));
    for (std::size_t i = 0; i < small.size(); ++i) {
      auto a = in.try_lock(small[i]);
      auto b = in.try_lock(large[i]);
      ASSERT_TRUE(a && b);
      EXPECT_EQ(behind_a_line(*a), sizeof(rlu::detail::record)) << i;
      EXPECT_EQ(behind_a_line(*b), sizeof(rlu::detail::record)) << i;
      EXPECT_LE(sizeof(rlu::detail::record) + sizeof(two_words), rlu::detail::record_line);
    }
  }));
  for (const auto p : small) d.discard(p);
  for (const auto p : large) d.discard(p);
  d.discard(kept);
}

TEST(rlu_records, who_is_alone_keeps_a_segment_that_has_room) {
  // A pass comes when the segment is full, and finds the thread alone.
  rlu::domain d({.segment_bytes = 256, .low_watermark = 256});
  const rlu::ptr<one_word> p = d.make<one_word>({0});
  const auto add = [&] {
    std::size_t inside = 0;
    d.update([&](auto& in) {
      if (auto mine = in.try_lock(p)) ++mine->value;
      inside = d.stats().log_bytes;
    });
    return inside;
  };
  for (int i = 0; i < 100; ++i) add();
  const auto before = d.stats();
  EXPECT_LE(add(), before.log_bytes);
  EXPECT_EQ(d.stats().passes, before.passes) << "it is not alone";
  d.discard(p);
}

}  // namespace

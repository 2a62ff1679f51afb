// SPDX-License-Identifier: Apache-2.0
// value_blocks.cpp: which values of a row are out of line; what ended snapshots leave of them.
#include "db/versions/value_blocks.hpp"

#include <array>
#include <chrono>
#include <cstdint>

#include <spolia/base/ticks.hpp>
#include <spolia/db/row.hpp>
#include <spolia/db/schema.hpp>

#include "db/commit/gate.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::chrono::milliseconds longest_values_step{1};
/// The clock is looked at once for so many blocks.
constexpr std::uint64_t blocks_at_once = 16;

}  // namespace

void value_blocks::free_row(const schema& s, const row_place& place,
                            std::uint64_t columns) noexcept {
  each_column(s.apart() & columns, [&](std::uint32_t c) {
    std::array<std::uint64_t, apart_words> words;
    place.load(s.span_of(c), words.data());
    if (lies_apart(words.data())) free(value_block::of(words[1]));
  });
}

/// Only when much hung at snapshots that have ended a look is made.
bool value_blocks::snapshot_ended(std::uint64_t time, bool spent) noexcept {
  const turn mine(*this);
  if (!mine) return false;
  const auto h = holder_at(time);
  if (h == held_at_.end() || h->time != time) return false;
  ended_blocks_ += h->blocks.count;
  ended_bytes_ += h->blocks.bytes;
  if (!are_many(ended_blocks_, ended_bytes_)) return false;
  look();
  if (!spent) examine_for_a_while();
  return !spent;
}

bool value_blocks::go_on() noexcept {
  const turn mine(*this);
  if (mine) examine_for_a_while();
  return static_cast<bool>(mine);
}

void value_blocks::examine_for_a_while() noexcept {
  const std::uint64_t end = ticks::read() + in_ticks(longest_values_step);
  while (todo_.count != 0 && static_cast<std::int64_t>(end - ticks::read()) > 0) {
    examine_some(blocks_at_once);
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

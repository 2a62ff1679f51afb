// SPDX-License-Identifier: Apache-2.0
// value_blocks.cpp: which values of a row lie apart from it.
#include "db/versions/value_blocks.hpp"

#include <array>
#include <cstdint>

#include <spolia/db/row.hpp>
#include <spolia/db/schema.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

void value_blocks::free_row(const schema& s, const row_place& place,
                            std::uint64_t columns) noexcept {
  each_column(s.apart() & columns, [&](std::uint32_t c) {
    std::array<std::uint64_t, apart_words> words;
    place.load(s.span_of(c), words.data());
    if (lies_apart(words.data())) free(value_block::of(words[1]));
  });
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

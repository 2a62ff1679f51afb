// SPDX-License-Identifier: Apache-2.0
/// \file
/// One row of two columns, a commit board and a version storage.
#pragma once

#include <array>
#include <cstdint>

#include <spolia/db/commit.hpp>
#include <spolia/db/row.hpp>
#include <spolia/model/engine.hpp>

namespace spolia::test {

using namespace spolia::db;

using two = std::array<std::uint64_t, 2>;

/// Both are 0 and were committed at time 1.
template <class Storage>
struct two_column_row {
  template <class... Options>
  explicit two_column_row(Options... o) : old(board, o...) {
    head.stamp.store_relaxed(1);
    head.shape.store_relaxed(row_exists);
  }
  static column_set whole() {
    static constexpr std::array<column_span, 2> spans{{{0, 1}, {1, 1}}};
    static constexpr column_run run{0, 2, 1};
    return {3, {&run, 1}, spans.data()};
  }
  row_place at() { return {&head, words.data(), 0, 0}; }
  two read(std::uint64_t time) {
    two seen{99, 99};
    model::check(read_row(board, old, at(), time, whole(), seen.data()) != 0, "there is a row");
    return seen;
  }

  commit_board board;
  Storage old;
  row_head head;
  std::array<atomic<std::uint64_t>, 2> words;
};

}  // namespace spolia::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Two rows, a commit board and a version storage: what scenarios about db/ play with.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <spolia/db/commit.hpp>
#include <spolia/db/row.hpp>
#include <spolia/model/engine.hpp>

namespace spolia::test {

using namespace spolia::db;

/// What a commit says that has read nothing, and one that must not be.
inline constexpr auto always_holds = [](std::uint64_t) { return verdict::holds; };
inline constexpr auto never_holds = [](std::uint64_t) { return verdict::broken; };

/// Two rows of one word, both 0 and committed at time 1.
template <class Storage>
struct world {
  template <class... Options>
  explicit world(Options... o) : old(board, o...) {
    for (row_head& h : heads) {
      h.stamp.store_relaxed(1);
      h.shape.store_relaxed(row_exists);
    }
  }

  row_place at(unsigned i) { return {&heads[i], &words[i], 0, i}; }
  static column_set one_word() {
    static constexpr column_span span{0, 1};
    static constexpr column_run run{0, 1, 1};
    return {1, {&run, 1}, &span};
  }

  /// Commits `value` to the first `rows` rows; their locks are taken for granted.
  std::uint64_t commit(std::uint64_t value, unsigned rows) {
    commit_board::record& mine = board.take();
    std::array<ask, 2> asks{};
    for (unsigned i = 0; i < rows; ++i) {
      asks[i] = {.words = 1,
                 .row = i,
                 .since = heads[i].stamp.load_relaxed(),
                 .older = heads[i].older.load_relaxed(),
                 .chain = &heads[i].older};
    }
    model::check(old.reserve(mine.number(), std::span(asks).first(rows), 0), "there is room");
    const std::uint64_t mark = commit_board::begin(mine);
    for (unsigned i = 0; i < rows; ++i) {
      keep_image(*asks[i].place, asks[i], at(i), one_word());
      install(at(i), mark, asks[i].handle, row_exists, &value, 1, one_word());
    }
    const std::uint64_t time = board.publish(mine);
    for (unsigned i = 0; i < rows; ++i) restamp(at(i), time);
    old.published(mine.number(), time);
    board.give_back(mine);
    return time;
  }

  /// A commit to a row that comes to nothing once it has its place.
  void cancel(unsigned i) {
    commit_board::record& mine = board.take();
    ask a = {.words = 1,
             .row = i,
             .since = heads[i].stamp.load_relaxed(),
             .older = heads[i].older.load_relaxed(),
             .chain = &heads[i].older};
    model::check(old.reserve(mine.number(), std::span(&a, 1), 0), "there is room");
    old.cancel(mine.number());
    board.give_back(mine);
  }

  /// Commits `value` to the rows from..end if `valid(drawn)`, as a serializable transaction does.
  /// The time; 0: it was withdrawn.
  template <class Valid>
  std::uint64_t commit_if(std::uint64_t value, unsigned from, unsigned end, Valid&& valid) {
    commit_board::record& mine = board.take();
    std::array<ask, 2> asks{};
    for (unsigned i = from; i < end; ++i) {
      asks[i] = {.words = 1,
                 .row = i,
                 .since = heads[i].stamp.load_relaxed(),
                 .older = heads[i].older.load_relaxed(),
                 .chain = &heads[i].older};
    }
    model::check(old.reserve(mine.number(), std::span(asks).subspan(from, end - from), 0),
                 "there is room");
    const std::uint64_t mark = commit_board::begin(mine);
    for (unsigned i = from; i < end; ++i) {
      keep_image(*asks[i].place, asks[i], at(i), one_word());
      install(at(i), mark, asks[i].handle, row_exists, &value, 1, one_word());
    }
    std::uint64_t time = board.publish_if(mine, valid);
    const bool done = time != 0;
    if (!done) {
      std::uint64_t image = 0;
      for (unsigned i = from; i < end; ++i) {
        take_back(at(i), mark, asks[i].place, asks[i].handle, &image, one_word());
      }
      time = board.publish(mine);
    }
    for (unsigned i = from; i < end; ++i) {
      const bool same = !done && SPOLIA_FAULT("world.old_stamp_comes_back");
      restamp(at(i), same ? asks[i].since : time);
    }
    old.published(mine.number(), time);
    board.give_back(mine);
    return done ? time : 0;
  }

  /// Whether a row was not changed since `time`, and is not about to be.
  verdict unchanged(unsigned i, std::uint64_t time) {
    const bool same =
        SPOLIA_FAULT("world.reads_not_looked_at") || unchanged_since(board, heads[i], time);
    return same ? verdict::holds : verdict::broken;
  }

  std::uint64_t read(unsigned i, std::uint64_t time) {
    std::uint64_t value = 99;
    model::check(read_row(board, old, at(i), time, one_word(), &value) != 0, "there is a row");
    return value;
  }

  /// What read() says of both rows, looked for together. Precondition: both have changed since.
  std::array<std::uint64_t, 2> read_together(std::uint64_t time) {
    struct taker final : version_taker {
      void take(std::size_t first, std::span<const version* const> found) override {
        for (std::size_t i = 0; i < found.size(); ++i) {
          model::check(found[i] != nullptr, "there is a row");
          values[first + i] = found[i]->words()[0].read();
        }
      }
      std::array<std::uint64_t, 2> values{};
    };
    const std::array<old_row, 2> rows{{{&heads[0].older, 0}, {&heads[1].older, 1}}};
    taker found;
    old.visit(rows, time, nullptr, found);
    return found.values;
  }
  void fetch_together(std::uint64_t time) {
    const std::array<old_row, 2> rows{{{&heads[0].older, 0}, {&heads[1].older, 1}}};
    old.fetch(rows, time);
  }

  /// What a snapshot sees does not change, and comes from one commit.
  void look(bool both) {
    const auto ticket = board.living.announce(board.clock);
    const std::uint64_t first = read(0, ticket.timestamp());
    if (both) model::check(read(1, ticket.timestamp()) == first, "half of a commit was seen");
    model::check(read(0, ticket.timestamp()) == first, "a snapshot has changed");
  }

  commit_board board;
  Storage old;
  std::array<row_head, 2> heads;
  std::array<atomic<std::uint64_t>, 2> words;
};

}  // namespace spolia::test

// SPDX-License-Identifier: Apache-2.0
// editor.cpp: a row that a transaction changes, column by column.
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// While its turn lasts.
transaction& transaction_of(const session& of) noexcept {
  return static_cast<transaction&>(*of.owner);
}

}  // namespace

editor::editor(session& of, std::uint32_t number) noexcept
    : of_(&of), turn_(of.turn.load_relaxed()), number_(number) {}

row editor::now(std::uint64_t columns) const noexcept {
  pending_write& w = of_->writes[number_];
  w.fetch(columns);
  return {w.of->form(), w.image, w.shape, w.has};  // which the write keeps
}

const std::uint64_t* editor::words(std::uint32_t number, std::uint32_t first) const noexcept {
  pending_write& w = of_->writes[number_];
  const std::uint64_t bit = std::uint64_t{1} << number;
  if ((w.has & bit) == 0) {
    w.has |= bit;
    w.place.load(w.of->form().span_of(number), w.image + first);
  }
  return w.image + first;
}

std::uint64_t editor::word(std::uint32_t number, std::uint32_t first) const noexcept {
  pending_write& w = of_->writes[number_];
  const std::uint64_t bit = std::uint64_t{1} << number;
  if ((w.has & bit) == 0) {
    w.has |= bit;
    w.image[first] = w.place.column(first, 1)->load_relaxed();
  }
  return w.image[first];
}

/// What set_column() does for a column of one word, where nothing can fail: no index, no savepoint,
/// no scan or query that begins a level, no other thread that may end the transaction. False:
/// set_column() has to do it.
bool editor::set_word(std::uint32_t number, std::uint32_t first, std::uint32_t table,
                      std::uint64_t word) noexcept {
  if (of_->turn.load_relaxed() != turn_ || transaction_of(*of_).gated_) return false;
  pending_write& w = of_->writes[number_];
  if (table != w.of->form().tag()) return false;
  if constexpr (SPOLIA_CHECKS) of_->is_not_visited(number_);
  const std::uint64_t bit = std::uint64_t{1} << number;
  if ((w.shape & row_exists) == 0 || w.level != of_->level) return false;
  if (((w.indexes->columns | w.of->form().keyed()) & bit) != 0) return false;
  w.image[first] = word;
  w.shape &= ~bit;
  w.has |= bit;
  w.sets |= bit;
  w.changed = true;
  return true;
}

/// Called in the checked build variant only.
bool editor::has_ended() const noexcept {
  if (of_->turn.load_relaxed() == turn_) {
    const transaction::alone now(transaction_of(*of_));
    return false;
  }
  misuse::report("an editor is asked after the end of its transaction", threads::number());
  return true;
}

/// The same.
std::uint32_t editor::show(std::uint32_t number) const noexcept {
  return std::exchange(of_->visited, number);
}

/// The same.
void editor::is_of(std::uint32_t table) const noexcept {
  if (table != of_->writes[number_].of->form().tag()) {
    misuse::report("a column of another table is looked at", threads::number());
  }
}

status editor::set_column(std::uint32_t number, std::uint32_t table, const argument& v) {
  if (const outcome how = of_->end_of(turn_); how != outcome::ok) return how;
  const pending_write& w = of_->writes[number_];
  if (table != w.of->form().tag()) {
    throw std::invalid_argument("spolia::db: the column that is set is not one of table " +
                                w.of->form().name() + ": take it from that table");
  }
  if ((w.shape & row_exists) == 0) {
    return {outcome::not_found, cause::same_row};  // erased since, or undone
  }
  const transaction::column_value to{&w.of->form().columns()[number], &v};
  return transaction_of(*of_).set(number_, to);
}

status editor::set(std::span<const assignment> changes) {
  if (const outcome how = of_->end_of(turn_); how != outcome::ok) return how;
  const pending_write& w = of_->writes[number_];
  if ((w.shape & row_exists) == 0) {
    return {outcome::not_found, cause::same_row};  // erased since, or undone
  }
  return transaction_of(*of_).set(number_, changes);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// workspace.cpp: what sessions work with, against the budget.
#include "db/transaction/workspace.hpp"

#include <algorithm>

#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

void work_account::add(std::uint64_t bytes) noexcept {
  bytes_.store_relaxed(bytes_.load_relaxed() + bytes);
  of_->work_bytes.fetch_add_relaxed(bytes);
}

void work_account::must_fit(std::uint64_t more) const {
  if (!of_->may_work_with(bytes(), more, !commits_)) throw row_budget::exceeded();
}

status work_account::is_used_up() const noexcept { return of_->budget_is_used_up(); }

bool engine::may_work_with(std::uint64_t own, std::uint64_t more,
                           bool commits_later) const noexcept {
  // About what a session keeps for its next transaction, whatever the budget is.
  constexpr std::uint64_t small = std::uint64_t{256} << 10U;
  constexpr std::uint64_t least_beyond = std::uint64_t{4} << 20U;
  if (!rows.limited() || own + more <= small) return true;
  if (commits_later) more += (own + more) / 2;
  // Rows may have taken all but what is set aside for versions, and these all of that. Changes and
  // deletions are to go on: so they have a sixteenth of the budget beyond it, or 4 MiB.
  const std::uint64_t beyond = std::max(settings.budget / 16, least_beyond);
  const std::uint64_t beside = beside_rows_with(more);
  return !rows.over(beside - std::min(beside, beyond));
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// callers.cpp: a transaction that wants what another one has, which cannot end before this one has:
// a caller's, of this very thread. And one that is changed by what it has called.
#include <stdexcept>
#include <string>

#include "db/at_work.hpp"
#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr const char* is_locked =
    " is locked by another transaction: run this one again, as transact() does";
constexpr const char* is_locked_here =
    " is locked by another transaction, which this thread has begun: commit that one first, or "
    "roll it back. If another thread has it now, run this one again, as transact() does";

}  // namespace

/// Whether a caller of this has the lock, which keeps it until this has returned.
bool transaction::is_locked_by_caller(const row_head& row) const noexcept {
  // acquire ← the release in take_lock(): by_transact of the holder, as below.
  const std::uint64_t lock = row.lock.load_acquire();
  return is_held(lock) && is_caller(*engine_.sessions.find(holder_of(lock)));
}

/// Whether the transaction that has this session is a caller's: on_slow_reader is asked about it,
/// or transact() runs it, and the function of either goes on when this one has returned. One that
/// was begun by begin() may be another thread's by now.
bool transaction::is_caller(const session& of) noexcept {
  return at_work::asked_by(of.way) || (of.by_transact.load_relaxed() && of.is_begun_here());
}

/// Gives up for a row that another transaction has locked.
outcome transaction::lose_lock(const table& t, const row_head& row) {
  const std::uint64_t lock = row.lock.load_acquire();  // as above
  if (!is_held(lock)) return lose_row(t, is_locked);
  const session& holder = *engine_.sessions.find(holder_of(lock));
  if (is_caller(holder)) return lose_to_caller(holder, t, nullptr);
  return lose_row(t, holder.is_begun_here() ? is_locked_here : is_locked);
}

/// As for a conflict, but to try again would be in vain. It is about a value of that unique index;
/// null: about a row.
outcome transaction::lose_to_caller(const session& caller, const table& t, const secondary* i) {
  if (at_work::asked_by(caller.way)) {
    static_cast<void>(fail(outcome::conflict));
    throw std::invalid_argument(
        "spolia::db: a transaction that was begun in options::on_slow_reader wants a row, or a "
        "value of a unique index, that the transaction has for which that was called, and keeps "
        "until that has returned: do it then, or in a thread that is not waited for there");
  }
  session_->conflicts.add(1);
  const auto in_words = [&] {
    const std::string what =
        i != nullptr ? "a value of " + t.in_words(i->parts_->name) : "a row of table " + t.name();
    return "a transaction of this thread has it, " + what +
           ": that of a transact() whose function has begun this one, and goes on when this has "
           "returned. Use that transaction, or do this after it";
  };
  return fail(said(outcome::refused, in_words)).code();
}

void transaction::refuse_in_query() {
  throw std::invalid_argument(
      "spolia::db: a transaction is changed or ended by what it has called: a condition of its "
      "query, or on_slow_reader. Do it when that has returned, or in the function of a scan, or "
      "use a transaction of its own");
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

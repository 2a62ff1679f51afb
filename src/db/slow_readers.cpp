// SPDX-License-Identifier: Apache-2.0
// slow_readers.cpp: what becomes of readers that hold memory for too long.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <spolia/base/threads.hpp>
#include <spolia/base/ticks.hpp>

#include "base/so_many.hpp"
#include "db/at_work.hpp"
#include "db/engine.hpp"
#include "db/files/folder.hpp"
#include "db/log/journal.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Once in a while, by when it was so last.
bool is_time_again(atomic<std::uint64_t>& was) noexcept {
  constexpr std::chrono::milliseconds pause{10};
  const std::uint64_t now = ticks::read();
  std::uint64_t last = was.load_relaxed();
  return now - last >= in_ticks(pause) && was.cas_strong_relaxed(last, now);
}

}  // namespace

bool engine::collect_beside_versions() noexcept {
  const auto all = [this] { return cleaner.waiting_bytes() + values.waiting_bytes(); };
  const std::uint64_t before = all();
  cleaner.collect();
  values.collect();
  return all() < before;
}

std::uint64_t engine::most_for_versions(std::uint64_t replaced, bool with_reserve) const noexcept {
  const std::uint64_t budget = settings.version_budget;
  if (budget == 0) return 0;
  constexpr std::uint64_t least = std::uint64_t{512} << 10U;
  const std::uint64_t reserve = std::min(std::max(budget / 4, least), ~budget);
  const std::uint64_t all = budget + (with_reserve ? reserve : 0);
  const std::uint64_t others = cleaner.waiting_bytes() + values.waiting_bytes() + replaced;
  return all - std::min(all - 1, others);
}

status engine::budget_is_used_up() noexcept {
  return budget_used_up_.get(
      outcome::limit, [this] { return "options::budget, " + so_many(settings.budget, "byte"); });
}

status engine::versions_do_not_fit() noexcept {
  return too_many_versions_.get(outcome::limit, [this]() -> std::string {
    if (settings.version_budget == 0) return "a limit of the version storage's own";
    return "options::version_budget, " + so_many(settings.version_budget, "byte");
  });
}

status engine::log_refuses() noexcept {
  return said(outcome::storage_failed, [this] {
    const bool failed = log->failed();
    std::string why = words_of(log->why_not());
    if (why.empty()) why = "the log could not be written";
    return why + (failed ? until_resumed
                         : "; there was no room, and nothing has happened: make room, and try "
                           "again");
  });
}

/// Ends those whose time is over, but never `but`; and asks the program about one that is slow, if
/// somebody is `pressed` for memory about any. True: somebody was ended.
bool engine::end_slow(const gate* but, bool pressed) {
  std::uint64_t ended = gates.due() ? gates.end_overdue(but) : 0;
  if (settings.on_slow_reader && (pressed || settings.slow_after.count() > 0)) {
    ended += ask_about_slow(but, pressed);
  }
  ended_by_policy.fetch_add_relaxed(ended);
  return ended != 0;
}

/// How many were ended. What the function does itself is not asked about.
///
/// One that is pressed asks every 10 ms at most, and again at once where the last answer has ended
/// a reader: a program that is refused again and again would ask as often.
std::uint64_t engine::ask_about_slow(const gate* but, bool pressed) {
  if (at_work::within(*this, at_work::asking)) return 0;
  if (pressed && !is_time_again(asked_about_slow_)) {
    if (settings.slow_after.count() <= 0) return 0;
    pressed = false;
  }
  const auto g = gates.slow(pressed ? 0 : in_ticks(settings.slow_after), but);
  if (g.id == 0) return 0;
  const held_things held = cleaner.held_at(g.timestamp).value_or(held_things{});
  const double age = static_cast<double>(g.age) * core::ns_per_tick();
  const slow_reader about{
      .timestamp = g.timestamp,
      .behind = board.clock.now() - g.timestamp,
      .label = g.label != nullptr ? *g.label : std::string(),
      .thread = g.thread,
      .os_thread = threads::os_id_of(g.thread),
      .thread_name = threads::os_name(threads::os_id_of(g.thread)),
      .age = std::chrono::nanoseconds(static_cast<std::int64_t>(age)),
      .version_bytes = old->stats().bytes + values.waiting_bytes() + cleaner.waiting_bytes(),
      .held = held.count,
      .held_bytes = held.bytes};
  // No lock and no guard is held here.
  const at_work now(*this, but, "the call that asks it");
  if (settings.on_slow_reader(about) != slow_reader_action::end) return 0;
  asked_about_slow_.store_relaxed(0);
  return gates.end_overdue(but, g.id);
}

/// Whether it is worth to look for memory once more. Each look costs a walk over what is kept.
bool engine::may_look_for_memory() noexcept { return is_time_again(looked_for_memory_); }

bool engine::may_look_at_what_is_kept() noexcept {
  return rows.limited() && settings.on_slow_reader && is_time_again(looked_at_kept_);
}

bool engine::keeps_too_much() const noexcept {
  const std::uint64_t kept = old->stats().bytes + values.waiting_bytes() + cleaner.waiting_bytes();
  return kept > settings.budget / 16 && is_full();
}

/// As engine's. The program that is asked must not use this transaction.
bool transaction::end_slow(bool pressed) {
  class asked_now {
   public:
    explicit asked_now(const transaction& by) noexcept
        : by_(by), of_(*by.session_), outer_(std::exchange(of_.asked, true)) {
      ++by.in_use_;
    }
    asked_now(const asked_now&) = delete;
    asked_now& operator=(const asked_now&) = delete;
    ~asked_now() {
      of_.asked = outer_;
      --by_.in_use_;
    }

   private:
    const transaction& by_;
    session& of_;
    const bool outer_;
  };
  const asked_now here(*this);
  return engine_.end_slow(gated_ ? &session_->way : nullptr, pressed);
}

/// options::budget is used up: ends readers and transactions that hold memory for too long, and
/// collects. True: it is worth another try. Those whose time is over are ended at once. The rest is
/// done once in a while, since a program may go on after each refusal. Throws what on_slow_reader
/// throws.
bool transaction::look_for_memory() {
  const bool again = engine_.may_look_for_memory();
  if (!again && !engine_.gates.due()) return false;
  if (!end_slow(again) && !again) return false;
  engine_.collect();
  return true;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

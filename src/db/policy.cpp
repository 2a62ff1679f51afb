// SPDX-License-Identifier: Apache-2.0
// policy.cpp: what becomes of those who read for too long.
#include <algorithm>
#include <chrono>
#include <utility>

#include <spolia/base/ticks.hpp>

#include "at_work.hpp"
#include "engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Not so many that a time that far ahead would have no number.
std::uint64_t in_ticks(std::chrono::nanoseconds t) {
  constexpr double most = 4e18;
  return static_cast<std::uint64_t>(
      std::min(static_cast<double>(t.count()) / core::ns_per_tick(), most));
}

}  // namespace

reader::reader(engine& of, const reader_options& o) : reader(of, o.label) {
  be_limited(o.deadline, o.label);
}

/// Gives the reader a gate, if it or the database wants one.
void reader::be_limited(std::chrono::nanoseconds deadline, const char* label) {
  if (deadline.count() <= 0 && !engine_.settings.on_slow_reader) return;
  engine_.gates.put(session_->way, ticket_, label, deadline.count() <= 0 ? 0 : in_ticks(deadline));
  gated_ = true;
}

reader::step::step(const reader& of) noexcept
    : of_(of), open_(!of.gated_ || of.session_->way.enter()) {}
reader::step::~step() {
  if (of_.session_ != nullptr && of_.gated_ && open_) of_.session_->way.leave();
}

void reader::must_go_on(bool open) const {
  if (!open) throw no_result(outcome::ended_by_policy);
}

bool reader::ended() const noexcept {
  return session_ != nullptr && gated_ && session_->way.ended();
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
std::uint64_t engine::ask_about_slow(const gate* but, bool pressed) {
  if (at_work::within(*this, at_work::asking)) return 0;
  const auto g = gates.slow(pressed ? 0 : in_ticks(settings.slow_after), but);
  if (g.id == 0) return 0;
  const double age = static_cast<double>(g.age) * core::ns_per_tick();
  const slow_reader about{.timestamp = g.timestamp,
                          .behind = board.clock.now() - g.timestamp,
                          .label = g.label,
                          .age = std::chrono::nanoseconds(static_cast<std::int64_t>(age)),
                          .version_bytes = old->stats().bytes + values.waiting_bytes()};
  // No lock and no guard is held here.
  const at_work now(*this, at_work::asking, "the call that asks it");
  if (settings.on_slow_reader(about) != slow_reader_action::end) return 0;
  return gates.end_overdue(but, g.id);
}

/// Whether it is worth to look for memory once more. Each look costs a walk over what is kept.
bool engine::may_look_for_memory() noexcept {
  constexpr std::chrono::milliseconds pause{10};
  const std::uint64_t now = ticks::read();
  std::uint64_t last = looked_for_memory_.load_relaxed();
  return now - last >= in_ticks(pause) && looked_for_memory_.cas_strong_relaxed(last, now);
}

/// As engine's. The program that is asked must not use this transaction.
bool transaction::end_slow(bool pressed) {
  class asked_now {
   public:
    explicit asked_now(session& of) noexcept : of_(of), outer_(std::exchange(of.asked, true)) {}
    asked_now(const asked_now&) = delete;
    asked_now& operator=(const asked_now&) = delete;
    ~asked_now() { of_.asked = outer_; }

   private:
    session& of_;
    const bool outer_;
  };
  const asked_now here(*session_);
  return engine_.end_slow(gated_ ? &session_->way : nullptr, pressed);
}

/// options::budget is used up: ends those who hold memory for too long, and collects. True: it is
/// worth another try. Those whose time is over are ended at once, and for the rest there is a
/// pause, since a program may go on after each refusal. Throws what on_slow_reader throws.
bool transaction::look_for_memory() {
  const bool again = engine_.may_look_for_memory();
  if (!again && !engine_.gates.due()) return false;
  if (!end_slow(again) && !again) return false;
  engine_.collect();
  return true;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

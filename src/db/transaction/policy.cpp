// SPDX-License-Identifier: Apache-2.0
// policy.cpp: what becomes of those who read for too long.
#include <algorithm>
#include <chrono>

#include <spolia/base/ticks.hpp>

#include "db/engine.hpp"

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

/// Ends those whose time is over; and asks the program about one that is slow, if somebody is
/// `pressed` for memory about any. True: somebody was ended.
bool engine::end_slow(const gate* but, bool pressed) {
  std::uint64_t ended = gates.due() ? gates.end_overdue() : 0;
  if (settings.on_slow_reader && (pressed || settings.slow_after.count() > 0)) {
    const auto g = gates.slow(pressed ? 0 : in_ticks(settings.slow_after), but);
    if (g.id != 0) {
      const double age = static_cast<double>(g.age) * core::ns_per_tick();
      const slow_reader about{.timestamp = g.timestamp,
                              .behind = board.clock.now() - g.timestamp,
                              .label = g.label,
                              .age = std::chrono::nanoseconds(static_cast<std::int64_t>(age)),
                              .version_bytes = old->stats().bytes + values.waiting_bytes()};
      // No lock and no guard is held here.
      if (settings.on_slow_reader(about) == slow_reader_action::end) {
        ended += gates.end_overdue(g.id);
      }
    }
  }
  ended_by_policy.fetch_add_relaxed(ended);
  return ended != 0;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// log_after_fork.hpp: makes a log usable again in the child of a fork, if the log's collector or
// its owner was lost.
//
// A collector works through lists of its own, record by record. The lists do not tell which step is
// half done. So the child gives up all segments that the collector had taken: their memory is never
// freed, and no longer counts in the log's cap, but sections still read their copies. The owner's
// segments are the open one and those that no collector had taken. Their lists are whole, since the
// owner was not lost. Only their records may be half done:
//   - A record that the collector was just unlinking may not say that it is unlinked. Such a record
//     is one that no chain leads to.
//   - An unlinked record may lack the time from which on no section finds it. It gets a later one
//     from the child's first sweep.
//   - What the collector had noted of the segments is forgotten: the next look is the first again.
// The same holds if the owner was lost, unless it was just changing its lists. Then its log is
// given up as a whole (log::forget).
#pragma once

#include <cstddef>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/rlu/detail/log.hpp>
#include <spolia/rlu/detail/segment.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

template <class Header>
class log_after_fork {
  using piece = segment<Header>;

 public:
  explicit log_after_fork(log<Header>& of) noexcept : log_(of) {}

  /// `is_whole`: the owner's lists are whole. May be called again.
  void set_right(bool is_whole) noexcept {
    log_.retired_
        .start_over();  // the threads that would have freed those segments are lost, mostly
    // A thread that forks in the middle of its own sweep goes on with it in the child. (A type's
    // copy operation may fork, or the function of for_each_chain.)
    if (!log_.is_looked_through() || threads::is_this(log_.by_)) return;
    object* const half_done = std::exchange(log_.at_, nullptr);
    log_.give_up_taken();
    if (is_whole) adopt(half_done);
    if (half_done != nullptr) half_done->free_from_lost();
    log_.end_collect();
  }

  /// For a log whose owner was lost: other threads collect its segments, which do not count in the
  /// next owner's cap.
  void leave() noexcept {
    for_each_piece([](piece& s) { s.charged = false; });
    count_again();
  }

 private:
  void adopt(object* half_done) noexcept {
    for_each_piece([&](piece& s) { adopt(s, half_done); });
    count_again();
  }

  /// Counts anew how much the log holds: its lost owner may have updated one count and not yet
  /// another.
  void count_again() noexcept {
    std::size_t bytes = 0;
    std::size_t held = 0;
    bool any = false;
    for_each_piece([&](piece& s) {
      if (s.charged) bytes += s.bytes();
      held += weigh_freed(s);
      any = true;
    });
    log_.bytes_.store_relaxed(bytes);
    log_.held_bytes_.store_relaxed(held);
    log_.waiting_.set(any ? 1 : 0);  // more or less
  }

  template <class F>
  void for_each_piece(F&& f) {
    piece* const at_hand = log_.begun_ ? log_.section() : log_.open_;
    for (piece* s : {log_.filled_.load_relaxed(), log_.held_, log_.old_, at_hand}) {
      for (; s != nullptr; s = s->next) f(*s);
    }
  }

  static void adopt(piece& s, object* half_done) noexcept {
    s.forget_looks();
    s.for_each(0, [&](record& r) {
      if (r.of == half_done && is_cut_off(r)) r.ended.store_relaxed(detached);
      if (r.state.load_relaxed() == record_state::last) s.buries = true;
      if (r.state.load_relaxed() >= record_state::done || r.ended.load_relaxed() != detached)
        return;
      r.state.store_relaxed(record_state::unlinked);
      s.detached = true;
      s.detached_at = detached;
    });
  }

  /// How many bytes the objects have that tombstones of the segment have freed; sets how many of
  /// these are buried.
  static std::size_t weigh_freed(piece& s) noexcept {
    std::size_t all = 0;
    s.buried_bytes = 0;
    s.for_each(0, [&](const record& r) {
      const bool freed = r.kind.read() == record_kind::tombstone &&
                         is_stamped(r.since.load_relaxed()) &&
                         r.state.load_relaxed() != record_state::done;
      if (!freed) return;
      all += r.freed_bytes();
      if (r.state.load_relaxed() == record_state::last) s.buried_bytes += r.freed_bytes();
    });
    return all;
  }

  /// Whether `r` was a version without a successor, and is in its chain no more.
  static bool is_cut_off(const record& r) noexcept {
    const bool version =
        r.kind.read() != record_kind::lock_only && is_stamped(r.since.load_relaxed());
    return version && is_unended(r.ended.load_relaxed()) && !is_linked(r);
  }

  log<Header>& log_;
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

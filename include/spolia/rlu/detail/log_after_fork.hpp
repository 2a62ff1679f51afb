// SPDX-License-Identifier: Apache-2.0
// log_after_fork.hpp: what becomes of a log, in the child of a fork, that a lost thread was looking
// through.
//
// A collector works through lists of its own, record by record. The lists do not tell what of that
// is half done. So the child gives up what the collector had taken, in one piece: its memory is
// lost, takes nothing of the log's cap, and what it says is still read. What the owner has at hand,
// its open segment and those that no collector had taken, is whole as far as the lists go, since
// the owner has not been lost. Only their records may be half done:
//   - One that was on its way out may not say so. It is one that no chain leads to.
//   - One that is out may not have the time yet from which on no section finds it. It gets a later
//     one from the child's first sweep.
//   - What the collector had noted of them is forgotten: the next look is the first again.
// The same holds of an owner that was lost, but for one that was just changing those lists. Its log
// is given up as a whole (log::forget).
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

  /// `is_whole`: what the owner has at hand is. May be called again.
  void set_right(bool is_whole) noexcept {
    log_.retired_
        .start_over();  // the threads that would have freed those segments are lost, mostly
    // A thread that has forked in its own sweep, where a type's copy or a look at chains does that,
    // goes on with it.
    if (!log_.is_looked_through() || threads::is_this(log_.by_)) return;
    object* const half_done = std::exchange(log_.at_, nullptr);
    log_.give_up_taken();
    if (is_whole) adopt(half_done);
    if (half_done != nullptr) half_done->free_from_lost();
    log_.end_collect();
  }

  /// Of one whose owner was lost: what is in it is for others to collect, and takes nothing of the
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

  /// What the log takes, of which its lost owner may have said one thing and not yet the other.
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

  /// What the objects take that sections have freed there. Some may be buried.
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

  /// It was a version, and none has followed it, but it is not the newest any more.
  static bool is_cut_off(const record& r) noexcept {
    const bool version =
        r.kind.read() != record_kind::lock_only && is_stamped(r.since.load_relaxed());
    return version && is_unended(r.ended.load_relaxed()) && !is_linked(r);
  }

  log<Header>& log_;
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

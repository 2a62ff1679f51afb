// SPDX-License-Identifier: Apache-2.0
// exclusive_mode.hpp: a thread that has a domain to itself changes objects in place: its commits
// need no timestamp, leave no copies, and end at once the objects that they free.
//
// Source:      none. Like a biased lock, it is cheap for one thread, and makes the others announce
//              themselves.
// Idea:        a thread is granted exclusive mode if two of its sweeps find that no other thread
//              has begun a section in between. It tells all other threads to ask before their next
//              section or sweep. A thread that was told to asks once: it revokes the grant, and
//              then goes on as before.
//
//     grant:   mine.granted := true;  others: asks := true;  heavy fence;  scan of the census: m is
//              the latest time of a section that is alive
//     section: announces its time;  light fence;  asks?  then ask
//     ask:     asks := false;  the other's granted := false;  heavy fence;  wait while in_place
//     commit:  in_place := true;  light fence;  granted?  then overwrite;  in_place := false
//
// Why no section sees what is overwritten.
//   A section that does not ask has seen no `asks`. Its light fence is then before the grant's
//   heavy one, so the grant has seen the section, and its time is at most m. An object is
//   overwritten only if its newest version began after m. Such a section must not see that version
//   anyway, be it in the master or in a copy. (A thread that is called because of a scan, and has
//   not been told to ask since it asked last, has missed no grant: each grant tells each thread. It
//   comes online without the heavy fence.)
//   A section that asks has done so before its first read. Either the commit's light fence comes
//   before the heavy one there: then the section sees `in_place`, and waits for the commit. Or the
//   commit sees that its grant is gone, and is an ordinary one.
// A section that is alive at the grant may still commit. It has a time of its own, and writes to
// objects of which it sees the newest version. These are not the ones that may be overwritten, and
// the locks keep the two commits from each other's objects.
// Why a freed object may end at once. It has no chain and its master began after m, so only
// sections that ask could reach it. A sweep may go to the objects of the copies that it finds. So
// sweeps ask as well, and no grant is given while one is under way.
//   - Without the second check, in ask, of which thread has the grant, a new thread could miss a
//     grant, if that grant had missed the thread as well.
//   - Without the check of the others' `asks` after the fence, a grant could miss a thread that has
//     just asked.
//
// Progress:    a section that asks waits for one commit, if one is under way. Nowhere else does a
//              section wait for another. `options::in_place`, set to false, switches the mode off.
// Cost:        a section: a load and a comparison. Asking: a heavy fence. So a thread whose grants
//              were revoked soon waits twice as many sweeps each time before it tries again.
// Fork:        a commit that was overwriting is completed in the child.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// The progress of a commit that may overwrite objects.
enum class overwriting : std::uint8_t {
  no,
  asked,  ///< the thread checks whether it still has its grant
  begun
};

/// The part of exclusive mode in a thread's record.
struct exclusive_part {
  atomic<bool> granted{false};
  atomic<overwriting> in_place{overwriting::no};
  /// m + 1, as of the last grant: no section that has not asked sees a version that began at or
  /// after this time.
  std::uint64_t from = 0;
  std::uint64_t commits_before = 0;
  std::uint32_t passes_to_skip = 0;
  std::uint32_t patience = 0;
  bool had_grant = false;
  std::vector<std::uint64_t> times;
};

/// Which thread has a domain to itself.
template <class Session>
class exclusive_mode {
 public:
  /// Ends another thread's exclusive mode, if the calling thread was told to ask. For a section,
  /// after it is announced and before its first read; for a sweep, after its fence.
  SPOLIA_NOINLINE void ask(Session& mine) noexcept {
    if (!mine.here.come_online()) return;
    for (Session* who = last_.load_acquire();;) {  // ← the release in grant: the session is whole
      if (who != nullptr) who->exclusive.granted.store_relaxed(false);
      fence::heavy();  // ↔ the light one in a commit, and the heavy one in grant
      // acquire ← the release at a commit's end: we see what it has written.
      for (backoff busy; who != nullptr && is_overwriting(*who);) busy.pause();
      Session* const then = last_.load_acquire();  // as above
      if (then == who) return;
      who = then;
    }
  }

  /// Grants the thread exclusive mode if it can have it. To be called after a sweep, outside of
  /// sections.
  void grant(Session& mine, const census& sections, const cells<Session>& all) noexcept {
    // acquire ← the releases below
    if (busy_.exchange_acquire(true)) return;
    if (!try_to_be_exclusive(mine, sections, all)) mine.exclusive.granted.store_relaxed(false);
    busy_.store_release(false);  // → the acquire above
  }

  /// Tries a grant if that is worthwhile. `latest`: the latest time of a section that was alive at
  /// the last two sweeps, which have found the same sections; 0: there are none.
  void after_pass(Session& mine, std::uint64_t latest, const census& sections,
                  const cells<Session>& all) noexcept {
    exclusive_part& part = mine.exclusive;
    if (part.granted.load_relaxed()) {
      if (part.from == (latest == 0 ? 0 : latest + 1)) return;
    } else if (std::exchange(part.had_grant, false)) {
      const bool soon = mine.commits.value() - part.commits_before < worth_a_grant;
      be_patient(part, soon);
    }
    if (part.passes_to_skip != 0) {
      --part.passes_to_skip;
      return;
    }
    grant(mine, sections, all);
    part.had_grant = part.granted.load_relaxed();
    part.commits_before = mine.commits.value();
    if (!part.had_grant) be_patient(part, true);
  }

  /// Calls look(), which scans the census and has a heavy fence in it. A thread that several scans
  /// in a row have found unchanged is called before the next one, and is offline after it: see
  /// online_state.hpp.
  template <class Look>
  void scan_and_call(const Session& mine, const cells<Session>& all, Look&& look) noexcept {
    const bool free = !busy_.exchange_acquire(true);  // as in grant
    if (!free) return look();
    all.for_each_occupied([&](std::uint32_t, Session& s) {
      if (&s != &mine && s.here.still >= scans_to_call) s.here.call();
      return true;
    });
    look();
    all.for_each_occupied([&](std::uint32_t, Session& s) {
      if (&s != &mine && !s.here.is_offline()) note(s);
      return true;
    });
    busy_.store_release(false);  // → the acquire above
  }

  /// In the child of a fork.
  void forget() noexcept { busy_.store_relaxed(false); }

 private:
  static constexpr std::uint64_t worth_a_grant = 10000;  // commits
  static constexpr std::uint32_t most_patience = 4096;   // sweeps

#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t scans_to_call = 0;
#else
  static constexpr std::uint32_t scans_to_call = 3;
#endif

  static void note(Session& s) noexcept {
    const std::uint64_t seen = s.slot.announced();
    if (s.here.is_called()) {
      s.here.found_offline();
    } else {
      const bool moves =
          seen != s.here.seen || s.here.still >= scans_to_call;  // it has come online
      s.here.still = moves ? 0 : s.here.still + 1;
    }
    s.here.seen = seen;
  }

  static void be_patient(exclusive_part& part, bool more) noexcept {
    part.patience = more ? (std::min)(2 * part.patience + 1, most_patience) : 0;
    part.passes_to_skip = part.patience;
  }

  static bool is_overwriting(const Session& s) noexcept {
    if (SPOLIA_FAULT("rlu.asks_and_goes_on")) return false;
    return s.exclusive.in_place.load_acquire() != overwriting::no;  // see ask
  }

  /// Revokes the grant of the thread that had it before. False: that thread may still be in a
  /// commit, and remains the one whose grant other threads revoke.
  static bool takes_from(Session& before) noexcept {
    before.exclusive.granted.store_relaxed(false);
    fence::heavy();  // as in ask
    return !is_overwriting(before) || SPOLIA_FAULT("rlu.takes_over_early");
  }

  /// \throws std::bad_alloc
  static bool no_other_section(Session& mine, const census& sections, const cells<Session>& all) {
    exclusive_part& part = mine.exclusive;
    // The scan makes a heavy fence, and then reads the stamps. An open one has no time yet.
    if (sections.scan(largest_timestamp, part.times) != largest_timestamp) return false;
    bool none = true;
    all.for_each_occupied([&](std::uint32_t, const Session& s) {
      const bool asks = &s == &mine || s.here.is_asking();
      none &= asks && !s.written.is_looked_through();
      return none;
    });
    return none;
  }

  bool try_to_be_exclusive(Session& mine, const census& sections,
                           const cells<Session>& all) noexcept {
    Session* const before = last_.load_relaxed();
    if (before != &mine && before != nullptr && !takes_from(*before)) return false;
    exclusive_part& part = mine.exclusive;
    part.granted.store_relaxed(true);  // first: a thread that is told revokes it
    last_.store_release(&mine);        // → the acquires in ask
    all.for_each_occupied([&](std::uint32_t, Session& s) {
      if (&s != &mine) s.here.call_to_ask();
      return true;
    });
    try {
      if (!no_other_section(mine, sections, all)) return false;
    } catch (const std::bad_alloc&) {
      return false;
    }
    const bool others = !part.times.empty() && !SPOLIA_FAULT("rlu.alone_beside_sections");
    part.from = others ? part.times.back() + 1 : 0;
    mine.here.come_online();  // nothing is left to ask: takes_from has revoked the grant before
    return true;
  }

  atomic<Session*> last_{nullptr};  // the thread that was given a grant last
  atomic<bool> busy_{false};        // a thread is giving the grant, or calling other threads
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

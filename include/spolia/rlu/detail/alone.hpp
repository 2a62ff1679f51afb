// SPDX-License-Identifier: Apache-2.0
// alone.hpp: a thread that has a domain to itself changes objects where they are: its commits need
// no timestamp, leave no copies, and end at once what they free.
//
// Source:      none; as biased locks do, it is cheap for one thread and asks the others to speak.
// Idea:        a thread that finds at two passes that no section has begun but its own tells all
//              others to ask before their next section or pass. Who is told asks once: it takes
//              that back, and goes on as ever.
//
//     grant:   mine.alone := true;  others: asks := true;  heavy fence;  look at the census: m is
//              the latest time of a section that is alive
//     section: announces its time;  light fence;  asks?  then ask
//     ask:     asks := false;  the other's alone := false;  heavy fence;  wait while in_place
//     commit:  in_place := true;  light fence;  alone?  then overwrite;  in_place := false
//
// Why nobody sees what is overwritten. A section that does not ask has seen no `asks`. Its light
// fence is then before the grant's heavy one, so the grant has seen it, and its time is at most m.
// An object is overwritten only if its newest version began after m: no such section is to see
// that, be it in the master or in a copy. (Who is called for the sake of a look, and has not been
// asked since it asked last, has missed no grant: each asks for itself. It comes back without the
// heavy fence.) One that asks has done so before its first read. Either
// the commit's light fence comes before the heavy one there, and `in_place` is seen and waited for;
// or the commit sees that it is not alone, and is an ordinary one.
// Who is alive may still commit. It does that with a time of its own, to objects of which it sees
// the newest version: others than those, and the locks keep them apart.
// Why a freed object may end at once. It has no chain and its master began after m, so that only
// sections which ask could reach it. Passes, which may go to objects whose copies they find, ask as
// well, and a grant is not given while one is under way.
//   - Without the second look at who is `alone`, in ask, a thread that is new may miss a grant that
//     has missed it.
//   - Without the look at the others' `asks` behind the fence, a grant may miss one that has just
//     asked.
//
// Progress:    a section that asks waits for one commit, if one is under way: the only place where
//              a section waits for another. `options::in_place` forbids all of this.
// Cost:        a section: a load and a comparison. Asking: a heavy fence. So a thread whose grants
//              were taken back soon waits twice as many passes each time before it tries again.
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

/// How far a commit is that may overwrite objects.
enum class overwriting : std::uint8_t {
  no,
  asked,  ///< whether the thread is still alone
  begun
};

/// What a thread keeps of this.
struct alone_part {
  atomic<bool> alone{false};  // its grant stands
  atomic<overwriting> in_place{overwriting::no};
  std::uint64_t from = 0;  // of its grant: what began from here on is for nobody who has not asked
  std::uint64_t commits_before = 0;
  std::uint32_t passes_to_skip = 0;
  std::uint32_t patience = 0;
  bool was_alone = false;
  std::vector<std::uint64_t> times;
};

/// Who has a domain to itself.
template <class Session>
class solitude {
 public:
  /// Before the first read of a section, which is announced, or behind a pass's fence.
  SPOLIA_NOINLINE void ask(Session& mine) noexcept {
    if (!mine.here.come_back()) return;
    for (Session* who = last_.load_acquire();;) {  // ← the release in grant: the session is whole
      if (who != nullptr) who->here_alone.alone.store_relaxed(false);
      fence::heavy();  // ↔ the light one in a commit, and the heavy one in grant
      // acquire ← the release at a commit's end: we see what it has written.
      for (backoff busy; who != nullptr && is_overwriting(*who);) busy.pause();
      Session* const then = last_.load_acquire();  // as above
      if (then == who) return;
      who = then;
    }
  }

  /// After a pass, outside of sections: makes the thread the one that is alone, if it can be.
  void grant(Session& mine, const census& sections, const cells<Session>& all) noexcept {
    // acquire ← the release below.
    if (busy_.exchange_acquire(true)) return;
    if (!try_to_be(mine, sections, all)) mine.here_alone.alone.store_relaxed(false);
    busy_.store_release(false);  // → the acquire above
  }

  /// The same if it is worth trying. `latest`: of the times of sections that were there at the
  /// last two passes, which saw the same; 0: there are none.
  void after_pass(Session& mine, std::uint64_t latest, const census& sections,
                  const cells<Session>& all) noexcept {
    alone_part& part = mine.here_alone;
    if (part.alone.load_relaxed()) {
      if (part.from == (latest == 0 ? 0 : latest + 1)) return;
    } else if (std::exchange(part.was_alone, false)) {
      const bool soon = mine.commits.value() - part.commits_before < worth_a_grant;
      be_patient(part, soon);
    }
    if (part.passes_to_skip != 0) {
      --part.passes_to_skip;
      return;
    }
    grant(mine, sections, all);
    part.was_alone = part.alone.load_relaxed();
    part.commits_before = mine.commits.value();
    if (!part.was_alone) be_patient(part, true);
  }

  /// look() is one at the census, which fences. Who has neither begun nor ended a section at
  /// several in a row is called, and is away from the next one on: see presence.hpp.
  template <class Look>
  void look_and_call(const Session& mine, const cells<Session>& all, Look&& look) noexcept {
    const bool free = !busy_.exchange_acquire(true);  // as in grant
    if (!free) return look();
    all.for_each([&](std::uint32_t, Session& s) {
      if (&s != &mine && s.here.still >= looks_to_call) s.here.call();
      return true;
    });
    look();
    all.for_each([&](std::uint32_t, Session& s) {
      if (&s != &mine && !s.here.is_away()) note(s);
      return true;
    });
    busy_.store_release(false);  // → the acquire above
  }

  /// In the child of a fork.
  void forget() noexcept { busy_.store_relaxed(false); }

 private:
  static constexpr std::uint64_t worth_a_grant = 10000;  // commits
  static constexpr std::uint32_t most_patience = 4096;   // passes

#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t looks_to_call = 0;
#else
  static constexpr std::uint32_t looks_to_call = 3;
#endif

  static void note(Session& s) noexcept {
    const std::uint64_t seen = s.seat.announced();
    if (s.here.is_called()) {
      s.here.found_away();
    } else {
      const bool moves = seen != s.here.seen || s.here.still >= looks_to_call;  // it has come back
      s.here.still = moves ? 0 : s.here.still + 1;
    }
    s.here.seen = seen;
  }

  static void be_patient(alone_part& part, bool more) noexcept {
    part.patience = more ? (std::min)(2 * part.patience + 1, most_patience) : 0;
    part.passes_to_skip = part.patience;
  }

  static bool is_overwriting(const Session& s) noexcept {
    if (SPOLIA_FAULT("rlu.asks_and_goes_on")) return false;
    return s.here_alone.in_place.load_acquire() != overwriting::no;  // see ask
  }

  /// The one before is not alone any more. False: it may be in a commit yet, and remains the one
  /// that all ask.
  static bool takes_from(Session& before) noexcept {
    before.here_alone.alone.store_relaxed(false);
    fence::heavy();  // as in ask
    return !is_overwriting(before) || SPOLIA_FAULT("rlu.takes_over_early");
  }

  /// \throws std::bad_alloc
  static bool nobody_else(Session& mine, const census& sections, const cells<Session>& all) {
    alone_part& part = mine.here_alone;
    // A heavy fence, and then the stamps. One that is open says nothing yet.
    if (sections.scan(largest_timestamp, part.times) != largest_timestamp) return false;
    bool nobody = true;
    all.for_each([&](std::uint32_t, const Session& s) {
      const bool asks = &s == &mine || s.here.is_asking();
      nobody &= asks && !s.written.is_looked_through();
      return nobody;
    });
    return nobody;
  }

  bool try_to_be(Session& mine, const census& sections, const cells<Session>& all) noexcept {
    Session* const before = last_.load_relaxed();
    if (before != &mine && before != nullptr && !takes_from(*before)) return false;
    alone_part& part = mine.here_alone;
    part.alone.store_relaxed(true);  // first: whoever is asked takes it back
    last_.store_release(&mine);      // → the acquires in ask
    all.for_each([&](std::uint32_t, Session& s) {
      if (&s != &mine) s.here.call_to_ask();
      return true;
    });
    try {
      if (!nobody_else(mine, sections, all)) return false;
    } catch (const std::bad_alloc&) {
      return false;
    }
    const bool anybody = !part.times.empty() && !SPOLIA_FAULT("rlu.alone_beside_sections");
    part.from = anybody ? part.times.back() + 1 : 0;
    mine.here.come_back();  // who was alone before has heard of it
    return true;
  }

  atomic<Session*> last_{nullptr};  // to be alone
  atomic<bool> busy_{false};        // somebody is granting
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

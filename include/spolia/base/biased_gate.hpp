// SPDX-License-Identifier: Apache-2.0
// biased_gate.hpp: a lock that costs its owner two plain stores and a load, and others a heavy
// fence.
//
// A thread's waiting blocks are its own; but when it has ended or is idle, another thread must be
// able to take them over. The owner says when it is present, and a visitor goes in only when it is
// not.
//
//   owner:    present = 1; light fence; closed?        visitor:  closed = 1; heavy fence; present?
//
// If the light fence comes first, the visitor sees the owner present and gives up. If the heavy
// fence comes first, the owner sees the gate closed. Without the fences both could go in at once.
//
// A heavy fence takes long, and its thread may be stopped there for longer; so a visitor only asks
// before it, and goes in by a compare-and-swap after it. An owner that comes meanwhile takes the
// question back, and does not wait. Each question has a number of its own, so that a visitor whose
// question was taken back does not go in by a later one's. But an owner that comes and goes all the
// time keeps such visitors out. A visitor that may not miss a short absence insists: it closes the
// gate before its fence, as above, and an owner that comes meanwhile waits.
//
// A visitor that must not give up leaves its question standing. It is resolved by whichever is
// first of two: the visitor goes in when it finds the owner absent, or the owner, when it comes
// next, answers: it does itself what the visitor wanted to do. So the visitor waits for one stay of
// the owner at most, however short the absences are, and the owner never waits for the visitor. One
// heavy fence after the question is enough for all later checks of whether the owner is present: a
// visitor that first sees the owner present and later sees it absent reads what go() wrote after
// that stay; so whatever the owner's next come() writes was not there yet, its light fence comes
// after the heavy one, and its check of the gate finds the question.
//
// A visitor that finds the owner absent may leave the gate locked: `parked`. From then on visitors
// know without any fence that the owner is absent, until it has unlocked the gate. The owner learns
// of it from the check of `closed` that it makes anyway.
//
// Progress:    a visitor never waits, except for a standing question: until the stay of the owner
//              that is under way has ended. The owner waits for a visitor that insists or is
//              inside: so what a visitor does there must be short, without a system call, and must
//              not run code of the user.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class biased_gate {
 public:
  biased_gate() = default;
  /// Parked from the start, or not.
  explicit biased_gate(bool is_parked) noexcept : closed_(is_parked ? parked : open) {}

  /// What the owner says of itself: in the low bits its reasons to be present, each a number of its
  /// own choice; above them what it likes. Others see that, too: said().
  using word = std::uint64_t;
  static constexpr int level_bits = 16;

  /// What the owner has to see to when it comes.
  enum class arrival : std::uint8_t {
    plain,     ///< nothing
    unparked,  ///< the gate was parked, and is not any more
    asked      ///< a question stands: the owner does what is wanted and calls answered()
  };

  /// The owner is present, or present once more: `more`, which holds a reason, is added to what it
  /// says.
  SPOLIA_ALWAYS_INLINE arrival come(word more) noexcept {
    const word level = own() + more;
    note(level);
    present_.store_relaxed(level);
    // light → the heavy fence in visit(): see above.
    fence::light();
    // acquire ← the release at the end of visit(): we see what the visitor left.
    if (state_of(closed_.load_acquire()) != open) [[unlikely]]
      return wait(level, more);
    return arrival::plain;
  }

  /// The owner, which was asked, has done what the visitor wanted.
  void answered() noexcept {
    const word was = closed_.load_relaxed();
    // release → the acquire in resolve(): the visitor sees what we did for it.
    if (SPOLIA_FAULT("gate.answer_relaxed")) return closed_.store_relaxed(was - state_of(was));
    closed_.store_release(was - state_of(was));
  }

  /// The reasons in `less` are gone.
  SPOLIA_ALWAYS_INLINE void go(word less) noexcept {
    // release → the acquire in visit(): it sees our lists whole. Without it a visitor could splice
    // a list whose last link is not written yet.
    const word level = own() - less;
    note(level);
    present_.store_release(level);
  }

  /// A look from outside, which may be outdated at once.
  bool looks_idle() const noexcept { return reasons(said()) == 0; }
  word said() const noexcept { return present_.load_relaxed(); }
  /// The owner's look at the same. No step to the model checker, since what others do makes no
  /// difference to it.
  SPOLIA_ALWAYS_INLINE word own() const noexcept {
#if defined(SPOLIA_MODEL)
    return own_;
#else
    return said();
#endif
  }

  /// Is it parked? Then what the owner did before, and the thread that parked it, happens before.
  // acquire ← the releases in visit_and_leave() and leave_parked().
  bool is_parked() const noexcept { return state_of(closed_.load_acquire()) == parked; }

  /// Calls f() if the owner is not present and no other thread is visiting, and keeps the owner out
  /// meanwhile. Returns whether it did.
  template <class F>
  bool visit(F&& f) noexcept {
    return visit_and_leave(open, f, asked);
  }
  /// The same for a visitor that must get in: an owner that comes meanwhile waits for the fence,
  /// too.
  template <class F>
  bool insist(F&& f) noexcept {
    return visit_and_leave(open, f, visited);
  }

  /// Leaves a question standing. Returns its number, for resolve(), which must follow until it is
  /// resolved; no_question: the gate is parked, or another visitor asks or is inside. Between the
  /// two the visitor issues a heavy fence, which may be one for the questions at many gates.
  word leave_question() noexcept {
    word was = closed_.load_relaxed();
    if (state_of(was) != open) return no_question;
    const word question = was + one_question;
    // acquire ← the release at the end of an earlier visit.
    return closed_.cas_strong_acquire(was, question + standing) ? question : no_question;
  }
  static constexpr word no_question = 0;

  /// Whether the question is resolved: the owner has answered it, or was absent, and then f() has
  /// been called as by visit().
  template <class F>
  bool resolve(word question, F&& f) noexcept {
    word mine = question + standing;
    // acquire ← the release in answered(): what the owner did for us.
    const word now = closed_.load_acquire();
    if (now != mine) return now != question + visited;  // there the owner is answering
    // acquire ← the release in go(): the owner's last writes.
    if (reasons(present_.load_acquire()) != 0 || SPOLIA_FAULT("gate.never_enters")) return false;
    // relaxed: as in ask(). Failure: the owner has come, and answers.
    if (!closed_.cas_strong_relaxed(mine, question + visited)) return false;
    f();
    // release → the acquires of closed_: the next one sees what we did.
    closed_.store_release(question);
    return true;
  }

  /// The same, and the gate stays parked if f() was called.
  template <class F>
  bool park(F&& f) noexcept {
    return visit_and_leave(parked, f, asked);
  }

  /// The owner, not present, leaves the gate parked, and calls f() for that. False: a visitor asks
  /// or is inside.
  template <class F>
  bool leave_parked(F&& f) noexcept {
    word was = closed_.load_relaxed();
    if (state_of(was) != open) return false;
    // acquire ← the release at the end of an earlier visit. No fence: visitors ask whether this
    // thread itself is present, and what it has done comes before the release below.
    if (!closed_.cas_strong_acquire(was, was | visited)) return false;
    f();
    // release → the acquires of closed_: a visitor that finds the gate parked sees our last writes.
    closed_.store_release(SPOLIA_FAULT("gate.left_open") ? was : was | parked);
    return true;
  }

  /// In a fork's child, where no visitor is left. True if one may have been inside.
  bool evict() noexcept {
    const word was = closed_.load_relaxed();
    const word state = state_of(was);
    if (state == open || state == parked) return false;
    closed_.store_relaxed(was - state);
    return state == visited && looks_idle();
  }

  /// In a fork's child, for a thread that is gone: no thread is present, and none visits.
  void reset() noexcept {
    note(0);
    present_.store_relaxed(0);
    closed_.store_relaxed(open);
  }

 private:
  // Of `closed_`: above the state, how often visitors have asked so far.
  static constexpr word open = 0;
  static constexpr word asked = 1;
  static constexpr word visited = 2;
  static constexpr word parked = 3;
  static constexpr word standing = 4;
  static constexpr word one_question = 8;

  static constexpr word state_of(word closed) noexcept { return closed % one_question; }
  static constexpr word reasons(word level) noexcept {
    return level & ((word{1} << level_bits) - 1);
  }

  template <class F>
  bool visit_and_leave(word leave, F& f, word begin) noexcept {
    word was = closed_.load_relaxed();
    if (state_of(was) == parked) {
      // acquire ← the release at the end of an earlier visit. The owner has not been here since:
      // the thread that parked the gate issued the fence.
      if (!closed_.cas_strong_acquire(was, was - parked + visited)) return false;
      f();
      // release → the acquires of closed_, as below.
      closed_.store_release(was);
      return true;
    }
    if (state_of(was) != open || !ask(was, begin)) return false;
    f();
    // release → the acquires of closed_: the next one sees what we did.
    closed_.store_release(was + leave);
    return true;
  }

  /// At an open gate, which is `begin` meanwhile: asked, or visited already. True: the owner was
  /// not present, and the gate is visited now; `was` is what it is without that.
  bool ask(word& was, word begin) noexcept {
    const word question = was + (SPOLIA_FAULT("gate.same_question") ? 0 : one_question);
    // acquire ← the release at the end of an earlier visit.
    if (!closed_.cas_strong_acquire(was, question + begin)) return false;
    was = question;
    // heavy → the light fence in come().
    if (!SPOLIA_FAULT("gate.no_heavy")) fence::heavy();
    // acquire ← the release in go(): the owner's last writes.
    const bool absent = reasons(present_.load_acquire()) == 0;
    if (absent && begin == visited) return true;
    if (absent && SPOLIA_FAULT("gate.enters_unasked")) {
      closed_.store_relaxed(question + visited);
      return true;
    }
    word mine = question + begin;
    // relaxed: what we want to see was acquired above, or nothing was touched. Failure: the owner
    // has come, and taken the question back.
    return closed_.cas_strong_relaxed(mine, question + (absent ? visited : open)) && absent;
  }

  SPOLIA_NOINLINE arrival wait(word level, word more) noexcept {
    // We have been present all the while: the visitor gives up, or its question stands until later.
    if (reasons(level - more) != 0) return arrival::plain;
    backoff pause;
    for (;;) {
      // acquire ← the release at the end of a visit.
      word was = closed_.load_acquire();
      const word state = state_of(was);
      if (state == open) return arrival::plain;  // seen after the fence
      if (state == standing) {
        if (SPOLIA_FAULT("gate.question_overlooked")) return arrival::plain;
        if (SPOLIA_FAULT("gate.answers_unasked")) return arrival::asked;
        // acquire ← the release of the last visit. Failure: the visitor goes in.
        if (closed_.cas_strong_acquire(was, was - standing + visited)) return arrival::asked;
        continue;
      }
      if (state != visited) {
        // acquire ← the release of the last visit. release → the acquire of the next one, which
        // sees us present.
        if (!closed_.cas_strong_acq_rel(was, was - state)) continue;
        return state == parked ? arrival::unparked : arrival::plain;
      }
      // release → the acquire in visit(); nothing was touched since the last one.
      present_.store_release(0);
      while (state_of(closed_.load_relaxed()) == visited) pause.pause();
      present_.store_relaxed(level);
      // light → the heavy fence in visit().
      fence::light();
    }
  }

  SPOLIA_ALWAYS_INLINE void note([[maybe_unused]] word level) noexcept {
#if defined(SPOLIA_MODEL)
    own_ = level;
#endif
  }

#if defined(SPOLIA_MODEL)
  word own_ = 0;
#endif
  atomic<word> present_{0};
  atomic<word> closed_{open};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

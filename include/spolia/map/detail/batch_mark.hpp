// SPDX-License-Identifier: Apache-2.0
// batch_mark.hpp: what a place says of batches (map/changes.hpp), in one word: nothing; or that a
// batch changes it, and it has two contents; or that batches rely on it, and what is there must
// stay until they are decided.
//
// A place is a block of pairs (pair_block.hpp): the word is set before the block is published, and
// stays. All that changes is how the batches stand (batch_state.hpp).
//
// Why a batch gets ready only if what it relies on has stayed. It relies on a place by a block that
//   it puts there, which repeats the pairs that it has judged and names the batch. What comes after
//   that block is put there by a thread that has found the block, and so its mark, and has decided
//   all batches of the mark first: each of them was undone, or had been ready before, and has a
//   stamp by then (decide()). So when a batch becomes ready, by one change of one word, all its
//   blocks are still the newest of their places, and its stamp is not above that of anything which
//   comes after them.
// Batches that rely on one place do not undo each other: the block of the later one names those of
//   the earlier one's that are not decided. One that is decided is decided to its end before it is
//   left out: it may be ready without a stamp, and what comes after the new block must not get one
//   below that.
// Memory: a word; with several batches a block of as many words, two more, and the batches' states:
//   as many as were under way, with one part of each named here, when the block was made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/batch_state.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

class batch_mark {
 public:
  batch_mark() = default;
  batch_mark(const batch_mark&) = delete;
  batch_mark& operator=(const batch_mark&) = delete;
  ~batch_mark() = default;

  [[nodiscard]] bool is_none() const noexcept { return word_ == 0; }
  /// A batch changes the place: it says which of the two contents counts.
  [[nodiscard]] bool has_two() const noexcept { return word_ != 0 && (word_ & kinds) == 0; }
  [[nodiscard]] bool is_changed_by(const batch_state& b) const noexcept {
    return word_ == word_of(&b);
  }
  /// Only if has_two().
  [[nodiscard]] batch_state& changer() const noexcept { return only(); }
  [[nodiscard]] SPOLIA_NOINLINE bool is_relied_on_by(const batch_state& b) const noexcept {
    bool found = false;
    if (!has_two()) each([&](const batch_state& one) { found |= &one == &b; });
    return found;
  }
  /// Whether each of its batches stands for good, or will when its stamp is there.
  [[nodiscard]] bool is_decided() const noexcept {
    bool all = true;
    each([&](const batch_state& one) { all &= one.is_decided(); });
    return all;
  }
  /// Undoes each of them, unless it is ready: then sees to its stamp. There is one at least.
  template <class Timeline>
  void decide(Timeline& time) const noexcept {
    if ((word_ & by_several) == 0) [[likely]]
      return only().decide(time);
    decide_all(time);
  }

  // Once, by the maker of the place.

  /// The batch changes it.
  void change(batch_state& b) noexcept {
    b.hold();
    word_ = word_of(&b);
  }
  /// The batch relies on it, and so do those that relied on the place before and are under way.
  /// Throws std::bad_alloc.
  template <class Timeline>
  void rely(batch_state& b, const batch_mark& before, Timeline& time) {
    std::size_t others = 0;
    if (!before.has_two() && !SPOLIA_FAULT("batch.forgets_others")) {
      before.each([&](batch_state& one) { others += is_open(one, time) ? 1U : 0U; });
    }
    if (others == 0) {
      b.hold();
      word_ = word_of(&b) | by_one;
      return;
    }
    auto* const made = several::make(others + 1);
    made->add(b);
    // Those that were open a moment ago need not be; not the other way round.
    before.each([&](batch_state& one) {
      if (is_open(one, time)) made->add(one);
    });
    word_ = word_of(made) | by_several;
  }
  /// In the place's destructor.
  void drop() noexcept {
    if (word_ != 0) [[unlikely]]
      drop_all();
  }

 private:
  static constexpr std::uintptr_t by_one = 1;
  static constexpr std::uintptr_t by_several = 2;
  static constexpr std::uintptr_t kinds = by_one | by_several;

  struct several {
    std::size_t room;
    std::size_t count = 0;

    static several* make(std::size_t room) {
      return ::new (memory::allocate(bytes(room), alignof(several))) several{room};
    }
    void end() noexcept { memory::deallocate(this, bytes(room), alignof(several)); }
    void add(batch_state& b) noexcept {
      b.hold();
      ::new (first() + count++) batch_state*(&b);
    }
    [[nodiscard]] batch_state** first() noexcept {
      return reinterpret_cast<batch_state**>(this + 1);
    }
    static std::size_t bytes(std::size_t room) noexcept {
      return sizeof(several) + room * sizeof(batch_state*);
    }
  };
  static_assert(alignof(batch_state) > kinds && alignof(several) > kinds);
  static_assert(sizeof(several) % alignof(batch_state*) == 0);

  static std::uintptr_t word_of(const void* p) noexcept {
    return reinterpret_cast<std::uintptr_t>(p);
  }
  /// False: it was decided, to its end.
  template <class Timeline>
  static bool is_open(batch_state& b, Timeline& time) noexcept {
    if (!b.is_decided()) return true;
    if (!SPOLIA_FAULT("batch.leaves_out_the_ready")) b.decide(time);
    return false;
  }
  SPOLIA_NOINLINE void drop_all() noexcept {
    if ((word_ & by_several) == 0) return only().drop();
    each([](batch_state& one) { one.drop(); });
    all().end();
  }
  template <class Timeline>
  SPOLIA_NOINLINE void decide_all(Timeline& time) const noexcept {
    each([&](batch_state& one) { one.decide(time); });
  }
  /// Where there are not several.
  [[nodiscard]] batch_state& only() const noexcept {
    return *reinterpret_cast<batch_state*>(word_ & ~kinds);
  }
  [[nodiscard]] several& all() const noexcept {
    return *reinterpret_cast<several*>(word_ & ~kinds);
  }
  template <class F>
  void each(F&& f) const noexcept {
    if (word_ == 0) return;
    if ((word_ & by_several) == 0) return f(only());
    for (batch_state* const one : std::span(all().first(), all().count)) f(*one);
  }

  std::uintptr_t word_ = 0;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

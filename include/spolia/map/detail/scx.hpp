// SPDX-License-Identifier: Apache-2.0
// scx.hpp: change one child pointer provided that several records have not changed meanwhile (LLX
// and SCX), with one descriptor for each thread, used again and again.
//
// Source:      Brown, Ellen, Ruppert: Pragmatic primitives for non-blocking data structures, PODC
//              2013; descriptors: Arbel-Raviv, Brown: Reuse, don't recycle, DISC 2017.
// Records:     have `info`, a tag that names the last operation that froze them; `marked`, true
//              once an operation has removed them for good; and child(i), which operations change.
// Operation:   freezes its records one after the other (info := its tag), marks those that it
//              removes, and swings the pointer. A thread that meets the tag of an unfinished
//              operation finishes it.
// Progress:    lock-free, if all operations freeze their records in one order (here: from the root
//              down, left to right).
// Protection:  help() announces what it touches and then looks whether the operation is still under
//              way. That is enough: see help(). Region schemes need nothing of it.
// Memory:      a descriptor for each thread number that ever changed something, freed with the scx.
//              They belong to one structure and not to the process, so a structure may be handed
//              between libraries that have different copies of this header.
//
// Departures from the papers:
//   D1  An operation removes all its records but the first, whose child it changes. A record frozen
//       for an operation that succeeds therefore stays frozen for it forever, and a thread that
//       fails to freeze one knows that none ever will: the papers' flag "all frozen" is not needed.
//   D2  Only the owner freezes the first record. If that fails no other thread has heard of the
//       operation.
//   D3  At the end the owner adds `done` to the tag in the first record. Later operations on the
//       record then need not look into the descriptor, which its owner writes to all the time.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/detail/numbered.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// `info` of a record that no operation has frozen yet.
inline constexpr std::uint64_t untouched_record = 1;

/// `Most`: how many records an operation may have.
template <class Record, unsigned Most = 4>
class scx final : private threads::listener {
 public:
  /// tag:   sequence of the operation (43 bits) | thread number (20 bits) | done.
  /// state: the same sequence | index of the child (8) | how many records (3) | phase (2).
  /// The sequence wraps after 2^43 operations of one thread. Only a tag left in a record by a
  /// helper that came too late, exactly so many operations ago, could then be taken for a new one.
  using word = std::uint64_t;
  using child = typename Record::child_type;

  static constexpr unsigned most_records = Most;
  static_assert(Most <= 7, "scx: the count has three bits");
  static constexpr unsigned first_slot = 4;  ///< help() announces in this guard slot and after it

  /// What llx() saw.
  struct view {
    word info = 0;
    enum class status : std::uint8_t { free, removed, busy } is = status::busy;
    explicit operator bool() const noexcept { return is == status::free; }
  };

  /// "Let v[0]'s child `index` be `fresh` instead of `old`, and remove v[1], v[2], ... for good, if
  /// no v[i] has changed since llx saw seen[i]." `fresh` was never the child of any record before.
  struct change {
    unsigned count;
    std::array<Record*, most_records> v;
    std::array<word, most_records> seen;
    unsigned index;
    child old;
    child fresh;
  };

  struct alignas(cache_line) cell {
    // Fields of a change, filled by the owner while the phase is `filling`. Stores release and
    // loads acquire: a thread that reads a field of a later operation sees `state` changed
    // afterwards.
    atomic<word> state{one_sequence};
    atomic<child> old{nullptr};
    atomic<child> fresh{nullptr};
    std::array<atomic<Record*>, most_records> v;
    std::array<atomic<word>, most_records> seen;  // [0] is not used: only the owner freezes v[0]
    tally inserted;
    tally erased;
    tally stamped;  // for next_stamp
    // What the owner's changes have added, less what they have removed.
    tally leaves;
    tally internals;
  };

  /// The calling thread's descriptor.
  struct owner {
    cell* mine;
    std::uint32_t number;
  };

  scx() { threads::listen(*this); }
  ~scx() { threads::unlisten(*this); }

  /// Throws std::bad_alloc on a thread's first call, std::length_error beyond 2^20 threads at once.
  SPOLIA_ALWAYS_INLINE owner me() {
    const std::uint32_t number = threads::number();
    if (number > number_mask) [[unlikely]]
      throw std::length_error("scx: more than 2^20 threads");
    return {&cells_.of(number), number};
  }

  /// A record's tag, to be handed to attempt(); children read afterwards are those that attempt()
  /// finds again. `busy`: an operation is under way, help(info) finishes it.
  view llx(const Record& x) const noexcept {
    // acquire ← the releases that store tags: what that operation did to x is seen by what follows.
    const word info = x.info.load_acquire();
    if ((info & done) == 0 && under_way(info)) return {info, view::status::busy};
    // relaxed: marked before the operation ended, and we know of its end by an acquire.
    if (x.marked.load_relaxed()) return {info, view::status::removed};
    return {info, view::status::free};
  }

  /// Makes the change; false: nothing has changed. The caller protects the records and `old`.
  SPOLIA_ALWAYS_INLINE bool attempt(owner me, const change& c) noexcept {
    cell& d = *me.mine;
    const word sequence = d.state.load_relaxed() & sequence_bits;
    fill(d, c);
    // release → the acquires of state in help() and under_way().
    d.state.store_release(sequence | word{c.index} << index_shift | word{c.count} << count_shift |
                          in_progress);
    const word tag = sequence | word{me.number} << number_shift;
    word seen = c.seen[0];
    // release → the acquire of info in llx(): a helper finds the descriptor filled.
    bool made = c.v[0]->info.cas_strong_release(seen, tag);
    if (made) {
      made = carry_out(d, tag, c);
      word frozen = tag;
      // release → the acquire of info in llx(): it sees the new child. Failure: a helper had
      // finished, and another thread has gone on with the record.
      c.v[0]->info.cas_strong_release(frozen, tag | done);
    }
    // release → the acquire of state in under_way(): it sees the new child and the marks. Before
    // anything is retired: help() relies on it.
    d.state.store_release(sequence + one_sequence);
    return made;
  }

  /// Finishes the operation that `tag` names. Outside of read(), inside a guard that began before
  /// the tag was read.
  ///
  /// Why announcing after the fact is enough, if the operation is still under way after it: its
  /// owner has retired nothing yet. v[0] is frozen, so it is in the structure, and `old` and v[1]
  /// hang on it or were unlinked by this operation only. v[i], i > 1, is touched only after its
  /// parent was found frozen for this operation, that is, after it was in the structure when we
  /// looked, or is later.
  template <class Guard>
  void help(Guard& guard, word tag) noexcept {
    cell* const d = cells_.find(static_cast<std::uint32_t>(tag >> number_shift) & number_mask);
    // acquire ← the release in attempt(), as for each field below.
    const word state = d->state.load_acquire();
    if (!is_under_way(state, tag)) return;
    change c;
    copy(*d, state, c);
    for (unsigned i = 0; i < c.count; ++i)
      reclaim::numbered::announce(guard, c.v[i], first_slot + i);
    if (c.count == 1) reclaim::numbered::announce(guard, c.old, first_slot + 1);  // else it is v[1]
    // If any field came from a later operation, its acquire makes us see that state has moved on.
    if (!SPOLIA_FAULT("scx.no_revalidate") && !is_under_way(d->state.load_acquire(), tag)) return;
    if (carry_out(*d, tag, c)) settle(*d, tag, committed);
  }

  /// Calls f(cell) for each thread that ever changed something.
  template <class F>
  void for_each(F&& f) const {
    cells_.for_each([&](std::uint32_t, const cell& c) {
      f(c);
      return true;
    });
  }

 private:
  static constexpr word done = 1;
  static constexpr unsigned number_shift = 1;
  static constexpr std::uint32_t number_mask = (std::uint32_t{1} << 20U) - 1;
  static constexpr word one_sequence = word{1} << 21U;
  static constexpr word sequence_bits = ~(one_sequence - 1);

  static constexpr word phase_bits = 3;
  static constexpr word in_progress = 1;  // 0: filling
  static constexpr word committed = 2;
  static constexpr word aborted = 3;
  static constexpr unsigned count_shift = 2;
  static constexpr word count_mask = 7;
  static constexpr unsigned index_shift = 5;
  static constexpr word index_mask = 255;

  static bool is_under_way(word state, word tag) noexcept {
    return ((state ^ tag) & sequence_bits) == 0 && (state & phase_bits) == in_progress;
  }

  bool under_way(word tag) const noexcept {
    const cell* const d =
        cells_.find(static_cast<std::uint32_t>(tag >> number_shift) & number_mask);
    // acquire ← the releases in attempt() and settle(): if it is over, we see what it did.
    return is_under_way(d->state.load_acquire(), tag);
  }

  template <class T>
  static void put(atomic<T>& field, T value) noexcept {
    // release → the acquire in copy(): a thread that reads this value sees that `state` had left
    // the operation before. With less, help() could carry out a mixture of two operations.
    if (SPOLIA_FAULT("scx.fill_relaxed")) {
      field.store_relaxed(value);
    } else {
      field.store_release(value);
    }
  }

  static void fill(cell& d, const change& c) noexcept {
    put(d.old, c.old);
    put(d.fresh, c.fresh);
    put(d.v[0], c.v[0]);
    for (unsigned i = 1; i < c.count; ++i) {
      put(d.v[i], c.v[i]);
      put(d.seen[i], c.seen[i]);
    }
  }

  static void copy(const cell& d, word state, change& c) noexcept {
    c.count = static_cast<unsigned>(state >> count_shift & count_mask);
    c.index = static_cast<unsigned>(state >> index_shift & index_mask);
    // acquire ← the releases in put(), for the look at `state` that comes afterwards.
    c.old = d.old.load_acquire();
    c.fresh = d.fresh.load_acquire();
    c.v[0] = d.v[0].load_acquire();
    for (unsigned i = 1; i < c.count; ++i) {
      // acquire ← the releases in put(), as above.
      c.v[i] = d.v[i].load_acquire();
      c.seen[i] = d.seen[i].load_acquire();
    }
  }

  /// The operation's steps after v[0] was frozen; any number of threads may run them at once.
  static bool carry_out(cell& d, word tag, const change& c) noexcept {
    for (unsigned i = 1; i < c.count; ++i) {
      word seen = c.seen[i];
      // release → the acquire of info in llx(), as for v[0].
      if (c.v[i]->info.cas_strong_release(seen, tag) || seen == tag) continue;
      if (SPOLIA_FAULT("scx.ignore_frozen")) continue;
      settle(d, tag, aborted);  // D1: it will never be frozen for us
      return false;
    }
    if (!SPOLIA_FAULT("scx.no_mark")) {
      for (unsigned i = 1; i < c.count; ++i) mark(*c.v[i]);
    }
    child expected = c.old;
    // release → the acquires of searches: they see the new nodes constructed. Failure: another
    // thread did it.
    c.v[0]->child(c.index).cas_strong_release(expected, c.fresh);
    return true;
  }

  /// A record may want more of it: mark().
  static void mark(Record& removed) noexcept {
    if constexpr (requires { removed.mark(); }) {
      removed.mark();
    } else {
      // relaxed: seen by threads that learn that the operation is over.
      removed.marked.store_relaxed(true);
    }
  }

  /// Says that the operation is over, so that others need not wait for its owner to say so.
  static void settle(cell& d, word tag, word phase) noexcept {
    word state = d.state.load_relaxed();
    while (is_under_way(state, tag)) {
      // release → the acquire of state in under_way(): it sees the new child and the marks.
      if (d.state.cas_weak_release(state, (state & ~phase_bits) | phase)) return;
    }
  }

  // Between a thread's operations its descriptor is at rest.
  void thread_left(std::uint32_t) noexcept override {}

  /// The thread vanished in a fork, perhaps in the middle of an operation. We are the only thread,
  /// and nothing that it protected has been freed: finish it.
  void thread_lost(std::uint32_t number) noexcept override {
    cell* const d = cells_.find(number);
    if (d == nullptr) return;
    const word state = d->state.load_relaxed();
    const word tag = (state & sequence_bits) | word{number} << number_shift;
    if (is_under_way(state, tag)) {
      change c;
      copy(*d, state, c);
      if (c.v[0]->info.load_relaxed() == tag) carry_out(*d, tag, c);
    }
    // release → the acquire of state in under_way(), as at the end of attempt().
    d->state.store_release((state & sequence_bits) + one_sequence);
  }

  mutable cells<cell> cells_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

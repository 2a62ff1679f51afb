// SPDX-License-Identifier: Apache-2.0
// pins.hpp: the objects that one thread looks at without counting: its private pins.
//
// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 3.3 (private pointers).
// Idea:        a pin names a word in a slot that only its thread writes and that scans read. The
//              object stays, since a scan that finds its name holds back the last deferred
//              decrement of it.
// Departures:
//   1. The paper marks a slot as busy while it is filled, and scans wait for it; its order of the
//      mark's store and the source's load is not kept by x86 or C++. Here a name is published,
//      ordered by a light fence, and confirmed by a second look at the source. Scans never wait.
//   2. A pin has two slots: the source that is looked at may lie in the object named before, which
//      so stays named until the next move. Private pointers name what is next in the other slot, by
//      turns. A walk, which knows what it names, puts that into the second slot and names what is
//      next in the first one, so its slots are always the same. A pin holds up two objects at most,
//      and a walk needs one pin.
//   3. The set grows by chunks, and scans read no further than pins were ever handed out.
//   4. Copies of a private pointer share the pin, by a count that only the thread sees. In the
//      paper each copy costs an increment and a logged decrement.
//   5. A pin may hold a counted unit instead, for private pointers from shared ones.
//   6. A few pins are in no list of free ones: one is free if its first slot says so. A pointer
//      that takes it puts a name there first, be it null's. Scans look at the second slot only if
//      the first one does not say so: a scan that finds it there has seen the pin free after its
//      heavy fence, and then all names that follow are confirmed after that fence. So it is given
//      back by one store, and most private pointers find theirs by one look.
// Protects:    a name stays in its slot from its confirmation until its object is no longer looked
//              at; or in the first slot until it is in the second one, and then there. Scans read
//              the first slot first, so they find it in one of them.
// Cost:        a move: two loads of the source, a store of the pin or two, a light fence.
// Progress:    naming is lock-free: it repeats when the source has changed meanwhile.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/detail/word.hpp>

// Whether compilers are told how to compare with what lies in memory: they put no atomic load into
// a comparison by themselves. Sanitizers and helgrind want to see the load.
#if defined(__x86_64__) && defined(__LP64__) && !defined(SPOLIA_MODEL) && !SPOLIA_TSAN && \
    !SPOLIA_ASAN && !SPOLIA_VALGRIND
#define SPOLIA_COMPARES_MEMORY 1
#else
#define SPOLIA_COMPARES_MEMORY 0
#endif

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// Where a thread names one object.
struct alignas(std::bit_ceil(sizeof(atomic<word>))) slot : atomic<word> {
  using atomic<word>::atomic;
};

/// In the first slot of a pin that is in no list: it is free. No object has that name, and no
/// private pointer has that pin.
inline constexpr word free_mark = 1;

/// fence::light() for a caller that knows that light fences are free: that stays so.
SPOLIA_ALWAYS_INLINE void known_light() noexcept {
#if defined(SPOLIA_MODEL)
  fence::light();  // its partner is the caller's
#else
  __asm__ volatile("" ::: "memory");  // what is left of one: the compiler moves nothing over it
#endif
}

inline bool light_is_free() noexcept {
#if defined(SPOLIA_MODEL)
  return true;
#else
  return core::asymmetric();
#endif
}

/// Names `seen`, and looks at the source again. `known`: the caller knows that light fences are
/// free.
SPOLIA_ALWAYS_INLINE word name_and_look(slot& in, word seen, const atomic<word>& source, bool total,
                                        bool known) noexcept {
  // release → the acquire in visit(): our looks at what this named happen before it ends.
  SPOLIA_FAULT("counted.publish_relaxed") ? in.store_relaxed(seen) : in.store_release(seen);
  // light → the heavy fence in collector::begin: either the scan after it finds this name, or
  // our next look finds the source without each unit that was captured before it.
  if (!SPOLIA_FAULT("counted.no_light")) known ? known_light() : fence::light();
  // acquire ← the release that put the word into the source: we see the object constructed.
  // seq_cst: only because the user asked for it.
  const word again = total ? source.load_seq_cst() : source.load_acquire();
  return SPOLIA_FAULT("counted.no_validate") ? seen : again;
}

/// The same for a caller that knows that light fences are free, and only asks whether the source
/// still holds it. `in` is the slot's address: as a pointer, compilers would keep it twice.
SPOLIA_ALWAYS_INLINE bool name_if_held(std::uintptr_t in, word seen,
                                       const atomic<word>& source) noexcept {
#if SPOLIA_COMPARES_MEMORY
  // The store, the light fence and the second look: the compiler moves nothing over them, and on
  // this processor each store releases and each load acquires.
  bool held;
  __asm__ volatile("mov{q %2, (%1)| [%1], %2}\n\tcmp{q %2, %3| %3, %2}"
                   : "=@cce"(held)
                   : "r"(in), "r"(seen), "m"(source)
                   : "memory");
  return held;
#else
  return name_and_look(*reinterpret_cast<slot*>(in), seen, source, false, true) == seen;
#endif
}

/// Names what `source` holds, and returns it; what the slot named is named no longer. Null is not
/// named. With `total` the look takes part in the one order of all seq_cst operations. It is most
/// likely what was `seen`.
SPOLIA_ALWAYS_INLINE word put_name_seen(slot& in, word seen, const atomic<word>& source,
                                        bool total) noexcept {
  for (;;) {
    const word again = name_and_look(in, seen, source, total, false);
    if (again == seen) [[likely]]
      return seen;
    seen = again;
  }
}

SPOLIA_ALWAYS_INLINE word put_name(slot& in, const atomic<word>& source,
                                   bool total = false) noexcept {
  return put_name_seen(in, source.load_relaxed(), source, total);
}

/// The same, but null is not named; then the slot may still name something else.
SPOLIA_ALWAYS_INLINE word put_name_unless_null(slot& in, const atomic<word>& source,
                                               bool known) noexcept {
  // acquire ← the release that put null there: a thread that sees the end of a way sees why it
  // ends.
  word seen = source.load_acquire();
  while (seen != 0) {
    const bool held = known ? name_if_held(reinterpret_cast<std::uintptr_t>(&in), seen, source)
                            : name_and_look(in, seen, source, false, false) == seen;
    if (held) [[likely]]
      break;
    seen = source.load_acquire();  // as above
  }
  return seen;
}

/// What the slot named is named no longer. By `free_mark` its pin is free, too.
SPOLIA_ALWAYS_INLINE void clear_name(slot& in, word by = 0) noexcept {
  // release → the acquire in visit(): our looks at the object happen before it ends.
  SPOLIA_FAULT("counted.clear_relaxed") ? in.store_relaxed(by) : in.store_release(by);
}

struct alignas(2 * sizeof(slot)) pin {
  /// In `users`: it holds a unit.
  static constexpr std::uint32_t with_unit = std::uint32_t{1} << 31U;
  /// In the address of a pin that goes back to a list of free ones, and of no other.
  static constexpr std::uintptr_t in_list = 2 * sizeof(slot);

  std::array<slot, 2> both;  // what it names, and what it named before, by turns
  std::uintptr_t link = 0;   // free: the next free pin; in use: what it holds; a walker's: turns
  std::uint32_t users = 1;   // private pointers that share it; the thread's own. Free: 1
  std::uint32_t owner = 0;   // the thread's number

  /// The pin of one of its slots, and the slot for its next name.
  static pin* of(std::uintptr_t at) noexcept {
    return reinterpret_cast<pin*>(at & ~std::uintptr_t{sizeof(slot)});
  }
  SPOLIA_ALWAYS_INLINE static std::uintptr_t after(std::uintptr_t at) noexcept {
    return SPOLIA_FAULT("counted.one_slot") ? at : at ^ sizeof(slot);
  }

  [[nodiscard]] SPOLIA_ALWAYS_INLINE slot& first() noexcept { return both[0]; }
  [[nodiscard]] SPOLIA_ALWAYS_INLINE const slot& first() const noexcept { return both[0]; }

  /// Before what is next is named in the first slot, too: keeps `named`, which it names, until the
  /// next move.
  SPOLIA_ALWAYS_INLINE void keep(word named) noexcept {
    if (SPOLIA_FAULT("counted.one_slot")) return;
    // release → the acquire in visit(): our looks at what this named happen before it ends. The
    // store that overwrites the first slot releases, too, so a scan that sees that one sees this
    // one.
    both[1].store_release(named);
  }
  /// The slot for the first name of the pointer that takes it; what its last user left is
  /// forgotten.
  SPOLIA_ALWAYS_INLINE std::uintptr_t begin() noexcept {
    clear_name(both[1]);
    return reinterpret_cast<std::uintptr_t>(&both[0]);
  }
  /// The same for a pointer that begins with a second pin, of the first ones: the second slot says
  /// what the first one says, that it is free. Where both pins are cleared by a constant, look-ups
  /// in tables beyond the caches take 1.15 times as long; why is not known.
  SPOLIA_ALWAYS_INLINE std::uintptr_t begin_second() noexcept {
    clear_name(both[1], both[0].load_relaxed());
    return reinterpret_cast<std::uintptr_t>(&both[0]);
  }

  /// Of those that are in no list: whether it is free, if `mark` is the mark of that.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE bool is_free(word mark = free_mark) const noexcept {
#if SPOLIA_COMPARES_MEMORY
    bool free;
    __asm__("cmp{q %2, %1| %1, %2}"
            : "=@cce"(free)
            : "m"(first()), "re"(mark));  // only its thread writes to it
    return free;
#else
    return first().load_relaxed() == mark;
#endif
  }
  // Of the one that each thread has for first walks: after so many of them it looks at the clock.
  void turns_left(std::uint64_t n) noexcept { link = n; }
  /// One walk more. True: it is time.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE bool ends_turns() noexcept {
    return static_cast<std::intptr_t>(--link) < 0;
  }

  /// One private pointer's, which holds no unit: it may name something else.
  [[nodiscard]] bool movable() const noexcept { return users == 1; }

  /// A unit, as an entry of a log.
  void hold(std::uintptr_t unit) noexcept {
    link = unit;
    users |= with_unit;
  }
  /// One user less. True: it was the last.
  [[nodiscard]] bool leave() noexcept { return (--users & ~with_unit) == 0; }
  /// 0: it holds none.
  [[nodiscard]] std::uintptr_t unit() const noexcept { return (users & with_unit) != 0 ? link : 0; }
  /// For its last user: what it holds, which is the user's from now on. Then it is movable.
  [[nodiscard]] std::uintptr_t take_unit() noexcept {
    const std::uintptr_t held = unit();
    users = 1;
    return held;
  }

  /// `by`: what it then says in the first slot.
  SPOLIA_ALWAYS_INLINE void clear(word by = 0) noexcept {
    clear_name(both[0], by);
    clear_name(both[1]);
  }
};

static_assert(sizeof(pin) == 2 * pin::in_list && alignof(pin) == pin::in_list);

/// How many private pointers of a thread find a pin at once; how many such pins are used.
inline constexpr std::uint32_t found_at_once = 3;
#if defined(SPOLIA_MODEL)
inline std::uint32_t most_found = 1;  // up to that, where a scenario has so many pointers
#else
inline constexpr std::uint32_t most_found = found_at_once;
#endif
using first_pins = std::array<pin, 1 + found_at_once>;

/// The pins of one thread.
class pin_set {
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t per_chunk = 2;
#else
  static constexpr std::uint32_t per_chunk = 12;
#endif
  struct alignas(2 * pin::in_list) chunk {
    std::array<unsigned char, pin::in_list> before{};  // so all have that bit in their addresses
    std::array<pin, per_chunk> at;
    atomic<chunk*> next{nullptr};
  };

 public:
  pin_set() noexcept {
    for (pin& p : firsts_) p.first().store_relaxed(free_mark);
#if defined(SPOLIA_MODEL)
    walker().turns_left(std::uint64_t{1} << 32U);  // no scenario has so many walks
#endif
  }
  pin_set(const pin_set&) = delete;
  pin_set& operator=(const pin_set&) = delete;
  ~pin_set() {
    for (chunk* c = first_.next.load_relaxed(); c != nullptr;) {
      chunk* const after = c->next.load_relaxed();
      c->~chunk();
      memory::deallocate(c, sizeof(chunk), alignof(chunk));
      c = after;
    }
  }

  /// For looks that end before any code of the user runs.
  slot& passing() noexcept { return passing_; }
  pin& walker() noexcept { return firsts_[0]; }
  /// Those that are in no list: the thread's first walk's, and private pointers'. What is left in
  /// their second slots means nothing while the first ones say that they are free.
  pin* firsts(std::uint32_t owner) noexcept {
    for (pin& p : firsts_) p.owner = owner;
    return firsts_.data();
  }

  /// A pin that names nothing, with one user. Throws std::bad_alloc.
  SPOLIA_ALWAYS_INLINE pin* take() {
    pin* p = free_;
    if (p == nullptr) [[unlikely]]
      return take_fresh();
    free_ = reinterpret_cast<pin*>(p->link);
    return p;
  }

  /// The last user goes; the caller has taken its unit, and made it movable.
  SPOLIA_ALWAYS_INLINE void give_back(pin* p) noexcept {
    p->clear();
    // Most often it is the pin that was taken last, and its link is right: what is taken next then
    // does not wait for a store to it.
    if (const auto next = reinterpret_cast<std::uintptr_t>(free_); p->link != next) [[unlikely]]
      p->link = next;
    free_ = p;
  }

  /// Calls f(word) for each name. What a pin names after a heavy fence before the call, and still
  /// names when it is read here, is found; see the fence in put_name.
  template <class F>
  void visit(F&& f) const {
    visit(passing_, f);
    const std::uint32_t last = most_found - (SPOLIA_FAULT("counted.scan_misses_last") ? 1 : 0);
    for (std::uint32_t i = 0; i <= last; ++i) {
      const pin& p = firsts_[i];
      if (SPOLIA_FAULT("counted.scan_second_first")) visit(p.both[1], f);
      const word first = visit(p.both[0], f);
      if (first == free_mark || (first == 0 && SPOLIA_FAULT("counted.null_is_free"))) continue;
      const bool once =
          SPOLIA_FAULT("counted.scan_first_only") || SPOLIA_FAULT("counted.scan_second_first");
      if (!once) visit(p.both[1], f);
    }
    // acquire ← the release in take_fresh: we see the chunks, and pins constructed.
    std::uint32_t left = high_.load_acquire();
    for (const chunk* c = &first_; c != nullptr && left > 0;) {
      for (std::uint32_t i = 0; i < per_chunk && left > 0; ++i, --left) visit(c->at[i], f);
      // acquire ← the release in take_fresh: we see the chunk constructed.
      c = c->next.load_acquire();
    }
  }

  /// The thread has vanished in a fork, with all its private pointers. Units that pins hold stay
  /// with them forever.
  void forget() noexcept {
    free_ = nullptr;
    passing_.store_relaxed(0);
    for (pin& p : firsts_) forget(p, free_mark);
    std::uint32_t left = high_.load_relaxed();
    for (chunk* c = &first_; c != nullptr && left > 0; c = c->next.load_relaxed()) {
      for (std::uint32_t i = 0; i < per_chunk && left > 0; ++i, --left) {
        forget(c->at[i]);
        c->at[i].link = reinterpret_cast<std::uintptr_t>(free_);
        free_ = &c->at[i];
      }
    }
  }

  /// Pins handed out at most at one time so far, beside the first ones.
  [[nodiscard]] std::uint32_t high() const noexcept { return high_.load_relaxed(); }

 private:
  /// What it says.
  template <class F>
  static word visit(const slot& s, F& f) {
    // acquire ← the releases in put_name, keep and clear_name: what the thread did with objects
    // that it named here happens before they end. Of a pin's slots the second one is read next.
    const word w = SPOLIA_FAULT("counted.scan_relaxed") ? s.load_relaxed() : s.load_acquire();
    if (w > free_mark) f(w);
    return w;
  }
  template <class F>
  static void visit(const pin& p, F& f) {
    for (const slot& s : p.both) visit(s, f);  // in this order
  }

  static void forget(pin& p, word by = 0) noexcept {
    p.clear(by);
    p.users = 1;
  }

  SPOLIA_NOINLINE pin* take_fresh() {
    const std::uint32_t index = high_.load_relaxed();
    chunk* c = &first_;
    for (std::uint32_t i = index; i >= per_chunk; i -= per_chunk) {
      chunk* after = c->next.load_relaxed();
      if (after == nullptr) {
        after = ::new (memory::allocate(sizeof(chunk), alignof(chunk))) chunk;
        // release → the acquire in visit: it sees the chunk constructed.
        c->next.store_release(after);
      }
      c = after;
    }
    pin& p = c->at[index % per_chunk];
    p.owner = threads::number();
    // release → the acquire in visit. That a scan sees it at all, if it matters, follows from the
    // light fence after the pin names something.
    high_.store_release(index + 1);
    return &p;
  }

  pin* free_ = nullptr;
  atomic<std::uint32_t> high_{0};
  slot passing_;
  alignas(2 * pin::in_list) first_pins firsts_;
  chunk first_;
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

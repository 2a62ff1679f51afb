// SPDX-License-Identifier: Apache-2.0
// destruction_queue.hpp: how units are dropped and objects end: at once where a plain pointer drops
// the last unit, and a bounded number at a time where a helper does.
//
// Depth:       destructors nest up to `deepest`; objects below end after those above, from a stack.
// Locations that end with an object that a helper destroys give up their units here: resolve()
//              looks at all pins after the end of the location, and drops what none names; why that
//              is enough is said in collector.hpp.
// Errors:      without memory, units wait where they are, objects end one within the other.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/detail/control.hpp>
#include <spolia/counted/detail/member.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

class destruction_queue {
 public:
  destruction_queue(const destruction_queue&) = delete;
  destruction_queue& operator=(const destruction_queue&) = delete;

  /// The same as object_ends where that is short. False: nothing was done.
  template <class Block>
  SPOLIA_ALWAYS_INLINE static bool ends_shortly(member& me, Block* b) noexcept {
    if (me.depth >= deepest || me.helping) return false;
    ++me.depth;
    end_object(b);
    --me.depth;
    return true;
  }
  /// What was put off since destructors nested too deep.
  SPOLIA_ALWAYS_INLINE static bool put_off(const member& me) noexcept {
    return me.depth == 0 && !me.helping && !me.work.empty();
  }
  void end_put_off(member& me) noexcept {
    while (put_off(me)) {  // a destructor may have helped, and used the budget up
      me.budget = (std::numeric_limits<std::int64_t>::max)();
      work_off(me);
    }
  }

  /// The last strong unit of e's block was dropped, by the calling thread. Destroys the object
  /// before it returns; or later where destructors are nested too deep, or a helper has done
  /// enough.
  void object_ends(member* me, entry e) noexcept {
    if (me == nullptr) return end_entry(e);
    if (me->depth >= deepest || (me->helping && me->budget <= 0)) {
      if (me->work.push(e)) {
        me->doomed.add();
        return;
      }
    }
    destroy(*me, e);
    end_put_off(*me);
  }

  /// Calls f(number, member) for what each thread has, or had.
  template <class F>
  void each_member(F&& f) const {
    members_.for_each([&](std::uint32_t number, const member& m) {
      f(number, m);
      return true;
    });
  }
  /// What is in the thread's count cache goes. No destructors run. False: there is no memory, and
  /// it stays for the collector.
  bool spill(member& me) noexcept {
    if (!me.work.has_room(1)) {
      count_cache::leave_alone();
      return false;
    }
    drop_later(me, me.cache.empty());
    return true;
  }

  /// Calls f(word) for each name of all threads' pins. A thread whose names matter to the caller
  /// occupied its cell before it named anything, and so before the call.
  template <class F>
  void each_pin(F&& f) const {
    members_.for_each_occupied([&](std::uint32_t, const member& m) {
      m.pins.visit(f);
      return true;
    });
  }

 protected:
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t deepest = 3;
#else
  static constexpr std::uint32_t deepest = 48;  // destructors within destructors
#endif
  static constexpr std::int64_t no_memory = (std::numeric_limits<std::int64_t>::min)();
  static constexpr unsigned at_once = 16;  // units that resolve() looks at together

  destruction_queue() = default;
  ~destruction_queue() = default;

  static void keep_logged(member& me, entry e) noexcept {
    me.log.append(e);
    me.kept.add();
  }

  /// n units. What becomes of the block waits in me.work; without me it happens here.
  static void drop(member* me, entry e, std::uint32_t n = 1) noexcept {
    drop_uncounted(me, e, n);
    if (me != nullptr) me->dropped.add(n);
  }

  /// The same, but the caller adds to me.dropped, after it: else drain() could find that nothing
  /// waits, while what ends with the last unit is not yet doomed.
  SPOLIA_ALWAYS_INLINE static void drop_uncounted(member* me, entry e, std::uint32_t n) noexcept {
    // Another copy's threads have pins that are not seen here.
    if (!is_thin(e)) block_of_entry(e)->ops().copy.expect_own(counted_pointer);
    bool last = false;
    if (is_thin(e)) {
      last = head_of_entry(e)->drop(n);
    } else if (task_of(e) == task::drop_strong) {
      last = block_of_entry(e)->drop_strong(n);
    } else {
      last = block_of_entry(e)->drop_weak(n);
    }
    if (last) dropped_last(me, e);
  }

  SPOLIA_NOINLINE static void dropped_last(member* me, entry e) noexcept {
    if (is_thin(e)) {
      head* const h = head_of_entry(e);
      if (me != nullptr && !h->ops().silent && me->work.push(entry_of(h, task::end_object))) {
        me->doomed.add();
      } else {
        end_object(h);
      }
      return;
    }
    control* const c = block_of_entry(e);
    const bool strong = task_of(e) == task::drop_strong;
    if (strong && c->ops().silent) return drop_weak(c);
    if (me != nullptr && me->work.push(entry_of(c, strong ? task::end_object : task::free_block))) {
      me->doomed.add();
    } else if (strong) {
      end_object(c);
    } else {
      c->ops().deallocate(c);
    }
  }

  /// Takes away what is in a cache that is shut. Without memory it stays for the next epoch.
  void take_away(member& me, count_cache& from) noexcept {
    if (have_count_caches() && me.work.has_room(1)) drop_later(me, from.take_away());
  }

  /// Units of a cache. If they were the last, others end the object: the caller may be a thread
  /// that only reads. There is room for one entry in me.work.
  void drop_later(member& me, const count_cache::content& c) noexcept {
    if (c.n == 0) return;
    me.unlogged.add(c.n);
    drop(&me, c.what, c.n);
    if (me.depth == 0 && !me.helping) me.work.leave_to(left_);
  }

  /// A thread has vanished in a fork. What it was just dropping or ending, and had on its stack, it
  /// may have been in the middle of changing: that stays forever. It counts as dropped, or else
  /// drain() would never find that nothing waits.
  void lose(member& lost) noexcept {
    lost.forget();
    collector_counts sum;
    std::uint64_t found = left_.entries();
    each_member([&](std::uint32_t, const member& m) {
      m.count_done(sum);
      m.count_begun(sum);
      found += m.log.entries() + m.work.entries() + m.in_hand;
    });
    lost.dropped.add(sum.waiting() - found);
  }

  void shut_count_caches() noexcept {
    if (!have_count_caches()) return;
    members_.for_each_occupied([](std::uint32_t, member& m) {
      m.cache.shut();
      return true;
    });
  }

  static void end_entry(entry e) noexcept {
    is_thin(e) ? end_object(head_of_entry(e)) : end_object(block_of_entry(e));
  }

  static void destroy(member& me, entry e) noexcept {
    ++me.depth;
    --me.budget;
    end_entry(e);
    --me.depth;
  }

  void work_off(member& me) noexcept {
    units_aside aside;
    while (me.budget > 0 && !(me.work.empty() && aside.n == 0)) {
      // Also while memory is out: what is dropped must find room again.
      if (aside.n > 0 && (me.work.empty() || aside.n == at_once || !me.work.has_room(at_once))) {
        resolve(me, aside);
        continue;
      }
      const entry e = me.work.pop();
      const std::uint64_t in_hand = aside.n + 1;
      switch (task_of(e)) {
        case task::end_object:
          me.in_hand += in_hand;
          destroy(me, e);
          me.ended.add();
          me.in_hand -= in_hand;
          break;
        case task::free_block:
          me.in_hand += in_hand;
          block_of_entry(e)->ops().deallocate(block_of_entry(e));
          --me.budget;
          me.ended.add();
          me.in_hand -= in_hand;
          break;
        default:
          // Its count changes when some are together.
          __builtin_prefetch(address_of_entry(e), 1);
          aside.add(e);
      }
    }
    if (aside.n > 0) resolve(me, aside);
  }

  /// Units of locations that have ended, put aside until there are enough of them.
  struct units_aside {
    std::array<entry, at_once> at;
    unsigned n = 0;
    std::uint64_t filter = 0;  // of their names: most pins name something else, as one look tells

    static std::uint64_t bit_of(name c) noexcept {
      return std::uint64_t{1} << ((c >> 4U ^ c >> 10U) & 63U);
    }
    void add(entry e) noexcept {
      at[n++] = e;
      filter |= bit_of(name_of_entry(e));
    }
    /// A bit for each unit of what the word leads to.
    [[nodiscard]] std::uint32_t named_by(word w) const noexcept {
      const name c = name_of(w);
      std::uint32_t found = 0;
      if ((filter & bit_of(c)) == 0) [[likely]]
        return found;
      for (unsigned i = 0; i < n; ++i) {
        if (name_of_entry(at[i]) == c) found |= 1U << i;
      }
      return found;
    }
  };

  /// Those that no pin names are dropped, the others are logged.
  void resolve(member& me, units_aside& aside) noexcept {
    bool stuck = false;
    std::uint32_t named = 0;
    const auto note = [&](word w) { named |= aside.named_by(w); };
    if (!SPOLIA_FAULT("counted.children_at_once")) each_pin(note);
    const auto dropped = aside.n - static_cast<unsigned>(std::popcount(named));
    for (unsigned i = aside.n; i-- > 0;) {
      if ((named >> i & 1U) == 0) {
        drop_uncounted(&me, aside.at[i], 1);
      } else if (me.log.try_reserve()) {
        keep_logged(me, aside.at[i]);
      } else {
        // Without memory for either, what is pinned just now never ends.
        (void)me.work.push(aside.at[i]);
        stuck = true;
      }
    }
    me.dropped.add(dropped);
    aside.n = 0;
    aside.filter = 0;
    me.budget = stuck ? no_memory : me.budget - 1;
  }

  [[nodiscard]] bool pinned(name c) const noexcept {
    bool found = false;
    each_pin([&](word w) { found |= name_of(w) == c; });
    return found;
  }

  cells<member> members_;
  left_work left_;
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

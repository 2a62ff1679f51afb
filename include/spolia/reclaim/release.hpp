// SPDX-License-Identifier: Apache-2.0
// release.hpp: how fast blocks that a scheme has proven safe go back to the allocator.
//
//   batch       all at once, on the spot. The habit of the field, and its mistake: a large batch
//               overflows the allocator's thread cache, and one operation pays for all of it.
//   amortized   a few between operations: whenever the thread has retired `every` blocks since the
//               last step, so many are freed, and one more for each `spread` that wait; `every` or
//               fewer go at once. What operations add, a quarter of a block each, is asked for when
//               the domain looks around anyway. (Kim, Brown, Singh, PPoPP 2024, 3.3, where each
//               operation frees one: a step for each costs more than what it frees, where frees are
//               cheap.) So blocks go back hardly faster than new ones are asked for, and the
//               allocator's thread cache neither runs over nor dry.
//   pooled      as amortized, but the memory of a destroyed block is kept, up to a cap, for the
//               next block of its size that this thread makes.
//
// A policy belongs to a domain; its `local` is part of a thread's cell and is touched by one thread
// at a time. Every operation is noexcept: deleters must not throw. A deleter may retire further
// blocks, also into the domain that is freeing: they join the list being freed, never a deeper
// call.
//
// Bound: amortized and pooled free at least as many blocks as are retired while any wait, and
// `every` ahead, beginning with the end of the operation in which blocks became safe. So between
// operations a thread's waiting and safe blocks together never exceed the scheme's bound for
// waiting ones alone. All that an operation retires comes on top until its end, and all that the
// deleters of a step retire until the end of the next operation. `at_least` adds as many blocks
// less one for each thread, whatever the policy. Each policy says in numbers what it adds:
// holds_back(), which domain::garbage_bound() counts. Blocks: the memory that `pooled` keeps is no
// block.
//
// Pause: `every` frees, as many as the last operation retired, and 1024 more at most (those for
// `spread`); a fraction of a millisecond, where a free takes 100 ns. `cap` is a second line of
// defence, for schemes without a bound. There a reader that leaves may have held up as much as
// memory holds, and steps that come with retirements alone would keep it for as long as little is
// retired. So while more than `cap` wait, a step comes with every operation, and frees those 1024:
// 3072 operations after a reader that held 4 million, and no operation takes longer for it.
//
// Heavy blocks, which own memory or are large themselves, count as one block more for each 256
// bytes: so at least as many bytes are freed as are retired while any wait.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// What freeing has cost one thread so far. Written by the thread, read by any.
struct release_meter {
  tally freed;                    ///< blocks destroyed
  tally freed_bytes;              ///< their bytes
  std::uint32_t time_one_in = 0;  ///< 0: never; else so many pauses share one measurement
  std::uint32_t untimed = 0;      ///< pauses since the last one measured
  histogram_on_demand pauses;     ///< ns that an operation spent freeing
};

namespace detail::reclaim {

/// What every policy keeps for a thread: safe blocks, when some are freed next, and whether it is
/// freeing right now.
struct release_queue {
  limbo safe;
  /// How many more blocks may be retired before some are freed; below zero: now.
  std::int64_t left = never;
  std::uint64_t reminded = 0;      // the operations that had begun by the last reminder
  std::uint64_t owed = 0;          // blocks to free for operations
  const limbo* freeing = nullptr;  // the list that is being freed
  release_meter meter;

  /// f(list) for each list of blocks that wait here.
  template <class F>
  void lists(F&& f) {
    f(safe);
    // A thread that forks in a deleter has taken this one in hand.
    if (freeing != nullptr && freeing != &safe) f(*freeing);
  }

  SPOLIA_ALWAYS_INLINE void account(const retired* r) noexcept {
    meter.freed.add(1);
    meter.freed_bytes.add(r->holds_bytes());
  }

  /// Frees up to `most` safe blocks with `end_of(block)`; `poll()` is called after every hundredth.
  template <class End, class Poll>
  SPOLIA_ALWAYS_INLINE void free_some(std::size_t most, End&& end_of, Poll&& poll) noexcept {
    if (freeing == nullptr) free_from(safe, most, end_of, poll);
  }

  /// The same with blocks of a list of its own. Precondition: not freeing yet.
  template <class End, class Poll>
  SPOLIA_ALWAYS_INLINE void free_from(limbo& blocks, std::size_t most, const End& end_of,
                                      Poll& poll) noexcept {
    if (blocks.empty()) return;
    freeing = &blocks;
    const bool timing = wants_timing((std::min)(most, blocks.count())) || trace::on();
    const std::uint64_t start = timing ? trace::ticks() : 0;
    std::size_t done = 0;
    while (done < most) {
      retired* const r = blocks.pop();
      if (r == nullptr) break;
      account(r);
      if (r->heavy()) [[unlikely]]  // and counts for more than one
        most -= (std::min)(most - done - 1, r->further_blocks());
      end_of(r);
      if (++done % poll_period == 0) poll();
    }
    if (timing) record(start, done);
    freeing = nullptr;
  }

  static constexpr std::int64_t never = std::int64_t{1} << 62;
  static constexpr std::size_t poll_period = 100;  // the paper's k for periodic token passing

 private:
  /// Reading the time costs as much as a quick free, so small pauses may be sampled; big ones
  /// never.
  bool wants_timing(std::size_t blocks) noexcept {
    if (meter.time_one_in == 0) return false;
    if (blocks < poll_period && ++meter.untimed < meter.time_one_in) return false;
    meter.untimed = 0;
    return true;
  }

  void record(std::uint64_t start, std::size_t done) noexcept {
    const std::uint64_t end = trace::ticks();
    if (meter.time_one_in != 0) {
      meter.pauses.record(
          static_cast<std::uint64_t>(static_cast<double>(end - start) * trace::ns_per_tick()));
    }
    trace::record(done > 1 ? trace::event::batch_freed : trace::event::single_free, start, end,
                  done);
  }
};

inline constexpr auto no_poll = [] {};
/// Ends a block whose memory is not kept.
struct ending_at {
  const memory::origin& from;
  SPOLIA_ALWAYS_INLINE void operator()(retired* r) const noexcept {
    const disposer& how = r->how();
    if (how.destroy == nullptr) return how.dispose(r);
    const auto [bytes, align] = std::pair(how.bytes, how.align);  // before it is gone
    from.deallocate(how.destroy(r), bytes, align);
  }
};

}  // namespace detail::reclaim

/// Frees every safe block at once.
class batch {
 public:
  static constexpr std::string_view name = "batch";
  struct options {
    std::size_t at_least = 1;  ///< let safe blocks pile up to this number first
  };
  using local = detail::reclaim::release_queue;

  batch(options o, memory::origin from) noexcept : options_(o), from_(from) {}

  template <class Poll>
  void take(local& me, limbo& safe, Poll&& poll) noexcept {
    me.safe.append(safe);
    if (me.safe.count() < options_.at_least) return;
    me.free_some(detail::reclaim::everything, detail::reclaim::ending_at{from_}, poll);
  }
  static constexpr bool owe(local&) noexcept { return false; }
  static constexpr void owe_further(local&, std::size_t) noexcept {}
  /// Only what was taken over from other threads can be enough here.
  bool is_due(const local& me) const noexcept {
    return !me.safe.empty() && me.safe.count() >= options_.at_least;
  }
  void remind(local&, std::uint64_t) noexcept {}
  static constexpr void hasten(local&, std::size_t) noexcept {}
  static constexpr std::uint64_t unpaid(local&) noexcept { return 0; }
  void step(local& me) noexcept { drain(me); }
  void drain(local& me) noexcept {
    me.free_some(detail::reclaim::everything, detail::reclaim::ending_at{from_},
                 detail::reclaim::no_poll);
  }
  void adopt(local& me, local& other) noexcept { me.safe.append(other.safe); }
  std::size_t backlog(const local& me) const noexcept { return me.safe.count(); }
  std::size_t wants(const local&) const noexcept { return detail::reclaim::everything; }
  std::uint64_t holds_back() const noexcept {
    return std::max<std::size_t>(options_.at_least, 1) - 1;
  }

  void* allocate(local&, std::size_t bytes, std::size_t align) {
    return from_.allocate(bytes, align);
  }
  void deallocate(local&, void* p, std::size_t bytes, std::size_t align) noexcept {
    from_.deallocate(p, bytes, align);
  }

 private:
  options options_;
  memory::origin from_;
};

/// Numbers of the policies that spread freeing over time.
struct amortized_options {
  /// Let safe blocks of a thread pile up to this number first, as batch does; then all of them are
  /// freed, a few at a time, and what becomes safe meanwhile with them. A larger number brings
  /// nothing but a comparison with batch under equal bags. Not more than `cap` can pile up.
  std::size_t at_least = 1;
  /// Blocks retired between two steps, not more than an allocator's thread cache takes at once; 1:
  /// for blocks whose destructors are slow; 0: 64 where operator new is tcmalloc's, else 16.
  std::uint32_t every = 0;
  /// One more a step for so many (rounded down to 2^n) that wait, 1024 more at most.
  std::size_t spread = 4096;
  /// With more safe blocks of one thread than this each operation frees 1024 of them.
  std::size_t cap = 1U << 20U;
  std::size_t pool = 4096;  ///< pooled: pieces of each size kept by a thread, 4 MiB at most
  /// As few blocks as one step would free go where they are found to be safe, also at the beginning
  /// of an operation; false: at the end of one only.
  bool few_at_once = true;
};

namespace detail::reclaim {

/// Ends blocks a few at a time. `operation` is the number of the thread's latest operation: a step
/// is then found to be due by one comparison, and nothing need be counted for it. `Memory` says
/// where their memory goes and where new blocks' comes from.
template <class Memory>
class spread_over_time {
 public:
  using options = amortized_options;
  using local = typename Memory::local;

  spread_over_time(options o, memory::origin from) noexcept
      : options_(o),
        from_(from),
        every_(o.every != 0 ? o.every : memory::frees_together()),
        at_once_(o.few_at_once && o.at_least <= 1),
        shift_(static_cast<int>(bit_length(std::max<std::size_t>(o.spread, 1))) - 1) {}

  template <class Poll>
  void take(local& me, limbo& safe, Poll&&) noexcept {
    if (safe.empty()) return;
    // What one step would free goes at once: to come back for it costs more than to free it.
    if (safe.count() <= every_ && me.safe.empty() && at_once_ && me.freeing == nullptr) {
      me.free_from(safe, everything, ending(me), no_poll);
      if (me.safe.empty()) return;  // deleters may have retired more
    }
    me.safe.append(safe);
    begin_if_enough(me);  // at the end of this operation
  }
  /// A block was retired. Returns whether a step is due.
  SPOLIA_ALWAYS_INLINE bool owe(local& me) noexcept {
    // What comes next has left the caches since it was retired.
    me.safe.look_ahead();
    return --me.left < 0;
  }
  /// The block counts as so many more.
  static void owe_further(local& me, std::size_t blocks) noexcept {
    me.left -= static_cast<std::int64_t>(blocks);
  }
  static bool is_due(const local& me) noexcept { return me.left < 0; }
  /// So many operations have begun: blocks must not wait for as long as nothing is retired.
  void remind(local& me, std::uint64_t operations) noexcept {
    me.owed += (operations - me.reminded) / a_block;
    me.reminded += (operations - me.reminded) / a_block * a_block;
    ask_for_owed(me);
  }
  /// So many further blocks are to be freed: threads that no longer free have retired them.
  void hasten(local& me, std::size_t blocks) noexcept {
    me.owed = std::max<std::uint64_t>(me.owed, blocks);
    ask_for_owed(me);
  }
  /// The thread ends: what it owes for operations and others is for its successors to free.
  static std::uint64_t unpaid(local& me) noexcept { return std::exchange(me.owed, 0); }
  void step(local& me) noexcept {
    if (me.freeing != nullptr)
      return;  // in a deleter, whose guard ends: later, and nothing is forgotten
    const auto late = static_cast<std::size_t>(-1 - me.left);
    me.left = std::int64_t{every_} - 1;  // first: deleters may retire
    const std::size_t more = exceeds_cap(me) ? most_more : me.safe.count() >> shift_;
    me.free_some(every_ + late + (std::min)(more, most_more), ending(me), no_poll);
    if (me.safe.empty()) me.left = me.never;
    if (exceeds_cap(me)) me.left = std::min<std::int64_t>(me.left, -1);
    ask_for_owed(me);
    // Blocks with few others before them are soon freed, and in the caches still.
    if (me.safe.count() >= few) me.safe.look_from_first();
  }
  /// Frees everything that is safe, and kept memory with it.
  void drain(local& me) noexcept {
    me.free_some(everything, ending_at{from_}, no_poll);
    Memory::give_back(me, from_);
  }
  void adopt(local& me, local& other) noexcept {
    me.safe.append(other.safe);
    begin_if_enough(me);
    Memory::give_back(other, from_);
  }
  std::size_t backlog(const local& me) const noexcept { return me.safe.count(); }
  /// How many more blocks a scheme that can choose should find safe now: few, so that they are in
  /// the caches still when they are freed, but enough until it looks again.
  std::size_t wants(const local& me) const noexcept {
    if (options_.at_least > 1) return everything;  // or else they would never be enough
    return backlog(me) < ahead / 2 ? ahead - backlog(me) : 0;
  }
  std::uint64_t holds_back() const noexcept {
    return std::max<std::size_t>(options_.at_least, 1) - 1;
  }

  void* allocate(local& me, std::size_t bytes, std::size_t align) {
    return Memory::allocate(me, from_, bytes, align);
  }
  void deallocate(local& me, void* p, std::size_t bytes, std::size_t align) noexcept {
    Memory::deallocate(me, from_, p, bytes, align, options_.pool);
  }

 private:
  /// So many operations count as one retired block: most structures retire less than one in each.
  static constexpr std::uint64_t a_block = 4;
  static constexpr std::size_t ahead = 256;
  static constexpr std::size_t few = 64;
  static constexpr std::size_t most_more = 1024;  // blocks that a step frees of its own accord

  struct end_of_block {
    local& me;
    const memory::origin& from;
    std::size_t pool;
    SPOLIA_ALWAYS_INLINE void operator()(retired* r) const noexcept {
      Memory::end(me, from, r, pool);
    }
  };
  /// Whether safe blocks, if there are any, still pile up: no step is to come.
  static bool piles_up(const local& me) noexcept { return me.left > me.never / 2; }
  void begin_if_enough(local& me) const noexcept {
    if (piles_up(me) && me.safe.count() < options_.at_least && !exceeds_cap(me)) return;
    me.left = std::min<std::int64_t>(me.left, -1);
  }
  /// One step at the end of each operation, until what is owed for operations is freed.
  void ask_for_owed(local& me) noexcept {
    if (me.safe.empty() || piles_up(me)) {
      me.owed = 0;
    } else if (me.owed >= every_) {
      me.owed -= every_;
      me.left = std::min<std::int64_t>(me.left, -1);
    }
  }
  bool exceeds_cap(const local& me) const noexcept { return me.safe.count() > options_.cap; }

  end_of_block ending(local& me) const noexcept { return {me, from_, options_.pool}; }

  options options_;
  memory::origin from_;
  std::uint32_t every_;
  bool at_once_;
  int shift_;  // of a power of two for `spread`: a division here would cost as much as a free
};

struct allocator_memory {
  using local = release_queue;
  SPOLIA_ALWAYS_INLINE static void end(local&, const memory::origin& from, retired* r,
                                       std::size_t) noexcept {
    ending_at{from}(r);
  }
  static void give_back(local&, const memory::origin&) noexcept {}
  static void* allocate(local&, const memory::origin& from, std::size_t bytes, std::size_t align) {
    return from.allocate(bytes, align);
  }
  static void deallocate(local&, const memory::origin& from, void* p, std::size_t bytes,
                         std::size_t align, std::size_t) noexcept {
    from.deallocate(p, bytes, align);
  }
};

struct pool_memory {
  /// Free memory of one size; each piece holds the address of the next.
  struct shelf {
    std::size_t bytes = 0;
    std::size_t align = 0;
    std::size_t count = 0;
    void* top = nullptr;

    void push(void* p) noexcept {
      *static_cast<void**>(p) = top;
      top = p;
      ++count;
    }
    void* pop() noexcept {
      void* const p = top;
      if (p == nullptr) return nullptr;
      top = *static_cast<void**>(p);
      --count;
      return p;
    }
  };

  struct local : release_queue {
    // A domain holds a few kinds of block; those that find no shelf go to the allocator.
    std::array<shelf, 6> shelves;
  };

  /// Bytes of each size that a thread keeps.
  static constexpr std::size_t most_kept = std::size_t{4} << 20U;

  static void end(local& me, const memory::origin& from, retired* r, std::size_t most) noexcept {
    const disposer& how = r->how();
    if (how.destroy == nullptr) return how.dispose(r);
    const std::size_t bytes = how.bytes;
    const std::size_t align = how.align;
    deallocate(me, from, how.destroy(r), bytes, align, most);
  }
  static void give_back(local& me, const memory::origin& from) noexcept {
    for (shelf& s : me.shelves) {
      while (void* const p = s.pop()) from.deallocate(p, s.bytes, s.align);
    }
  }
  static void* allocate(local& me, const memory::origin& from, std::size_t bytes,
                        std::size_t align) {
    if (shelf* const s = shelf_for(me, bytes, align)) {
      if (void* const p = s->pop()) return p;
    }
    return from.allocate(bytes, align);
  }
  static void deallocate(local& me, const memory::origin& from, void* p, std::size_t bytes,
                         std::size_t align, std::size_t most) noexcept {
    shelf* const s = shelf_for(me, bytes, align);
    if (s != nullptr && s->count < most && (s->count + 1) * bytes <= most_kept) {
      s->push(p);
    } else {
      from.deallocate(p, bytes, align);
    }
  }

 private:
  static shelf* shelf_for(local& me, std::size_t bytes, std::size_t align) noexcept {
    for (shelf& s : me.shelves) {
      if (s.bytes == bytes && s.align == align) return &s;
      if (s.bytes == 0) {
        s.bytes = bytes;
        s.align = align;
        return &s;
      }
    }
    return nullptr;
  }
};

}  // namespace detail::reclaim

/// Frees a few safe blocks every few operations.
class amortized : public detail::reclaim::spread_over_time<detail::reclaim::allocator_memory> {
 public:
  static constexpr std::string_view name = "amortized";
  using spread_over_time::spread_over_time;
};

/// Destroys a few safe blocks every few operations and keeps their memory for new ones.
class pooled : public detail::reclaim::spread_over_time<detail::reclaim::pool_memory> {
 public:
  static constexpr std::string_view name = "pooled";
  using spread_over_time::spread_over_time;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

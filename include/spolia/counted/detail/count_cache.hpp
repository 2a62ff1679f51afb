// SPDX-License-Identifier: Apache-2.0
// count_cache.hpp: some units of one object that a thread has at hand, because it has loaded
// pointers to that object again and again: so that it need not count each of them in memory that
// all write to.
//
// Idea:        a thread that has loaded the same object from locations `after` times in a row takes
//              `stock` units more at once. A load that reads a word of this object takes one of
//              them: no pin, no read-modify-write. A plain pointer to it that ends in this thread
//              puts its unit back. The cache always keeps one unit while it is open, so its object
//              lives, and a word that leads to the block's address leads to that object and no
//              other. The read of the location is where such a load takes place.
// Emptied:     a thread that rests must not keep an object. Each epoch of the collector shuts the
//              gates of all caches before its heavy fence. Then each scan looks at the caches of
//              its threads, and takes what is in them, if their owners are not just busy. These are
//              plain units, on which no pin relies, so they may be dropped at once.
//              The owner says that it is busy, makes a light fence, and checks the gate, each time.
//              Let E be an owner's turn that saw the gate open, and C the epoch that shut it. Were
//              C's heavy fence before E's light fence, E would have seen the gate shut. So C's scan
//              finds E's mark, or a later one. If it finds the owner not busy, then E, and each
//              other turn that saw the gate open, happened before, by the release at its end. If it
//              finds it busy it leaves the cache alone. The owner checks the gate once more after
//              each turn, after a second light fence: by the same argument it then sees it shut,
//              and empties the cache itself. Both empty it by an exchange, so one of the two has
//              the units. Only a thread that is stopped within a turn keeps its object longer.
//              Only the owner opens the gate again, after the scan has been there: `passed`.
//              What is taken out may be the last units of an object, and then others are told of
//              it (destruction_queue.hpp). Without memory for that the units stay in the cache,
//              from which no load takes any, until the next epoch looks there.
// Bound:       one object a thread, with what it holds, until the next epoch or drain(). It counts
//              2 · `stock` + 1 units too many in use_count at most.
// Where light fences are not free there are no caches; nor while the process has one thread.
// Cost:        take, put: three stores and three loads of the thread's own. Units that go out and
//              those that came back are counted apart, so in `stock` loads at most a thread has to
//              count anew, and looks whether something is overdue (collector.hpp).
// Progress:    wait-free.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/detail/pins.hpp>
#include <spolia/counted/detail/unit_log.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

#if !defined(SPOLIA_MODEL)
/// What is in the calling thread's count cache, as an entry of a log, and the word that leads to
/// it.
struct own_count_cache {
  std::uintptr_t what;
  std::uintptr_t at;
};
extern SPOLIA_EXPORT constinit thread_local own_count_cache counted_cache SPOLIA_TLS_MODEL;
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

#if defined(SPOLIA_MODEL)
struct cached_units {
  entry what;
  word at;
};
#else
using cached_units = core::own_count_cache;
#endif
/// What no word is. Of a block that is no alias there is one word only, so that words may be
/// compared.
inline constexpr word no_word = 3;
// Only its values are used, so it does no harm that it may be one in the process or several.
inline constexpr cached_units nothing_cached{0, no_word};

#if defined(SPOLIA_MODEL)
inline constexpr std::uint32_t never = 0;
/// How many loads in a row fill a cache. A scenario that has caches says so.
inline std::uint32_t cache_after = never;
/// By the threads' numbers.
inline std::array<cached_units, 16> scenario_caches;
inline cached_units own_count_cache() {
  return cache_after == never ? nothing_cached : scenario_caches[threads::number()];
}
inline void set_own_count_cache(const cached_units& p) { scenario_caches[threads::number()] = p; }
inline void caches_from(std::uint32_t after) {
  cache_after = after;
  scenario_caches.fill(nothing_cached);
}
inline bool have_count_caches() noexcept { return cache_after != never; }
#else
inline constexpr std::uint32_t cache_after = 16;
SPOLIA_ALWAYS_INLINE const cached_units& own_count_cache() noexcept { return core::counted_cache; }
inline void set_own_count_cache(const cached_units& p) noexcept { core::counted_cache = p; }
inline bool have_count_caches() noexcept { return light_is_free(); }
#endif

/// n units more; the caller has one.
inline void add_units(entry e, std::uint32_t n) noexcept {
  is_thin(e) ? head_of_entry(e)->add(n) : block_of_entry(e)->add(n * control::strong_unit);
}
/// n units less. True: they were the last.
[[nodiscard]] inline bool drop_units(entry e, std::uint32_t n) noexcept {
  return is_thin(e) ? head_of_entry(e)->drop(n) : block_of_entry(e)->drop_strong(n);
}

class count_cache {
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t stock = 2;
  static constexpr std::uint32_t most_back = 3;
#else
  static constexpr std::uint32_t stock = 63;
  static constexpr std::uint32_t most_back = stock;
#endif
  // In units_: those that can go out, and above them those that came back.
  static constexpr std::uint32_t one_back = std::uint32_t{1} << 16U;
  static constexpr std::uint32_t out_mask = one_back - 1;
  enum class gate : std::uint8_t { open, shut, passed };

 public:
  struct content {
    entry what = 0;
    std::uint32_t n = 0;
  };

  count_cache() = default;
  count_cache(const count_cache&) = delete;
  count_cache& operator=(const count_cache&) = delete;

  // ---- the owner's. After take, put and fill it checks whether the cache is_shut, and empties it.

  /// What is in it, for those that follow. While the gate is open only the owner changes that.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE std::uint32_t seen() const noexcept {
    return units_.load_relaxed();
  }

  /// Whether a unit goes out by take_last: once in `stock` times at least, also where all come
  /// back.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE static bool is_low(std::uint32_t units) noexcept {
    return (units & (out_mask - 1)) == 0;
  }
  /// One unit goes out. False: the gate was shut.
  SPOLIA_ALWAYS_INLINE bool take(std::uint32_t units) noexcept {
    const bool open = enter();
    if (open) [[likely]]
      units_.store_relaxed(units - 1);
    leave();
    return open;
  }
  /// The same. Those that came back can go out again, or there are fresh ones.
  bool take_last(std::uint32_t units) noexcept {
    const bool open = enter();
    if (open) {
      std::uint32_t n = all_of(units);
      if (n == 1) {
        fetch();
        n += stock;
      }
      units_.store_relaxed(n - 1);
    }
    leave();
    read_ += stock;
    return open;
  }

  /// Whether a unit comes in by put_into_full.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE static bool is_full(std::uint32_t units) noexcept {
    return units >= most_back * one_back;
  }
  /// One unit comes in. False: the gate was shut.
  SPOLIA_ALWAYS_INLINE bool put(std::uint32_t units) noexcept {
    const bool open = enter();
    if (open) [[likely]]
      units_.store_relaxed(units + one_back);
    leave();
    return open;
  }
  /// The same; others go.
  bool put_into_full(std::uint32_t units) noexcept {
    const bool open = enter();
    if (open) {
      (void)drop_units(what_.read(), most_back);  // not the last: we have more
      units_.store_relaxed(units - (most_back - 1) * one_back);
    }
    leave();
    return open;
  }

  [[nodiscard]] SPOLIA_ALWAYS_INLINE bool is_shut() const noexcept {
    return gate_.load_relaxed() != gate::open;
  }

  /// What is in it stays for the collector; the owner takes and puts nothing until it is filled.
  static void leave_alone() noexcept { set_own_count_cache(nothing_cached); }

  /// What was in it, unless the collector has it.
  content empty() noexcept {
    leave_alone();
    // relaxed: only we write to it but for the collector, which takes all, too; the thread that
    // gets the units has seen all that was done with them: we ourselves, the collector by its load
    // of busy_.
    const std::uint32_t n = units_.exchange_relaxed(0);
    return n == 0 ? content{} : content{what_.read(), all_of(n)};
  }

  /// w was loaded. True: the caller calls was_loaded_again() and is_time_to_look().
  [[nodiscard]] SPOLIA_ALWAYS_INLINE bool ends_turns(word w) noexcept {
    if (w == last_) return --same_ == 0;
    last_ = w;
    return --others_ == 0;
  }
  /// Whether what was loaded last was loaded so often in a row that a cache is worth its cost. The
  /// next turns end after so many loads, or fewer.
  [[nodiscard]] bool was_loaded_again(std::uint32_t loads) noexcept {
    const bool alike = others_ == others_before_;
    in_a_row_ = alike ? in_a_row_ + same_before_ - same_ : 1;
    read_ += same_before_ - same_ + others_before_ - others_;
    const bool again = in_a_row_ == cache_after;
    if (again) in_a_row_ = 0;
    const std::uint32_t few = cache_after > in_a_row_ ? cache_after - in_a_row_ : 1;
    same_ = same_before_ = (std::min)(few, loads);
    others_ = others_before_ = loads;
    return again;
  }
  [[nodiscard]] bool is_time_to_look(std::uint32_t loads) const noexcept { return read_ >= loads; }
  void looked() noexcept { read_ = 0; }

  /// For an empty one. The caller has a unit.
  void fill(const cached_units& p) noexcept {
    gate seen = gate::passed;
    if (SPOLIA_FAULT("counted.cache_opens_shut")) seen = gate_.load_relaxed();
    // acquire ← the release in take_away: the collector has read what_.
    (void)gate_.cas_strong_acquire(seen, gate::open);
    if (enter()) {
      what_.write(p.what);
      fetch();
      units_.store_relaxed(stock);
      set_own_count_cache(p);
    }
    leave();
  }

  // ---- the collector's

  [[nodiscard]] bool holds() const noexcept { return units_.load_relaxed() != 0; }

  /// Before the epoch's heavy fence.
  void shut() noexcept { gate_.store_relaxed(gate::shut); }

  /// After it, by one thread.
  content take_away() noexcept {
    content found;
    if (gate_.load_relaxed() != gate::shut) return found;  // it was made since then
    // acquire ← the release in leave: the owner's turns, and what it did with the object.
    if (!busy_.load_acquire() || SPOLIA_FAULT("counted.cache_busy_unseen")) {
      found.n = all_of(units_.exchange_relaxed(0));
      if (found.n != 0) found.what = what_.read();
    }
    // release → the acquire in fill.
    gate_.store_release(gate::passed);
    return found;
  }

  /// The thread was lost in a fork. In the midst of a turn it is not known what is in the cache:
  /// then these units are never dropped. Else they wait for an epoch.
  void forget() noexcept {
    if (busy_.load_relaxed()) units_.store_relaxed(0);
    busy_.store_relaxed(false);
  }

 private:
  SPOLIA_ALWAYS_INLINE bool enter() noexcept {
    const bool early = SPOLIA_FAULT("counted.cache_looks_first") && !is_shut();
    busy_.store_relaxed(true);
    // light → the heavy fence in collector::begin: see the head of this file.
    if (!SPOLIA_FAULT("counted.cache_no_light")) known_light();
    return early || !is_shut();
  }
  void fetch() noexcept { add_units(what_.read(), stock); }
  static std::uint32_t all_of(std::uint32_t units) noexcept {
    return (units & out_mask) + units / one_back;
  }
  SPOLIA_ALWAYS_INLINE void leave() noexcept {
    // release → the acquire in take_away.
    SPOLIA_FAULT("counted.cache_leaves_relaxed") ? busy_.store_relaxed(false)
                                                 : busy_.store_release(false);
    // light → the heavy fence in collector::begin: for the check that follows.
    known_light();
  }

  atomic<bool> busy_{false};  // the owner is at it
  atomic<gate> gate_{gate::open};
  atomic<std::uint32_t> units_{0};  // at least one while the gate is open and the owner knows it
  plain<entry> what_{0};
  // Of loads that are not by the cache. They have turns, which end after so many loads that find
  // what the one before has found, or so many others.
  word last_ = no_word;  // that was loaded
  std::uint32_t same_ = 1;
  std::uint32_t others_ = 1;
  std::uint32_t same_before_ = 1;  // when these turns began
  std::uint32_t others_before_ = 1;
  std::uint32_t in_a_row_ = 0;  // loads of `last_` until then
  std::uint32_t read_ = 0;      // loads of any kind since the thread looked at the clock
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

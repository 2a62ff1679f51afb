// SPDX-License-Identifier: Apache-2.0
// era_requests.hpp: a thread asks others to read a pointer for it. See wait_free_eras.hpp.
//
// One word tells how a request stands: its number, and beside it 0 when it has ended, 1 when it is
// pending, else 2 + the number of the helper that has answered it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/detail/eras.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// What one helper has found for one thread.
struct alignas(cache_line) era_answer {
  atomic<bool> reading{false};         // the helper may be reading from the source
  atomic<std::uint64_t> kept{no_era};  // the helper's announcement, until it is taken over
  atomic<std::uint64_t> value{0};      // the pointer's bits
  atomic<std::uint64_t> era{no_era};   // in which it lives
};

/// The request of one thread, and the answers.
class era_request {
  using read_function = std::uint64_t (*)(const void*) noexcept;

 public:
  /// The thread asks for what `source` holds. Returns the request's state.
  template <class Source>
  std::uint64_t ask(const basic_slot_rows<std::uint64_t>& rows, const Source& source) noexcept {
    keep(rows);
    // release → the acquires in help(): a helper that finds the source of a later request finds an
    // earlier one no longer pending.
    source_.store_release(&source);
    read_.store_release(&read_bits<Source>);  // the same
    const std::uint64_t asked = (state_.load_relaxed() | others) + 1 + pending;
    // release → the acquire in help(): the helper sees what is asked, and the last answer fetched.
    state_.store_release(asked);
    unsettled_ = true;
    return asked;
  }

  /// The thread has found the pointer itself. False: it was answered.
  bool take_back(std::uint64_t asked) noexcept {
    return state_.cas_strong_relaxed(asked, asked - pending);
  }
  bool answered(std::uint64_t asked) const noexcept { return state_.load_relaxed() != asked; }

  /// What the helper has left.
  era_answer& answer() const noexcept {
    // acquire ← the release in try_to_answer(): its record, and the block that the pointer leads
    // to.
    const std::uint64_t state = state_.load_acquire();
    return *answers_.find(static_cast<std::uint32_t>((state & others) - helper));
  }
  void end() noexcept { state_.store_relaxed(state_.load_relaxed() & ~others); }

  /// Answers the request, if one is pending. False: there is no memory for a record.
  bool help(std::uint32_t me, const era_clock& clock) noexcept {
    // acquire ← the release in ask(): what is asked.
    const std::uint64_t asked = state_.load_acquire();
    if ((asked & others) != pending) return true;
    era_answer* mine;
    try {
      mine = &answers_.of(me);
    } catch (const std::bad_alloc&) {
      return false;
    }
    // acquire ← the releases in ask(): these are of this request, if it is pending afterwards.
    const void* const source = source_.load_acquire();
    const read_function read = read_.load_acquire();  // the same
    mine->reading.store_relaxed(true);
    // light → the heavy fence in settle(): either it sees us reading, or we see that we are late.
    if (!SPOLIA_FAULT("wfe.reading_without_fence")) fence::light();
    if (state_.load_relaxed() == asked || SPOLIA_FAULT("wfe.read_too_late")) {
      try_to_answer(*mine, asked, me, clock, [&] { return read(source); });
    }
    // release → the acquire in settle(): our reading happens before the source goes.
    mine->reading.store_release(false);
    return true;
  }

  bool unsettled() const noexcept { return unsettled_; }

  /// No request is pending, and the sources may go when this returns.
  SPOLIA_NOINLINE void settle() noexcept {
    // heavy → the light fence in help().
    if (!SPOLIA_FAULT("wfe.no_heavy_at_the_end")) fence::heavy();
    for_each_answer([](const era_answer& a) {
      if (SPOLIA_FAULT("wfe.no_wait")) return true;
      backoff pause;
      // acquire ← the release in help().
      while (a.reading.load_acquire()) pause.pause();
      return true;
    });
    // release → the acquire in floor(): helpers' accesses happen before blocks are freed.
    floor_.store_release(no_era);
    unsettled_ = false;
  }

  template <class Visit>
  void for_each_answer(Visit visit) const noexcept {
    answers_.for_each([&](std::uint32_t, const era_answer& a) { return visit(a); });
  }

  /// What the thread announces for its helpers: the first era, and, read later, the last.
  std::uint64_t floor() const noexcept {
    // acquire ← the releases in keep() and settle().
    return floor_.load_acquire();
  }
  std::uint64_t ceiling() const noexcept { return ceiling_.load_relaxed(); }

  /// The thread is lost in a fork. True if it had a request.
  bool forget() noexcept {
    const bool had = (state_.load_relaxed() & others) != 0;
    end();
    floor_.store_relaxed(no_era);
    unsettled_ = false;
    answers_.for_each([](std::uint32_t, era_answer& a) {
      a.reading.store_relaxed(false);
      a.kept.store_relaxed(no_era);
      return true;
    });
    return had;
  }
  /// That helper is lost in a fork; what it has answered stays.
  void forget_helper(std::uint32_t number) noexcept {
    era_answer* const a = answers_.find(number);
    if (a == nullptr) return;
    a->reading.store_relaxed(false);
    if ((state_.load_relaxed() & others) != helper + number) a->kept.store_relaxed(no_era);
  }

 private:
  static constexpr std::uint64_t pending = 1;
  static constexpr std::uint64_t helper = 2;
  static constexpr std::uint64_t others = (std::uint64_t{1} << 24U) - 1;  // Linux has 2^22 threads

  template <class Source>
  static std::uint64_t read_bits(const void* source) noexcept {
    // acquire ← the release that published the pointer.
    const auto value = source_traits<Source>::load_acquire(*static_cast<const Source*>(source));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }

  /// Announces what the thread's slots hold, for as long as helpers may read.
  void keep(const basic_slot_rows<std::uint64_t>& rows) noexcept {
    if (SPOLIA_FAULT("wfe.no_floor")) return;
    const std::uint64_t before = floor_.load_relaxed();
    std::uint64_t lowest = before == no_era ? ~no_era : before;
    std::uint64_t highest = before == no_era ? no_era : ceiling_.load_relaxed();
    for (auto* row = &rows.first(); row != nullptr; row = row->next.load_relaxed()) {
      for (const auto& slot : row->at) {
        const std::uint64_t era = slot.load_relaxed();
        if (era == no_era) continue;
        lowest = (std::min)(lowest, era);
        highest = (std::max)(highest, era);
      }
    }
    if (highest == no_era) return;  // the source is in no block
    ceiling_.store_relaxed(highest);
    // release → the acquire in floor(): it sees the ceiling, too. Slots are used anew later, with
    // release: a scan that sees that sees this.
    floor_.store_release(lowest);
  }

  template <class Read>
  void try_to_answer(era_answer& mine, std::uint64_t asked, std::uint32_t me,
                     const era_clock& clock, Read read) noexcept {
    do {
      const std::uint64_t era = clock.now();
      // release → the acquire of the scan: a scan that finds this, instead of the emptiness that
      // the thread left when it took the last answer over, finds that answer in its slot.
      mine.kept.store_release(era);
      // light → the heavy fence of the scan: either it finds the era, or we find the clock moved.
      if (!SPOLIA_FAULT("wfe.no_light")) fence::light();
      const std::uint64_t value = read();
      if (clock.now() != era && !SPOLIA_FAULT("wfe.no_second_look")) continue;
      mine.value.store_relaxed(value);
      mine.era.store_relaxed(era);
      std::uint64_t expected = asked;
      // release → the acquire in answer(): our record, and what we have read.
      if (state_.cas_strong_release(expected, asked - pending + helper + me)) {
        if (SPOLIA_FAULT("wfe.given_up_early")) mine.kept.store_release(no_era);
        return;  // the record is the thread's now
      }
      break;
    } while (state_.load_relaxed() == asked);
    mine.kept.store_relaxed(no_era);
  }

  atomic<std::uint64_t> state_{0};
  atomic<const void*> source_{nullptr};
  atomic<read_function> read_{nullptr};
  atomic<std::uint64_t> floor_{no_era};
  atomic<std::uint64_t> ceiling_{no_era};
  bool unsettled_ = false;  // a request was made since the last settle()
  mutable cells<era_answer> answers_;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// delta_partition.hpp: one partition of the one-shot version storage: a gate that counts who is
// registered, a cursor, and memory in chunks. delta_one_shot.hpp says what it is for.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/delta_chunks.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Handles of the one-shot storage: which partition, in which of its lives, and where in it.
struct tagged {
  static constexpr unsigned position_bits = 25;
  static constexpr unsigned tag_bits = 31;
  static constexpr std::size_t unit = 8;  ///< bytes that a position counts
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t partitions = 4;
#else
  static constexpr std::uint32_t partitions = 256;
#endif

  /// Never 0, so that no handle is.
#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t tags = 8;  // soon used up
#else
  static constexpr std::uint64_t tags = (std::uint64_t{1} << tag_bits) - 1;
#endif
  static constexpr std::uint64_t tags_in_quarter = tags / 4;
  static constexpr std::uint64_t tag(std::uint64_t generation) noexcept {
    return generation % tags + 1;
  }
  static constexpr std::uint64_t pointer(std::uint32_t partition, std::uint64_t generation,
                                         std::uint64_t position) noexcept {
    return (std::uint64_t{partition} << tag_bits | tag(generation)) << position_bits | position;
  }
  static constexpr std::uint32_t partition_of(std::uint64_t h) noexcept {
    return static_cast<std::uint32_t>(h >> (tag_bits + position_bits));
  }
  static constexpr std::uint64_t tag_of(std::uint64_t h) noexcept {
    return h >> position_bits & ((std::uint64_t{1} << tag_bits) - 1);
  }
  static constexpr std::uint64_t position_of(std::uint64_t h) noexcept {
    return h & ((std::uint64_t{1} << position_bits) - 1);
  }
};

enum class admission : std::uint8_t { granted, closed };

class alignas(cache_line) delta_partition {
 public:
  static constexpr std::uint64_t chunk_units = delta_chunks::bytes / tagged::unit;
#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t most_chunks = 2;
#else
  static constexpr std::uint64_t most_chunks =
      (std::uint64_t{1} << tagged::position_bits) / chunk_units;
#endif

  delta_partition(std::uint32_t n, delta_chunks& from) noexcept : number(n), memory_(from) {}
  delta_partition(const delta_partition&) = delete;
  delta_partition& operator=(const delta_partition&) = delete;
  ~delta_partition() { shrink(0); }

  const std::uint32_t number;
  std::uint32_t home = 0;  ///< the stripe that had it last; by one at a time, who passes on

  /// Registers the caller, if the partition is not just being dropped.
  admission admit() noexcept {
    if (SPOLIA_FAULT("one_shot.look_then_register")) {
      while ((gate_.load_acquire() & locked) != 0) spin_wait();
      gate_.fetch_add_acquire(one_more);
      return admission::granted;
    }
    // acquire ← the release in drop_and_unlock(): the cursor stands at the start, the tag is new.
    if ((gate_.fetch_add_acquire(one_more) & locked) == 0) return admission::granted;
    gate_.fetch_sub_relaxed(one_more);
    return admission::closed;
  }

  static constexpr std::uint64_t any_number = std::uint64_t{1} << 40U;
  /// It is this partition's turn now, for so many transactions and bytes more.
  void begin_turn(std::uint64_t transactions, std::uint64_t bytes) noexcept {
    turn_admitted_.store_relaxed(admitted() + transactions);
    turn_bytes_.store_relaxed(used_bytes() + bytes);
  }
  [[nodiscard]] bool turn_is_over() const noexcept {
    return admitted() >= turn_admitted_.load_relaxed();
  }
  /// Whether what ends there is all that the turn was to have. Asked by who has moved the cursor:
  /// others would fetch its line for it, in each transaction.
  [[nodiscard]] bool turn_ends_at(std::uint64_t position) const noexcept {
    return position * tagged::unit >= turn_bytes_.load_relaxed();
  }

  /// A registered writer's versions ended at this time.
  void ended(std::uint64_t commit) noexcept {
    if (SPOLIA_FAULT("one_shot.time_forgotten")) return;
    std::uint64_t last = last_commit_.load_relaxed();
    if (SPOLIA_FAULT("one_shot.plain_maximum")) {
      if (last < commit) last_commit_.store_relaxed(commit);
      return;
    }
    while (last < commit && !last_commit_.cas_weak_relaxed(last, commit)) {
    }
  }

  /// Ends a registration; true if it was the last.
  bool dismiss() noexcept {
    // release → the acquire in lock_if_idle(): the versions are written, the time is noted, before
    // the partition is dropped.
    const std::uint64_t before = gate_.fetch_sub_release(1);
    return (before & registered) == (SPOLIA_FAULT("one_shot.last_out_sees_0") ? 0U : 1U);
  }

  /// Keeps others out; false if somebody is in, or nobody ever was, or it is locked.
  bool lock_if_idle() noexcept {
    std::uint64_t seen = gate_.load_relaxed();
    if ((seen & (registered | locked)) != 0 || seen == 0) return false;
    // acquire ← the releases in dismiss(), all of which are in one release sequence.
    if (!gate_.cas_strong_acquire(seen, seen | locked)) return false;
    admitted_now_ = seen / one_admission;
    return true;
  }
  /// The same for one that nobody has registered with in this life.
  bool lock_if_empty() noexcept {
    std::uint64_t none = 0;
    // acquire ← the release in drop_and_unlock().
    return gate_.cas_strong_acquire(none, locked);
  }
  // release → the acquire in lock_if_idle(): nothing was changed, but the next one may.
  void unlock() noexcept { gate_.fetch_sub_release(locked); }

  /// What a turn takes; the partition of a lane may grow far beyond.
  static constexpr std::uint64_t chunks_for(std::uint64_t bytes) noexcept {
    return std::clamp<std::uint64_t>(bytes / delta_chunks::bytes, 1, most_chunks);
  }
  /// Forgets everything, in one shot; keeps as many chunks as were used, but `most` at most.
  void drop_and_unlock(std::uint64_t most = most_chunks) noexcept {
    const std::uint64_t used = (cursor_.load_relaxed() + chunk_units - 1) / chunk_units;
    shrink(std::clamp<std::uint64_t>(used, 1, most));
    generation_.store_relaxed(generation_.load_relaxed() + 1);
    cursor_.store_relaxed(0);
    last_commit_.store_relaxed(0);
    first_began_.store_relaxed(never_began);
    noted_for_.store_relaxed(everybody);
    noted_until_.store_relaxed(0);
    count_.store_relaxed(0);
    if (SPOLIA_FAULT("one_shot.unlock_by_store")) {
      gate_.store_release(0);  // as below, but for whom it erases
      return;
    }
    // Who counts itself in while this is locked takes its count back itself, so what is admitted
    // and stays has not changed. release → the acquires in admit() and lock_if_idle().
    const std::uint64_t gone = admitted_now_ * one_admission;
    gate_.fetch_sub_release(locked + gone);
  }

  /// When the first of its versions began, for consolidation.
  void began(std::uint64_t since) noexcept {
    std::uint64_t first = first_began_.load_relaxed();
    while (since < first && !first_began_.cas_weak_relaxed(first, since)) {
    }
  }
  [[nodiscard]] std::uint64_t first_began() const noexcept { return first_began_.load_relaxed(); }
  static constexpr std::uint64_t everybody = ~std::uint64_t{0};
  /// A version leads out of it without the entry that a snapshot after `noting` and before `since`
  /// would need. By registered writers: so the lock's holder knows.
  void not_noted(std::uint64_t noting, std::uint64_t since) noexcept {
    std::uint64_t known = noted_for_.load_relaxed();
    while (noting < known && !noted_for_.cas_weak_relaxed(known, noting)) {
    }
    known = noted_until_.load_relaxed();
    while (since > known && !noted_until_.cas_weak_relaxed(known, since)) {
    }
  }
  /// All entries are there that snapshots at or before this would need, or at or after that.
  [[nodiscard]] std::uint64_t noted_for() const noexcept { return noted_for_.load_relaxed(); }
  [[nodiscard]] std::uint64_t noted_until() const noexcept { return noted_until_.load_relaxed(); }

  /// By the lock's holder, in front of a drop: whether the next tag can be given out. `oldest` and
  /// `now` are times.
  bool tag_is_free(std::uint64_t oldest, std::uint64_t now) noexcept {
    if ((generation_.load_relaxed() + 1) % tagged::tags_in_quarter != 0) return true;
    if (oldest < quarter_began_) return false;
    quarter_began_ = now;
    return true;
  }

  [[nodiscard]] std::size_t chunks() const noexcept {
    return static_cast<std::size_t>(top_.load_relaxed());
  }
  /// By the lock's holder, in front of a drop over which readers may be walking: gives all chunks
  /// to `to`, which has room.
  void move_out(std::vector<std::byte*>& to) noexcept {
    for (std::uint64_t i = 0; i < top_.load_relaxed(); ++i) {
      std::byte* const c = chunks_[i].load_relaxed();
      if (c == nullptr) continue;
      // release → the acquire in address_or_null().
      chunks_[i].store_release(nullptr);
      to.push_back(c);
    }
    top_.store_relaxed(0);
  }
  // acquire ← the releases in move_out() and add_chunk(): a tag that is looked at afterwards is as
  // new as this.
  [[nodiscard]] const std::byte* address_or_null(std::uint64_t position) const noexcept {
    const std::byte* const c = chunks_[position / chunk_units].load_acquire();
    return c == nullptr ? nullptr : c + position % chunk_units * tagged::unit;
  }

  /// A part of `want` units, or at least `need` at the end of a chunk; or an empty one: try again,
  /// or it is full. By registered writers.
  struct part {
    std::uint64_t first;
    std::uint64_t end;
  };
  part take(std::uint64_t want, std::uint64_t need) noexcept {
    const std::uint64_t at = cursor_.fetch_add_relaxed(want);
    const std::uint64_t room = (std::min)(want, chunk_units - at % chunk_units);
    if (at / chunk_units >= most_chunks || room < need) return {0, 0};
    return {at, at + room};
  }
  [[nodiscard]] bool full() const noexcept {
    return cursor_.load_relaxed() / chunk_units >= most_chunks;
  }

  // acquire ← the release in add_chunk(): the memory is this process's, and quiet.
  [[nodiscard]] bool has_chunk(std::uint64_t position) const noexcept {
    return chunks_[position / chunk_units].load_acquire() != nullptr;
  }
  /// Throws std::bad_alloc.
  void add_chunk(std::uint64_t position) {
    std::byte* const made = memory_.take();
    std::byte* there = nullptr;
    // release → the acquires in has_chunk() and address(). acquire: somebody else was faster.
    if (!chunks_[position / chunk_units].cas_strong_acq_rel(there, made)) return memory_.give(made);
    std::uint64_t top = top_.load_relaxed();
    while (top <= position / chunk_units &&
           !top_.cas_weak_relaxed(top, position / chunk_units + 1)) {
    }
  }
  /// Gives back all chunks but the first `keep`. By the lock's holder.
  void shrink(std::uint64_t keep) noexcept {
    const std::uint64_t top = top_.load_relaxed();
    if (top <= keep) return;
    top_.store_relaxed(keep);
    for (std::uint64_t i = keep; i < top; ++i) {
      std::byte* const c = chunks_[i].load_relaxed();
      if (c == nullptr) continue;
      chunks_[i].store_relaxed(nullptr);
      memory_.give(c);
    }
  }

  [[nodiscard]] std::byte* address(std::uint64_t position) const noexcept {
    // acquire ← the release in add_chunk().
    return chunks_[position / chunk_units].load_acquire() + position % chunk_units * tagged::unit;
  }

  void count(std::uint64_t versions) noexcept { count_.fetch_add_relaxed(versions); }
  [[nodiscard]] std::uint64_t counted() const noexcept { return count_.load_relaxed(); }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_.load_relaxed(); }
  [[nodiscard]] std::uint64_t last_commit() const noexcept { return last_commit_.load_relaxed(); }
  [[nodiscard]] std::uint64_t used_bytes() const noexcept {
    return cursor_.load_relaxed() * tagged::unit;
  }
  /// How many have registered in this life.
  [[nodiscard]] std::uint64_t admitted() const noexcept {
    return (gate_.load_relaxed() & ~locked) / one_admission;
  }
  [[nodiscard]] bool empty() const noexcept { return gate_.load_relaxed() == 0; }

 private:
  static constexpr std::uint64_t never_began = ~std::uint64_t{0};
  // The gate: how many are registered (20 bits), how many ever were in this life, and the lock.
  static constexpr std::uint64_t registered = (std::uint64_t{1} << 20U) - 1;
  static constexpr std::uint64_t one_admission = registered + 1;
  static constexpr std::uint64_t one_more = one_admission + 1;
  static constexpr std::uint64_t locked = std::uint64_t{1} << 63U;

  // What is read for each version and seldom written, with the number above.
  delta_chunks& memory_;
  atomic<std::uint64_t> generation_{0};
  atomic<std::uint64_t> first_began_{never_began};
  atomic<std::uint64_t> noted_for_{everybody};
  atomic<std::uint64_t> noted_until_{0};
  atomic<std::uint64_t> turn_admitted_{0};
  atomic<std::uint64_t> turn_bytes_{0};
  // What each commit writes.
  alignas(cache_line) atomic<std::uint64_t> gate_{0};
  atomic<std::uint64_t> last_commit_{0};
  atomic<std::uint64_t> count_{0};
  std::uint64_t admitted_now_ = 0;  // the lock's holder's, and the next
  std::uint64_t quarter_began_ = 0;
  alignas(cache_line) atomic<std::uint64_t> cursor_{0};
  atomic<std::uint64_t> top_{0};  // chunks from here on are not there
  alignas(cache_line) std::array<atomic<std::byte*>, most_chunks> chunks_{};
};

/// Where a writer puts its versions.
struct delta_place {
  delta_partition* in = nullptr;     // registered with
  std::uint64_t filled = 0;          // so many versions, since
  delta_partition* slack = nullptr;  // where next..end are ours
  std::uint64_t generation = 0;      // of that
  std::uint64_t next = 0;
  std::uint64_t end = 0;
  std::byte* bytes = nullptr;  // at `next`; a chunk stays as long as the generation does
  std::uint64_t handles = 0;   // that of position 0

  [[nodiscard]] bool has_room(std::uint64_t need) const noexcept {
    return slack == in && generation == in->generation() && end - next >= need;
  }
  void got(delta_partition::part p) noexcept {
    slack = in;
    generation = in->generation();
    next = p.first;
    end = p.end;
    bytes = in->address(next);
    handles = tagged::pointer(in->number, generation, 0);
  }
  /// Puts a version of so many words, which need so many units, there.
  void put(ask& a, std::uint64_t need) noexcept {
    a.place = version::make(bytes);
    a.handle = handles | next;
    next += need;
    bytes += need * tagged::unit;
    ++filled;
  }
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

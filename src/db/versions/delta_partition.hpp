// SPDX-License-Identifier: Apache-2.0
// delta_partition.hpp: the partitions of the one-shot storage, their ring, and the handles that
// lead into them. delta_one_shot.hpp has the source, the paper's names and the argument.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/db/delta.hpp>

#include "db/versions/delta_chunks.hpp"
#include "db/versions/delta_one_shot_tuning.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Partition tagging: the handles of the one-shot storage. A handle names a partition, one of its
/// lives (the tag), and a position.
struct tagged {
  static constexpr unsigned position_bits = 25;
  static constexpr unsigned tag_bits = 31;
  static constexpr std::size_t unit = 8;  ///< bytes that a position counts
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t partitions = 4;
#else
  static constexpr std::uint32_t partitions = 256;
#endif

  /// No tag is 0, so that no handle is.
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

/// The stub before each version in partitions that are walked over (delta_evacuated.hpp): whose
/// version it is, how long, and when it ended.
struct delta_stub {
  static constexpr unsigned until_bits = 48;  ///< of a time: at a million a second, nine years
  /// The bits of `words` do not reach this one: a version fits into a chunk.
  static constexpr std::uint64_t walked_over = std::uint64_t{1} << 63U;

  plain<std::uint64_t> row{};

  [[nodiscard]] bool is_end() const noexcept { return size_and_until_.load_relaxed() == 0; }
  /// May be read once the version is linked, also while its transaction sets `until`.
  [[nodiscard]] std::uint32_t words() const noexcept {
    return words_in(size_and_until_.load_relaxed());
  }
  /// The time when the version ended. While its transaction is under way, one more than the
  /// position of the stub that it made before this one; 0: there is none.
  [[nodiscard]] std::uint64_t until() const noexcept {
    return until_in(size_and_until_.load_relaxed());
  }
  void set(std::uint32_t words, std::uint64_t until) noexcept {
    size_and_until_.store_relaxed(packed(words, until));
  }
  /// Set by the thread that walks over the partition, when the version, and all that come after it
  /// in its chain, are kept as far as snapshots see them.
  void set_walked_over() noexcept {
    size_and_until_.store_relaxed(size_and_until_.load_relaxed() | walked_over);
  }
  [[nodiscard]] bool is_walked_over() const noexcept {
    return (size_and_until_.load_relaxed() & walked_over) != 0;
  }

  /// Both in one word, which is not 0.
  static constexpr std::uint64_t packed(std::uint32_t words, std::uint64_t until) noexcept {
    return (std::uint64_t{words} + 1) << until_bits | until;
  }
  static constexpr std::uint32_t words_in(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>((word & ~walked_over) >> until_bits) - 1;
  }
  static constexpr std::uint64_t until_in(std::uint64_t word) noexcept {
    return word & ((std::uint64_t{1} << until_bits) - 1);
  }

 private:
  // Relaxed accesses: a thread that reads `until` has synchronised with the transaction: walk_on().
  // 0: no version follows.
  atomic<std::uint64_t> size_and_until_{0};
};

/// The head of a part of such a partition. A writer takes a part at once.
struct delta_part_head {
  plain<std::uint64_t> next{};  ///< one more than the position of the next part; 0: there is none
  plain<std::uint64_t> end{};   ///< the position at which this part ends
};

template <class T>
inline constexpr std::uint64_t units_of = sizeof(T) / tagged::unit;
static_assert(sizeof(delta_stub) % tagged::unit == 0);
static_assert(sizeof(delta_part_head) % tagged::unit == 0);
static_assert(delta_chunks::bytes / tagged::unit < delta_stub::walked_over >>
              delta_stub::until_bits);

enum class admission : std::uint8_t { granted, closed };

/// A partition: a gate that counts the registered transactions, a cursor, and memory in chunks
/// (Figure 3).
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
  std::uint32_t home = 0;  ///< the stripe that had it last; for the thread in pass_on()

  // Transaction registration (Figure 6).

  /// register_txn: registers the caller, if the partition is not just being dropped.
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

  /// The second half of register_txn, when the time is known (D4): notes when a registered writer's
  /// versions ended.
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

  /// deregister_txn: ends a registration; true if it was the last.
  bool dismiss() noexcept {
    // release → the acquire in lock_if_idle(): the versions are written, and the time is noted,
    // before the partition is dropped.
    const std::uint64_t before = gate_.fetch_sub_release(1);
    return (before & registered) == (SPOLIA_FAULT("one_shot.last_out_sees_0") ? 0U : 1U);
  }

  // Garbage collection (Figure 6).

  [[nodiscard]] std::uint64_t last_commit() const noexcept { return last_commit_.load_relaxed(); }
  /// oneShotGC, line 16: locks the partition, so that no transaction registers. False if a
  /// transaction is registered, or none was in this life, or it is locked.
  bool lock_if_idle() noexcept {
    std::uint64_t seen = gate_.load_relaxed();
    if ((seen & (registered | locked)) != 0 || seen == 0) return false;
    // acquire ← the releases in dismiss(), all of which are in one release sequence.
    if (!gate_.cas_strong_acquire(seen, seen | locked)) return false;
    admitted_now_ = seen / one_admission;
    return true;
  }
  /// Locks a partition with which no transaction has registered in this life.
  bool lock_if_empty() noexcept {
    std::uint64_t none = 0;
    // acquire ← the release in drop_and_unlock().
    return gate_.cas_strong_acquire(none, locked);
  }
  // release → the acquire in lock_if_idle(): the next holder may change what we have read.
  void unlock() noexcept { gate_.fetch_sub_release(locked); }

  /// oneShotGC, lines 18 to 21: drops all versions in one shot. Keeps as many chunks as were used,
  /// but at most `most`.
  void drop_and_unlock(std::uint64_t most = most_chunks) noexcept {
    if (SPOLIA_CHECKS && (gate_.load_relaxed() & locked) == 0) {
      misuse::report("a partition was dropped that was not locked", threads::number());
    }
    const std::uint64_t used = (cursor_.load_relaxed() + chunk_units - 1) / chunk_units;
    shrink(std::clamp<std::uint64_t>(used, 1, most));
    generation_.store_relaxed(generation_.load_relaxed() + 1);
    cursor_.store_relaxed(0);
    last_commit_.store_relaxed(0);
    first_began_.store_relaxed(never_began);
    noted_for_.store_relaxed(everybody);
    noted_until_.store_relaxed(0);
    first_part_.store_relaxed(0);
    last_part_.store_relaxed(0);
    walked_admitted_ = 0;
    parts_left_.clear();
    in_pieces_.store_relaxed(false);
    moved = 0;
    count_.store_relaxed(0);
    if (SPOLIA_FAULT("one_shot.unlock_by_store")) {
      gate_.store_release(0);  // as below, but it erases transactions that have come meanwhile
      return;
    }
    // A writer that registers while this is locked takes its count back itself. So the count of
    // those that were admitted has not changed. release → the acquires in admit() and
    // lock_if_idle().
    const std::uint64_t gone = admitted_now_ * one_admission;
    gate_.fetch_sub_release(locked + gone);
  }

  // Memory allocation.

  /// A part of `want` units, or of at least `need` at the end of a chunk. Or an empty one: then the
  /// caller tries again, unless the partition is full. For registered writers.
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

  // acquire ← the release in add_chunk(): the chunk's memory is ready for use.
  [[nodiscard]] bool has_chunk(std::uint64_t position) const noexcept {
    return chunks_[position / chunk_units].load_acquire() != nullptr;
  }
  /// Throws std::bad_alloc.
  void add_chunk(std::uint64_t position) {
    std::byte* const made = memory_.take();
    std::byte* there = nullptr;
    // release → the acquires in has_chunk() and address(). acquire on failure ← the release of the
    // thread that was faster.
    if (!chunks_[position / chunk_units].cas_strong_acq_rel(there, made)) return memory_.give(made);
    std::uint64_t top = top_.load_relaxed();
    while (top <= position / chunk_units &&
           !top_.cas_weak_relaxed(top, position / chunk_units + 1)) {
    }
  }
  [[nodiscard]] std::byte* address(std::uint64_t position) const noexcept {
    // acquire ← the release in add_chunk().
    return chunks_[position / chunk_units].load_acquire() + position % chunk_units * tagged::unit;
  }
  [[nodiscard]] std::size_t chunks() const noexcept {
    return static_cast<std::size_t>(top_.load_relaxed());
  }
  /// How many chunks a period takes; a held snapshot's partition may grow far beyond that.
  static constexpr std::uint64_t chunks_for(std::uint64_t bytes) noexcept {
    return std::clamp<std::uint64_t>(bytes / delta_chunks::bytes, 1, most_chunks);
  }

  /// Gives back all chunks but the first `keep`. For the lock's holder.
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

  // Walking over it (delta_evacuated.hpp).

  std::uint64_t moved = 0;  ///< versions that were copied elsewhere; the lock's holder's

  /// Makes the head of a part that a registered writer has taken, and links the part.
  void add_part(std::uint64_t position, std::uint64_t end) noexcept {
    auto* const head = ::new (address(position)) delta_part_head;
    head->end.write(end);
    const std::uint64_t before = last_part_.exchange_acq_rel(position + 1);
    if (before == 0) {
      first_part_.store_relaxed(position + 1);
    } else {
      // acquire, release ↔ each other: the head of the part before is made.
      reinterpret_cast<delta_part_head*>(address(before - 1))->next.write(position + 1);
    }
  }
  /// Walks over the versions, about in the order in which they were made, and calls f(stub,
  /// version) for each, while f returns true. The next call goes on from there, or begins anew if a
  /// transaction has registered since. Calls over(i) when all versions of chunk i were walked over,
  /// unless it is the last chunk, and pauses if that returns false. True: all were walked over. For
  /// the lock's holder, which has synchronised with all writers: see dismiss(). Throws
  /// std::bad_alloc.
  template <class F, class Over>
  bool walk_on(F&& f, Over&& over) {
    if (walked_admitted_ != admitted_now_) {
      count_parts();
      walked_admitted_ = admitted_now_;
      walked_part_ = first_part_.load_relaxed();
      walked_to_ = 0;
    }
    while (walked_part_ != 0) {
      const auto& head = *reinterpret_cast<const delta_part_head*>(address(walked_part_ - 1));
      if (walked_to_ == 0) walked_to_ = walked_part_ - 1 + units_of<delta_part_head>;
      while (head.end.read() - walked_to_ >= units_of<delta_stub>) {
        auto& stub = *reinterpret_cast<delta_stub*>(address(walked_to_));
        if (stub.is_end()) break;
        const auto& v =
            *reinterpret_cast<const version*>(address(walked_to_ + units_of<delta_stub>));
        const bool more = f(stub, v);
        walked_to_ += units_of<delta_stub> + version::bytes(stub.words()) / tagged::unit;
        if (!more) return false;
      }
      const std::uint64_t chunk = (walked_part_ - 1) / chunk_units;
      walked_part_ = head.next.read();
      walked_to_ = 0;
      if (--parts_left_[chunk] == 0 && walked_part_ != 0 && !over(chunk)) return false;
    }
    return true;
  }
  /// Takes out a chunk that was walked over. From now on the partition stays locked until the rest
  /// is dropped: a writer that came back would go on in a part of this chunk. For the lock's
  /// holder.
  std::byte* take_piece(std::uint64_t chunk) noexcept {
    in_pieces_.store_relaxed(true);
    std::byte* const c = chunks_[chunk].load_relaxed();
    // release → the acquire in address_or_null().
    chunks_[chunk].store_release(nullptr);
    return c;
  }
  /// Whether a piece was taken out. Other threads may change that, unless the caller keeps them
  /// from taking pieces, and from dropping the partition.
  [[nodiscard]] bool in_pieces() const noexcept { return in_pieces_.load_relaxed(); }

  void count(std::uint64_t versions) noexcept { count_.fetch_add_relaxed(versions); }
  [[nodiscard]] std::uint64_t counted() const noexcept { return count_.load_relaxed(); }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_.load_relaxed(); }
  [[nodiscard]] std::uint64_t used_bytes() const noexcept {
    return cursor_.load_relaxed() * tagged::unit;
  }

  // The assignment of transactions: the allocation period, which the code calls a turn.

  static constexpr std::uint64_t any_number = std::uint64_t{1} << 40U;
  /// Begins a period, for so many transactions and bytes more.
  void begin_turn(delta_turns::length l) noexcept {
    turn_admitted_.store_relaxed(admitted() + l.transactions);
    turn_bytes_.store_relaxed(used_bytes() + l.bytes);
  }
  [[nodiscard]] bool turn_is_over() const noexcept {
    return admitted() >= turn_admitted_.load_relaxed();
  }
  /// Whether the period has all its bytes with a part that ends there. Only the writer that has
  /// moved the cursor asks: others would have to fetch the cursor's cache line, in each
  /// transaction.
  [[nodiscard]] bool turn_ends_at(std::uint64_t position) const noexcept {
    return position * tagged::unit >= turn_bytes_.load_relaxed();
  }
  /// How many transactions have registered in this life.
  [[nodiscard]] std::uint64_t admitted() const noexcept {
    return (gate_.load_relaxed() & ~locked) / one_admission;
  }
  [[nodiscard]] bool empty() const noexcept { return gate_.load_relaxed() == 0; }

  // Chain consolidation (section 5, delta_consolidated.hpp).

  /// Notes that a version of the partition began then.
  void began(std::uint64_t since) noexcept {
    std::uint64_t first = first_began_.load_relaxed();
    while (since < first && !first_began_.cas_weak_relaxed(first, since)) {
    }
  }
  [[nodiscard]] std::uint64_t first_began() const noexcept { return first_began_.load_relaxed(); }
  static constexpr std::uint64_t everybody = ~std::uint64_t{0};
  /// Notes that a version leads out of the partition without the entry that a snapshot after
  /// `noting` and before `since` would need. For registered writers: so the lock's holder sees it.
  void not_noted(std::uint64_t noting, std::uint64_t since) noexcept {
    std::uint64_t known = noted_for_.load_relaxed();
    while (noting < known && !noted_for_.cas_weak_relaxed(known, noting)) {
    }
    known = noted_until_.load_relaxed();
    while (since > known && !noted_until_.cas_weak_relaxed(known, since)) {
    }
  }
  /// No entry is missing that a snapshot at or before noted_for(), or at or after noted_until(),
  /// would need.
  [[nodiscard]] std::uint64_t noted_for() const noexcept { return noted_for_.load_relaxed(); }
  [[nodiscard]] std::uint64_t noted_until() const noexcept { return noted_until_.load_relaxed(); }

  /// Whether the next tag can be given out. For the lock's holder, before a drop. `oldest` and
  /// `now` are times.
  bool tag_is_free(std::uint64_t oldest, std::uint64_t now) noexcept {
    if ((generation_.load_relaxed() + 1) % tagged::tags_in_quarter != 0) return true;
    if (oldest < quarter_began_) return false;
    quarter_began_ = now;
    return true;
  }

  /// Moves all chunks to `to`, which has room. For the lock's holder, before a drop over which
  /// readers may be walking.
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

 private:
  static constexpr std::uint64_t never_began = ~std::uint64_t{0};

  /// Throws std::bad_alloc.
  void count_parts() {
    parts_left_.assign(chunks(), 0);
    for (std::uint64_t at = first_part_.load_relaxed(); at != 0;) {
      ++parts_left_[(at - 1) / chunk_units];
      at = reinterpret_cast<const delta_part_head*>(address(at - 1))->next.read();
    }
  }
  // The gate, n_active_txn: how many transactions are registered (20 bits), how many were in this
  // life, and the lock.
  static constexpr std::uint64_t registered = (std::uint64_t{1} << 20U) - 1;
  static constexpr std::uint64_t one_admission = registered + 1;
  static constexpr std::uint64_t one_more = one_admission + 1;
  static constexpr std::uint64_t locked = std::uint64_t{1} << 63U;

  // Fields that are read for each version and seldom written, as is the number above.
  delta_chunks& memory_;
  atomic<std::uint64_t> generation_{0};             // which life; the tag is made of it
  atomic<std::uint64_t> first_began_{never_began};  // min_version_ts
  atomic<std::uint64_t> noted_for_{everybody};
  atomic<std::uint64_t> noted_until_{0};
  atomic<std::uint64_t> turn_admitted_{0};
  atomic<std::uint64_t> turn_bytes_{0};
  // Fields that each commit writes.
  alignas(cache_line) atomic<std::uint64_t> gate_{0};
  atomic<std::uint64_t> last_commit_{0};  // max_active_txn
  atomic<std::uint64_t> count_{0};
  std::uint64_t admitted_now_ = 0;   // as are the next five, the lock's holder's
  std::uint64_t quarter_began_ = 0;  // see tag_is_free()
  // How far walk_on() has come.
  std::uint64_t walked_admitted_ = 0;      // admitted_now_ when it began; 0: it has not
  std::uint64_t walked_part_ = 0;          // the part, as in first_part_
  std::uint64_t walked_to_ = 0;            // the position in it; 0: its beginning
  std::vector<std::uint32_t> parts_left_;  // how many parts of each chunk are to be walked over
  atomic<bool> in_pieces_{false};
  alignas(cache_line) atomic<std::uint64_t> cursor_{0};
  // One more than the positions of the first and of the last part that was taken; 0: there is none.
  atomic<std::uint64_t> first_part_{0};
  atomic<std::uint64_t> last_part_{0};
  atomic<std::uint64_t> top_{0};  // there are no chunks from this one on
  alignas(cache_line) std::array<atomic<std::byte*>, most_chunks> chunks_{};
};

/// The memory in one partition to which a writer puts its versions.
struct delta_place {
  delta_partition* in = nullptr;     // the partition with which the writer is registered
  std::uint64_t filled = 0;          // how many versions it has put there since
  delta_partition* slack = nullptr;  // the partition in which next..end are the writer's
  std::uint64_t generation = 0;      // the life of that partition
  std::uint64_t next = 0;
  std::uint64_t end = 0;
  std::byte* bytes = nullptr;  // the address of `next`; the chunk stays as long as the generation
  std::uint64_t handles = 0;   // the handle of position 0
  std::uint64_t newest = 0;    // one more than the position of the transaction's newest stub

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
  /// Makes the part that got() was told of one that can be walked over.
  void begin_part() noexcept {
    in->add_part(next, end);
    pass(units_of<delta_part_head>);
    end_part();
  }
  /// Puts the stub of the version that is put next.
  void put_stub(const ask& a) noexcept {
    auto* const stub = ::new (bytes) delta_stub;
    stub->row.write(a.row);
    stub->set(a.words, newest);
    newest = next + 1;
    pass(units_of<delta_stub>);
  }
  /// Marks the end of the part's versions, until another one is put there.
  void end_part() noexcept {
    if (end - next >= units_of<delta_stub>) ::new (bytes) delta_stub;
  }
  /// Notes in the stubs that the transaction's versions ended then; 0: they do not count. While it
  /// is registered.
  void versions_ended(std::uint64_t until) noexcept {
    while (newest != 0) {
      auto& stub = *reinterpret_cast<delta_stub*>(in->address(newest - 1));
      newest = stub.until();
      stub.set(stub.words(), until);
    }
  }
  void pass(std::uint64_t units) noexcept {
    next += units;
    bytes += units * tagged::unit;
  }
  /// Puts a version there, which needs so many units.
  void put(ask& a, std::uint64_t need) noexcept {
    a.place = version::make(bytes);
    a.handle = handles | next;
    pass(need);
    ++filled;
  }
};

/// The partitions of a storage. Their number only grows (D7).
class delta_ring {
 public:
  delta_ring() = default;
  delta_ring(const delta_ring&) = delete;
  delta_ring& operator=(const delta_ring&) = delete;
  ~delta_ring() {
    for (std::uint32_t i = 0; i < count_.load_relaxed(); ++i) delete ring_[i].load_relaxed();
  }

  /// By one thread at a time. Throws std::bad_alloc.
  delta_partition* add(delta_chunks& memory) {
    const std::uint32_t n = count_.load_relaxed();
    auto* const made = new delta_partition(n, memory);
    // release → the acquire in at(): a reader that has a handle into it sees it constructed.
    ring_[n].store_release(made);
    // release → the acquire in count().
    count_.store_release(n + 1);
    return made;
  }
  [[nodiscard]] delta_partition& at(std::uint32_t n) const noexcept {
    // acquire ← the release in add(): we see it constructed.
    return *ring_[n].load_acquire();
  }
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load_acquire();  // ← the release in add(): they are all there
  }
  /// The partition `i` positions after `p`.
  [[nodiscard]] delta_partition& after(const delta_partition& p, std::uint32_t i) const noexcept {
    return at((p.number + i) % count());
  }

 private:
  std::array<atomic<delta_partition*>, tagged::partitions> ring_{};
  atomic<std::uint32_t> count_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

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

/// Partition tagging. Handles of the one-shot storage: which partition, in which of its lives, and
/// where in it.
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

/// What lies in front of each version in partitions that are walked over (delta_evacuated.hpp):
/// whose it is, how long, and when it ended.
struct delta_stub {
  static constexpr unsigned until_bits = 48;  ///< of a time: at a million a second, nine years
  /// No version has so many words that this would be one of its bits: it lies in a chunk.
  static constexpr std::uint64_t walked_over = std::uint64_t{1} << 63U;

  plain<std::uint64_t> row{};

  [[nodiscard]] bool is_end() const noexcept { return size_and_until_.load_relaxed() == 0; }
  /// Once the version is linked, also while its transaction sets `until`.
  [[nodiscard]] std::uint32_t words() const noexcept {
    return words_in(size_and_until_.load_relaxed());
  }
  /// While its transaction is under way: position of its version before this one, and one; 0: none.
  [[nodiscard]] std::uint64_t until() const noexcept {
    return until_in(size_and_until_.load_relaxed());
  }
  void set(std::uint32_t words, std::uint64_t until) noexcept {
    size_and_until_.store_relaxed(packed(words, until));
  }
  /// By the thread that walks over the partition: all is kept that snapshots see of the version and
  /// of what its chain goes on with.
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
  // relaxed: a thread that reads `until` has synchronised with the transaction: walk_on(). 0: no
  // version follows.
  atomic<std::uint64_t> size_and_until_{0};
};

/// What a part of such a partition begins with, which a writer has taken at once.
struct delta_part_head {
  plain<std::uint64_t> next{};  ///< position of the part that was taken next, and one
  plain<std::uint64_t> end{};   ///< position
};

template <class T>
inline constexpr std::uint64_t units_of = sizeof(T) / tagged::unit;
static_assert(sizeof(delta_stub) % tagged::unit == 0);
static_assert(sizeof(delta_part_head) % tagged::unit == 0);
static_assert(delta_chunks::bytes / tagged::unit < delta_stub::walked_over >>
              delta_stub::until_bits);

enum class admission : std::uint8_t { granted, closed };

/// A partition: a gate that counts the transactions that are registered, a cursor, and memory in
/// chunks (Figure 3).
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
  std::uint32_t home = 0;  ///< the stripe that had it last; of the thread that passes on

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

  /// The rest of it, when the time is known (D4): a registered writer's versions ended then.
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
    // release → the acquire in lock_if_idle(): the versions are written, the time is noted, before
    // the partition is dropped.
    const std::uint64_t before = gate_.fetch_sub_release(1);
    return (before & registered) == (SPOLIA_FAULT("one_shot.last_out_sees_0") ? 0U : 1U);
  }

  // Garbage collection (Figure 6).

  [[nodiscard]] std::uint64_t last_commit() const noexcept { return last_commit_.load_relaxed(); }
  /// oneShotGC, line 16: keeps others out; false if a transaction is in, or none ever was, or it is
  /// locked.
  bool lock_if_idle() noexcept {
    std::uint64_t seen = gate_.load_relaxed();
    if ((seen & (registered | locked)) != 0 || seen == 0) return false;
    // acquire ← the releases in dismiss(), all of which are in one release sequence.
    if (!gate_.cas_strong_acquire(seen, seen | locked)) return false;
    admitted_now_ = seen / one_admission;
    return true;
  }
  /// The same for one that no transaction has registered with in this life.
  bool lock_if_empty() noexcept {
    std::uint64_t none = 0;
    // acquire ← the release in drop_and_unlock().
    return gate_.cas_strong_acquire(none, locked);
  }
  // release → the acquire in lock_if_idle(): nothing was changed, but the next one may.
  void unlock() noexcept { gate_.fetch_sub_release(locked); }

  /// oneShotGC, lines 18 to 21: forgets everything, in one shot; keeps as many chunks as were used,
  /// but `most` at most.
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
      gate_.store_release(0);  // as below, but it erases those that have come meanwhile
      return;
    }
    // A writer that counts itself in while this is locked takes its count back itself, so what is
    // admitted and stays has not changed. release → the acquires in admit() and lock_if_idle().
    const std::uint64_t gone = admitted_now_ * one_admission;
    gate_.fetch_sub_release(locked + gone);
  }

  // Memory allocation.

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
    // release → the acquires in has_chunk() and address(). acquire: another thread was faster.
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
  /// What a turn takes; the partition of a lane may grow far beyond.
  static constexpr std::uint64_t chunks_for(std::uint64_t bytes) noexcept {
    return std::clamp<std::uint64_t>(bytes / delta_chunks::bytes, 1, most_chunks);
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

  // Walking over it (delta_evacuated.hpp).

  std::uint64_t moved = 0;  ///< versions that have gone elsewhere; of the lock's holder

  /// A registered writer's part begins there.
  void add_part(std::uint64_t position, std::uint64_t end) noexcept {
    auto* const head = ::new (address(position)) delta_part_head;
    head->end.write(end);
    const std::uint64_t before = last_part_.exchange_acq_rel(position + 1);
    if (before == 0) {
      first_part_.store_relaxed(position + 1);
    } else {
      // acquire, release ↔ each other: its head is made.
      reinterpret_cast<delta_part_head*>(address(before - 1))->next.write(position + 1);
    }
  }
  /// Calls f(stub, version) for versions of it, about in the order in which they were made, while f
  /// returns true, and goes on from there the next time; begins anew if a transaction has
  /// registered since. Calls over(i) when all of chunk i were walked over, but not of all chunks,
  /// and pauses if that returns false. Whether all were walked over. By the lock's holder, which
  /// has synchronised with all writers: see dismiss(). Throws std::bad_alloc.
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
  /// Takes a chunk out that was walked over. The partition stays locked from now on, until the rest
  /// is dropped: a writer that came back would go on in a part of it. By the lock's holder.
  std::byte* take_piece(std::uint64_t chunk) noexcept {
    in_pieces_.store_relaxed(true);
    std::byte* const c = chunks_[chunk].load_relaxed();
    // release → the acquire in address_or_null().
    chunks_[chunk].store_release(nullptr);
    return c;
  }
  /// Whether a piece was taken out. True, or not, for good only for a thread that keeps others from
  /// taking pieces, and from dropping it.
  [[nodiscard]] bool in_pieces() const noexcept { return in_pieces_.load_relaxed(); }

  void count(std::uint64_t versions) noexcept { count_.fetch_add_relaxed(versions); }
  [[nodiscard]] std::uint64_t counted() const noexcept { return count_.load_relaxed(); }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_.load_relaxed(); }
  [[nodiscard]] std::uint64_t used_bytes() const noexcept {
    return cursor_.load_relaxed() * tagged::unit;
  }

  // The assignment of transactions: its allocation period, here called its turn.

  static constexpr std::uint64_t any_number = std::uint64_t{1} << 40U;
  /// It is this partition's turn now, for so many transactions and bytes more.
  void begin_turn(delta_turns::length l) noexcept {
    turn_admitted_.store_relaxed(admitted() + l.transactions);
    turn_bytes_.store_relaxed(used_bytes() + l.bytes);
  }
  [[nodiscard]] bool turn_is_over() const noexcept {
    return admitted() >= turn_admitted_.load_relaxed();
  }
  /// Whether what ends there is all that the turn was to have. The writer that has moved the cursor
  /// asks: others would fetch its line for it, in each transaction.
  [[nodiscard]] bool turn_ends_at(std::uint64_t position) const noexcept {
    return position * tagged::unit >= turn_bytes_.load_relaxed();
  }
  /// How many have registered in this life.
  [[nodiscard]] std::uint64_t admitted() const noexcept {
    return (gate_.load_relaxed() & ~locked) / one_admission;
  }
  [[nodiscard]] bool empty() const noexcept { return gate_.load_relaxed() == 0; }

  // Chain consolidation (section 5, delta_consolidated.hpp).

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

  /// By the lock's holder, before a drop: whether the next tag can be given out. `oldest` and
  /// `now` are times.
  bool tag_is_free(std::uint64_t oldest, std::uint64_t now) noexcept {
    if ((generation_.load_relaxed() + 1) % tagged::tags_in_quarter != 0) return true;
    if (oldest < quarter_began_) return false;
    quarter_began_ = now;
    return true;
  }

  /// By the lock's holder, before a drop over which readers may be walking: gives all chunks
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
  // The gate, n_active_txn: how many are registered (20 bits), how many ever were in this life, and
  // the lock.
  static constexpr std::uint64_t registered = (std::uint64_t{1} << 20U) - 1;
  static constexpr std::uint64_t one_admission = registered + 1;
  static constexpr std::uint64_t one_more = one_admission + 1;
  static constexpr std::uint64_t locked = std::uint64_t{1} << 63U;

  // What is read for each version and seldom written, with the number above.
  delta_chunks& memory_;
  atomic<std::uint64_t> generation_{0};             // of the tag
  atomic<std::uint64_t> first_began_{never_began};  // min_version_ts
  atomic<std::uint64_t> noted_for_{everybody};
  atomic<std::uint64_t> noted_until_{0};
  atomic<std::uint64_t> turn_admitted_{0};
  atomic<std::uint64_t> turn_bytes_{0};
  // What each commit writes.
  alignas(cache_line) atomic<std::uint64_t> gate_{0};
  atomic<std::uint64_t> last_commit_{0};  // max_active_txn
  atomic<std::uint64_t> count_{0};
  std::uint64_t admitted_now_ = 0;  // the lock's holder's, and the next
  std::uint64_t quarter_began_ = 0;
  // How far walk_on() has come: in this part, as in first_part_, to this position; 0: to its
  // beginning.
  std::uint64_t walked_admitted_ = 0;  // when it began; 0: it has not
  std::uint64_t walked_part_ = 0;
  std::uint64_t walked_to_ = 0;
  std::vector<std::uint32_t> parts_left_;  // of each chunk, which are to be walked over
  atomic<bool> in_pieces_{false};
  alignas(cache_line) atomic<std::uint64_t> cursor_{0};
  // Positions of the parts that were taken first and last, and one.
  atomic<std::uint64_t> first_part_{0};
  atomic<std::uint64_t> last_part_{0};
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
  std::uint64_t newest = 0;    // position of the transaction's newest stub in it, and one

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
  /// What got() has taken is to be walked over.
  void begin_part() noexcept {
    in->add_part(next, end);
    pass(units_of<delta_part_head>);
    end_part();
  }
  /// For the version that is put next.
  void put_stub(const ask& a) noexcept {
    auto* const stub = ::new (bytes) delta_stub;
    stub->row.write(a.row);
    stub->set(a.words, newest);
    newest = next + 1;
    pass(units_of<delta_stub>);
  }
  /// What is put next begins here, or the part ends.
  void end_part() noexcept {
    if (end - next >= units_of<delta_stub>) ::new (bytes) delta_stub;
  }
  /// The transaction's versions ended then; 0: they are none. While it is registered.
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
  /// Puts a version of so many words, which need so many units, there.
  void put(ask& a, std::uint64_t need) noexcept {
    a.place = version::make(bytes);
    a.handle = handles | next;
    pass(need);
    ++filled;
  }
};

/// The partitions of a storage, which only become more (D7).
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
  /// The one so many places after it.
  [[nodiscard]] delta_partition& after(const delta_partition& p, std::uint32_t i) const noexcept {
    return at((p.number + i) % count());
  }

 private:
  std::array<atomic<delta_partition*>, tagged::partitions> ring_{};
  atomic<std::uint32_t> count_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

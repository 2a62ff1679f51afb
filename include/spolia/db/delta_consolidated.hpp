// SPDX-License-Identifier: Apache-2.0
// delta_consolidated.hpp: one-shot garbage collection with consolidation: partitions that lie
// between two snapshots are dropped, too, and readers find their way over the gaps.
//
// Source:      Raza et al., SIGMOD 2023, section 5.
// Idea:        a partition knows when its oldest version began and when its last one ended. If no
//              snapshot lies in between, nobody reads any of its versions, though older snapshots
//              may still need older ones. It is dropped; links into it are dead, as their tags
//              tell. When a row's chain goes from one partition to another, the one that it leaves
//              gets an entry in its bridge: the row, its newest version there, and when that ended.
//              A reader that meets a dead link looks the row up in the bridges of all partitions.
//              All that is worth its cost only while a snapshot stays: so entries are made while
//              one is about to be held (delta_patience.hpp), or much is in use. A partition into
//              which somebody has put a version without the entry that it would have needed is
//              dropped only as in the one-shot storage.
// Cost:        besides the one-shot storage's: a commit, at such times, for each version whose
//              row's last version lies in another partition and ended after the oldest snapshot
//              that was seen, an entry of 32 bytes. A reader of an old version: a guard; over a
//              gap, a look at each partition's bridge. A drop over which readers may be walking:
//              its memory goes through the domain, so that it waits for their guards.
// Progress:    as the one-shot storage. Readers do not wait.
//              What a held snapshot sees goes to a lane of its own (delta_lanes.hpp), with two
//              read-modify-writes more for a commit that has some of that.
// Bound:       let a snapshot be held after P turns: 4, but twice as many as those became old that
//              have ended lately, up to 128, while not more than half of the partitions that there
//              may be are in use, and of the budget.
//              With S snapshots held: the versions that at least one of them sees (so at most S
//              for each row), in whole chunks; for each of the S, the partitions of P + 1 turns
//              after it began; and what was written since the oldest one that is not held yet. A
//              version may stay for a younger snapshot after the one has gone for which it was
//              kept, if both were held at the same time.
// Why a reader finds its version. Let it look for the version v at time T, since <= T < until.
//   v's partition is not dropped: T is announced, so the census shows it in the interval.
//   A piece is a run of versions of one row in one life of one partition. If v's piece is the
//   newest when the reader reads the row's head, it gets there by links that are alive. If not,
//   the reader may meet dead links. Take the last one on its way to v, out of a piece in partition
//   p that was dropped while T's snapshot was there: so p is one into which nobody has put a
//   version without the entry that it needed, and the piece behind the link was entered into its
//   bridge before the row's head led to p: the reader sees the entry. (Unless the piece behind had
//   ended at a time that no snapshot is before, T neither: then there is no v in it, nor behind.)
//   From there on all links are alive, also those out of the piece. An entry whose first version
//   ended at or before T is passed over unread: it may be dropped and overwritten at any time. One
//   that ended after T leads, by links to versions that ended after T, to v or to a dead link.
// Why what it reads is whole: memory of versions that ended after T is given away only through the
//   domain, under whose guard the reader walks. It takes the address of a chunk first and looks at
//   the tag afterwards: a drop takes the chunks out, and changes the tag before a new chunk comes.
// Why a tag does not come back while somebody has it (tags wrap round). A link into one life of a
//   partition is followed only by snapshots older than the last commit of that life. Each quarter
//   of all tags a partition notes the time, and does not go on before the snapshots of before the
//   last note are gone. So none of them meets the same tag again.
//
// Departures from the paper (the printed Figure 9 is wrong where P is said):
//   D1  P: a partition that nobody needs is dropped (printed: `doGc = false`).
//   D2  Bridges have the time when a version ended. (Theirs takes the first readable one that it
//       meets, partition by partition; after the ring has gone round, that may be an older one.)
//   D3  A reader goes on over links that are alive, also from partition to partition, and also from
//       where a bridge has led it.
//   D4  Bridges are blocks that go in one shot with their partition, each twice as large as the one
//       before.
//   D5  What a held snapshot sees is kept apart. (Theirs: where rows are changed now and then, each
//       partition has a version that somebody sees, and none is dropped.)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/delta_one_shot.hpp>
#include <spolia/db/delta_partition.hpp>
#include <spolia/db/delta_patience.hpp>
#include <spolia/reclaim/region_domain.hpp>
#include <spolia/version/detail/short_lock.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_consolidated final : public delta_one_shot {
  using nodes = region_domain;

 public:
  delta_consolidated(commit_board& board, const options& o)
      : delta_one_shot(board, o, lanes_for(o.most_partitions)), nodes_(impatient()) {
    // With so few partitions, always; with a budget, until it is known what is held.
    noting_.store_relaxed(lanes_.count() == 1 || o.budget != 0);
  }
  ~delta_consolidated() override {
    for (auto& b : bridges_) {
      for (bridge* at = b.load_relaxed(); at != nullptr;)
        bridge::free(std::exchange(at, at->older));
    }
  }

  /// Versions are whole rows: what is passed on the way is of no use.
  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t row,
                                    std::uint64_t time, const taking_back*) const override {
    // acquire ← the release in install(): the version is filled. (Links may be dead: no guard yet.)
    std::uint64_t handle = chain.load_acquire();
    if (handle == 0) return nullptr;
    auto guard = nodes_.enter();
    const version* const v = descend(handle, time);
    return v != nullptr || handle == 0 ? v : over_the_gap(row, time);
  }

 private:
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t first_bridge = 2;
  static constexpr std::uint32_t longest_bridge = 4;
#else
  static constexpr std::uint32_t first_bridge = 512;
  static constexpr std::uint32_t longest_bridge = 1U << 18U;
#endif
  /// So much of all partitions, and of the budget, may be in use without hurry.
  static constexpr unsigned share = 2;

  struct entry {
    plain<std::uint64_t> row{};
    plain<std::uint64_t> head{};   // handle of the newest version of the piece
    plain<std::uint64_t> until{};  // when that ended
    plain<std::uint32_t> next{};   // one more than the next entry of the bucket
  };
  /// The entries follow it, and half as many buckets.
  struct bridge : nodes::header {
    bridge* older = nullptr;
    delta_chunks* of = nullptr;  // where its bytes count
    std::uint32_t size = 0;      // a power of two
    atomic<std::uint32_t> used{0};

    entry* entries() noexcept { return reinterpret_cast<entry*>(this + 1); }
    const entry* entries() const noexcept { return reinterpret_cast<const entry*>(this + 1); }
    atomic<std::uint32_t>& bucket(std::uint64_t row) noexcept {
      return reinterpret_cast<atomic<std::uint32_t>*>(entries() + size)[bucket_of(row)];
    }
    const atomic<std::uint32_t>& bucket(std::uint64_t row) const noexcept {
      return reinterpret_cast<const atomic<std::uint32_t>*>(entries() + size)[bucket_of(row)];
    }
    [[nodiscard]] std::size_t bucket_of(std::uint64_t row) const noexcept {
      return (row * 0x9E3779B97F4A7C15U >> 40U) % (size / 2);
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_of(size); }
    static constexpr std::size_t bytes_of(std::uint32_t size) noexcept {
      return sizeof(bridge) + size * sizeof(entry) + size / 2 * sizeof(atomic<std::uint32_t>);
    }
    static bridge* make(delta_chunks& of, std::uint32_t size) {
      auto* const b = ::new (memory::allocate(bytes_of(size), alignof(bridge))) bridge;
      of.count(bytes_of(size));
      b->of = &of;
      b->size = size;
      for (std::uint32_t i = 0; i < size; ++i) ::new (b->entries() + i) entry;
      auto* const buckets = reinterpret_cast<std::byte*>(b->entries() + size);
      for (std::uint32_t i = 0; i < size / 2; ++i) {
        ::new (buckets + i * sizeof(atomic<std::uint32_t>)) atomic<std::uint32_t>{0};
      }
      return b;
    }
    static void free(bridge* b) noexcept {
      const std::size_t all = b->bytes();
      b->of->uncount(all);
      b->~bridge();
      memory::deallocate(b, all, alignof(bridge));
    }
  };
  struct ending {
    void operator()(bridge* b) const noexcept {
      b->of->end_wait(b->bytes());
      bridge::free(b);
    }
  };
  /// The memory of a partition over which readers may be walking.
  struct gap : nodes::header {
    gap(delta_chunks& to, std::size_t chunks) : of(to) { memory_of.reserve(chunks); }
    ~gap() {
      of.end_wait(memory_of.size() * delta_chunks::bytes);
      for (std::byte* const c : memory_of) of.give(c);
    }
    void take(delta_partition& p) noexcept {
      p.move_out(memory_of);
      of.begin_wait(memory_of.size() * delta_chunks::bytes);
    }
    delta_chunks& of;
    std::vector<std::byte*> memory_of;
  };

  /// What is retired here is megabytes a block, and seldom: a thousand of them must not wait.
  static nodes::options impatient() {
    nodes::options o;
    o.scheme.patience = 2;
    return o;
  }
  static unsigned lanes_for(std::uint32_t partitions) noexcept {
    return std::clamp<unsigned>(partitions / 2, 1, delta_lanes::most);
  }

  /// The version, if its partition was not dropped since. Under a guard, or by who is registered
  /// there.
  const version* alive(std::uint64_t handle) const noexcept {
    const delta_partition& p = ring_.at(tagged::partition_of(handle));
    const std::uint64_t position = tagged::position_of(handle);
    const bool early = SPOLIA_FAULT("consolidated.tag_before_address") && tag_is_right(p, handle);
    // The address before the tag: see "Why what it reads is whole".
    const std::byte* const place = p.address_or_null(position);
    const bool alive =
        early || SPOLIA_FAULT("consolidated.tag_not_asked") || tag_is_right(p, handle);
    return alive ? reinterpret_cast<const version*>(place) : nullptr;
  }
  static bool tag_is_right(const delta_partition& p, std::uint64_t handle) noexcept {
    return tagged::tag_of(handle) == tagged::tag(p.generation());
  }

  /// The version, or null: `handle` is 0 then at the end of the chain, or a dead link.
  const version* descend(std::uint64_t& handle, std::uint64_t time) const noexcept {
    while (handle != 0) {
      const version* const v = alive(handle);
      if (v == nullptr || v->since.read() <= time) return v;
      const std::uint64_t from = std::exchange(handle, v->older.load_relaxed());
      if (SPOLIA_FAULT("consolidated.stays_in_the_piece") &&
          tagged::partition_of(from) != tagged::partition_of(handle)) {
        return nullptr;
      }
    }
    return nullptr;
  }

  const version* over_the_gap(std::uint64_t row, std::uint64_t time) const noexcept {
    for (std::uint32_t n = 0, end = ring_.count(); n < end; ++n) {
      // acquire ← the release in enter_into(): the block is made.
      for (const bridge* b = bridges_[n].load_acquire(); b != nullptr; b = b->older) {
        // acquire ← the release in enter_into(): the entry is filled.
        for (std::uint32_t i = b->bucket(row).load_acquire(); i != 0;) {
          const entry& e = b->entries()[i - 1];
          i = e.next.read();
          if (e.row.read() != row || e.until.read() <= time) continue;
          std::uint64_t handle = e.head.read();
          if (const version* const v = descend(handle, time)) return v;
        }
      }
    }
    return nullptr;
  }

  /// The row's chain goes on in `p`: leaves an entry where it was.
  void joins(const ask& a, delta_partition& p) override {
    if (!SPOLIA_FAULT("consolidated.began_forgotten")) p.began(a.since);
    if (a.older == 0 || SPOLIA_FAULT("consolidated.no_bridge")) return;
    const std::uint32_t from = tagged::partition_of(a.older);
    if (from == p.number) return;
    // The piece ended then: no snapshot that is there, or will be, looks for it.
    if (a.since <= oldest()) return;
    // Nobody is held: `p` will go when all that is in it is too old for anybody.
    if (!noting_.load_relaxed()) return p.not_noted();
    auto guard = nodes_.enter();
    if (alive(a.older) != nullptr) enter_into(bridges_[from], a);
  }

  void enter_into(atomic<bridge*>& of, const ask& a) {
    for (;;) {
      // acquire ← the release below.
      bridge* const b = of.load_acquire();
      if (b != nullptr && b->used.load_relaxed() < b->size) {
        const std::uint32_t i = b->used.fetch_add_relaxed(1);
        if (i >= b->size) continue;
        entry& e = b->entries()[i];
        e.row.write(a.row);
        e.head.write(a.older);
        e.until.write(a.since);
        atomic<std::uint32_t>& bucket = b->bucket(a.row);
        std::uint32_t first = bucket.load_relaxed();
        do {
          e.next.write(first);
          // release → the acquire in over_the_gap(). (Its own order, and that of the entries
          // before, which this continues.)
        } while (!bucket.cas_weak_release(first, i + 1));
        return;
      }
      const std::uint32_t size =
          b == nullptr ? first_bridge : std::min(2 * b->size, longest_bridge);
      bridge* const made = bridge::make(memory_, size);
      made->older = b;
      bridge* was = b;
      // release → the acquires here and in over_the_gap().
      if (!of.cas_strong_release(was, made)) bridge::free(made);
    }
  }

  void look() noexcept override {
    try {
      // Not under the lock: a look takes long enough for its thread to be interrupted.
      std::vector<std::uint64_t> times;
      times.reserve(64);
      const std::uint64_t known = board_.living.scan(board_.clock, times);
      const std::uint64_t oldest = times.empty() ? known : std::min(known, times.front());
      const std::lock_guard hold(times_lock_);
      if (known < known_) return;  // somebody else has looked later
      known_ = known;
      times_.swap(times);
      looked(oldest);
    } catch (const std::bad_alloc&) {
      forget_times();
      delta_one_shot::look();
    }
  }
  /// Nothing is found between snapshots until the next look.
  void forget_times() noexcept {
    const std::lock_guard hold(times_lock_);
    known_ = 0;
  }

  /// A snapshot that is held gets a lane.
  void arrange(bool turn) noexcept override {
    if (lanes_.count() == 1) return;
    std::array<std::uint64_t, delta_lanes::most> held{};  // the oldest, and the youngest
    const bool hurry = turn && much_in_use();
    {
      const std::lock_guard hold(times_lock_);
      if (known_ == 0) return;
      lanes_.close_all_but(times_);
      if (!turn) return;
      const delta_patience::moments before = patience_.turn(known_, times_, hurry);
      const auto end = std::lower_bound(times_.begin(), times_.end(), before.held);
      const auto count = std::min<std::ptrdiff_t>(end - times_.begin(), held.size() - 1);
      std::copy_n(times_.begin(), count, held.begin());
      if (count != 0) held.back() = *(end - 1);
      // Who comes too late to know either notes what need not be, or says that it has not.
      noting_.store_relaxed(hurry || (!times_.empty() && times_.front() < before.half_held));
    }
    for (const std::uint64_t t : held) {
      if (t != 0) lanes_.give_lane(t, [this] { return make_lane(); });
    }
  }
  bool much_in_use() const noexcept {
    if (options_.budget != 0 && memory_.held() > options_.budget / share) return true;
    std::uint32_t used = 0;
    for (std::uint32_t i = 0, end = ring_.count(); i < end; ++i) {
      if (!ring_.at(i).empty() && !lanes_.has(ring_.at(i))) ++used;
    }
    return used > options_.most_partitions / share;
  }
  delta_partition* make_lane() noexcept {
    delta_partition* const p = choose(*lanes_.current(0));
    if (p != nullptr) p->begin_turn(delta_partition::any_number, options_.partition_bytes);
    return p;
  }

  /// Whether a snapshot, present or to come, may need a version of the partition.
  bool needed(const delta_partition& p) noexcept {
    if (!p.all_noted() && !SPOLIA_FAULT("consolidated.notes_not_asked")) return true;
    const std::lock_guard hold(times_lock_);
    if (p.last_commit() > known_) return true;
    const auto first = std::lower_bound(times_.begin(), times_.end(), p.first_began());
    return first != times_.end() && *first < p.last_commit() &&
           !SPOLIA_FAULT("consolidated.times_not_asked");
  }

  /// oneShotGC_with_consolidation of Figure 9.
  bool drop_or_unlock(delta_partition& p) noexcept override {
    const bool all_gone = p.last_commit() <= oldest();
    if ((!all_gone && needed(p)) || !p.tag_is_free(oldest(), board_.clock.now())) {
      p.unlock();
      return false;
    }
    const std::uint64_t versions = p.counted();
    try {
      auto guard = nodes_.enter();
      gap* left = nullptr;
      if (!all_gone) left = nodes_.make<gap>(memory_, p.chunks());
      bridge* b = bridges_[p.number].exchange_acquire(nullptr);  // ← the release in enter_into()
      if (left != nullptr) left->take(p);
      p.drop_and_unlock(delta_partition::chunks_for(options_.partition_bytes));
      dropped(versions);
      while (b != nullptr) {
        memory_.begin_wait(b->bytes());
        guard.retire(std::exchange(b, b->older), ending{});
      }
      if (left != nullptr) guard.retire(left);
      return true;
    } catch (const std::bad_alloc&) {
      p.unlock();
      return false;
    }
  }

  mutable nodes nodes_;
  std::array<atomic<bridge*>, tagged::partitions> bridges_{};
  spolia::detail::short_lock times_lock_;
  std::vector<std::uint64_t> times_;
  std::uint64_t known_ = 0;
  delta_patience patience_;  // by one at a time, who passes on
  atomic<bool> noting_{false};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

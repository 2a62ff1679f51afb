// SPDX-License-Identifier: Apache-2.0
// delta_consolidated.hpp: one-shot garbage collection with consolidation: a partition between two
// snapshots is dropped, too, and readers find their way over the gap.
//
// Source:      Raza et al., SIGMOD 2023, section 5.
// Idea:        a partition knows when its oldest version began and when its last one ended. If no
//              snapshot is in between, no reader reads any of its versions, although older
//              snapshots may still need older versions. So it is dropped. Links into it are dead,
//              as their tags tell. When a row's chain goes on in another partition, the partition
//              that it leaves gets a forwarding entry: the row, its newest version there, and when
//              that ended. A reader that meets a dead link looks the row up in the entries of the
//              partitions that may lead to its version.
//              All that is worth its cost only while a snapshot stays. So entries are made for
//              snapshots that are about to be held (delta_patience), or for all when much memory
//              is in use; and only where the partition that the chain leaves may have a version
//              that such a snapshot sees. A partition notes for which snapshots an entry that would
//              lead on from it is missing, and is not dropped while one of these is live.
// Cost:        on top of the one-shot storage's: a commit, for each version whose row's last
//              version is in another partition, a look at that partition; if it has a version that
//              began before a snapshot that is about to be held, a guard and an entry of 36 bytes.
//              (So a snapshot costs about an entry for each row, not one for each change.) A reader
//              of an old version: a guard; over a gap, a look at each partition, and at the entries
//              of those that have what its snapshot sees. A drop over which readers may be walking:
//              its memory is retired to the domain, so that it waits for their guards.
//              Versions that a held snapshot sees go to an allocation stream of its own
//              (delta_lanes), which costs a commit with such versions two read-modify-writes more.
// Progress:    as the one-shot storage. Readers do not wait.
// Bound:       let a snapshot count as held after P allocation periods. P is 4; while no more than
//              half of the partitions and of the budget is in use, it is twice the age that
//              snapshots which ended lately had reached, up to 128.
//              With S snapshots held: the versions that at least one of them sees (so at most S
//              for each row), in whole chunks; for each of the S, the partitions of the P + 1
//              periods after it began; and the versions that were written since the oldest snapshot
//              that is not held yet. A version that was kept for one snapshot may stay for a
//              younger one when the first has ended, if both were held at the same time.
// Why a reader finds its version. Let it look for the version v at time T, since <= T < until.
//   v's partition is not dropped: T is announced, so the census shows it in the interval.
//   A piece is a run of versions of one row in one life of one partition. If v's piece is the
//   newest when the reader reads the row's head, live links lead to it. If not, the reader may meet
//   dead links. Let P0 be v's piece, P1 the one that leads to it, and so on, and P(k+1) the first
//   of these whose partition was dropped. An entry for one of P0 to Pk will do, since links are
//   alive from there on.
//   The writer that began P(i+1) knew for which snapshots to make entries: those at or before N. Pi
//   had ended at u, after T. (Or it had ended at a time that no snapshot is before. Then T is not
//   before it either, and v is neither in Pi nor after it in the chain.) Either the writer made an
//   entry for Pi; the reader sees it, since the row's head led to P(i+1) only afterwards. Or the
//   writer noted with P(i+1)'s partition that the snapshots after N and before u miss an entry.
//   P0's partition has v, which began at or before T. So the writer that leaves it makes no entry
//   only if N is before T. Then P1's partition says that T misses one. The writer that leaves that
//   one makes no entry only if its N is before T, too; and so on. So take the first Pi that has an
//   entry. Its partition has a version that began at or before T, or says that T misses an entry;
//   the reader looks in no other partitions. Of the row's entries there that ended after T, Pi's is
//   the one that ended first, so the reader follows it. (Others may lead to v, too: an entry that
//   is met before all were looked at is followed for a few steps.)
//   Pi is one of P0 to Pk: otherwise P(k+1)'s partition would say that T misses an entry, and it is
//   not dropped while such a snapshot is live. (What is read of such a partition is of the same
//   life, since that is not over yet. And the notes read include those that were made with its
//   newest version: the writer that reads them supersedes that version, and a reader came to it by
//   the row's head.)
//   From Pi on all links are alive, also those out of the piece. An entry whose first version ended
//   at or before T is skipped, and that version is not read: it may be dropped and overwritten at
//   any time. An entry that ended after T leads, by links to versions that ended after T, to v or
//   to a dead link.
// Shortcuts:   readers of a snapshot that go over gaps look into each block of entries. When they
//              have looked into as many blocks as there are entries, the entries are put into one
//              array, by row, where readers of that snapshot look first (delta_shortcuts.hpp). An
//              entry that ended after T leads a reader at T to v or to a dead link whenever it is
//              followed, as long as T is announced. So an array may lack entries, and have some
//              whose partition was dropped: then the reader goes on as it would without the array.
//              An array is freed in the first period after its snapshot has ended, or when half of
//              the budget is in use. Bound: 16 bytes for each row that a snapshot sees over a gap;
//              for all snapshots, a megabyte or a quarter of the bytes of versions; with a budget
//              none beyond half of that.
// Why a version that a reader reads is whole, and no tag comes back while a reader has it:
//   delta_between.hpp.
//
// Departures from the paper (P: where the printed Figure 9 is wrong):
//   D1  P: a partition that no snapshot needs is dropped (printed: `doGc = false`).
//   D2  A forwarding entry has the time when its version ended. (The paper's reader takes the first
//       readable entry that it meets, partition by partition; after the ring has gone round, that
//       may be an older one.)
//   D3  A reader goes on over links that are alive, also from partition to partition, and also from
//       where an entry has led it.
//   D4  Forwarding entries are in blocks that are freed in one shot with their partition. Each
//       block is twice as large as the one before.
//   D5  Versions that a held snapshot sees have partitions of their own. (In the paper's system,
//       where rows are changed now and then, each partition has a version that some snapshot sees,
//       and none is dropped.)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/version_storage.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/versions/delta_between.hpp"
#include "db/versions/delta_bridge.hpp"
#include "db/versions/delta_one_shot.hpp"
#include "db/versions/delta_one_shot_tuning.hpp"
#include "db/versions/delta_shortcuts.hpp"
#include "db/versions/delta_walk.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_consolidated final : public delta_between {
 public:
  static constexpr version_storage_info info{.storage = version_storage::one_shot_consolidated,
                                             .name = "one_shot_consolidated",
                                             .collects_between = true,
                                             .keeps_whole_rows = true};

  delta_consolidated(commit_board& board, const options& o)
      : delta_between(board, o, lanes_for(o.most_partitions)) {
    // For all snapshots: always if there are few partitions; with a budget, until the first look
    // has found which ones are held.
    if (lanes_.count() == 1 || o.budget != 0) noting_.store_relaxed(delta_partition::everybody);
  }
  ~delta_consolidated() override {
    for (auto& b : bridges_) {
      for (delta_bridge* at = delta_bridge::take(b); at != nullptr;) {
        delta_bridge::free(std::exchange(at, at->older));
      }
    }
    for (searcher& s : searchers_) {
      if (delta_shortcuts* const known = s.known.load_relaxed(); known != nullptr) {
        delta_shortcuts::free(known);
      }
    }
  }

  void gather(std::uint64_t most) noexcept override {
    hurries_.fetch_add_relaxed(1);
    delta_between::gather(most);
    hurries_.fetch_sub_relaxed(1);
    if (most == 0 && memory_.waiting() != 0) drain();  // else that is for the next period
  }

  /// Versions are whole rows: the versions on the way are not undone.
  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t row,
                                    std::uint64_t time, const taking_back*) const override {
    // acquire ← the release in install(): the version is filled. (Links may be dead: no guard yet.)
    std::uint64_t handle = chain.load_acquire();
    if (handle == 0) return nullptr;
    auto guard = nodes_.enter();
    std::uint64_t length = 0;
    const version* v = nullptr;
    if (const delta_shortcuts* const known = shortcuts_at(time); known != nullptr) {
      std::size_t near = 0;
      std::uint64_t head = known->head_of(row, near);
      v = descend(head, time, length);
    }
    if (v == nullptr) v = descend(handle, time, length, steps_before_search(time));
    if (v == nullptr && handle != 0) {
      v = over_the_gap(row, time, length);
      if (v == nullptr) v = descend(handle, time, length);
      note_searches(time, 1, guard);
    }
    lengths_.add(length);
    return v;
  }
  void visit(std::span<const old_row> rows, std::uint64_t time, const taking_back* on_the_way,
             version_taker& take) const override {
    if (rows.size() == 1) return delta::visit(rows, time, on_the_way, take);
    chain_lengths::some walked;
    for (std::size_t first = 0; first < rows.size(); first += walks_together) {
      const auto some = rows.subspan(first, (std::min)(walks_together, rows.size() - first));
      std::array<walk_place, walks_together> places;
      std::array<const version*, walks_together> found;
      auto guard = nodes_.enter();
      walk_over_gaps(some, time, take.reads(), places, guard);
      for (std::size_t i = 0; i < some.size(); ++i) {
        walked.add(places[i].length);
        found[i] = places[i].at;
      }
      take.take(first, std::span(found).first(some.size()));
    }
    lengths_.add(walked);
  }
  void fetch(std::span<const old_row> rows, std::uint64_t time) const override {
    std::array<walk_place, walks_together> places;
    auto guard = nodes_.enter();
    walk_over_gaps(rows.first((std::min)(walks_together, rows.size())), time, {}, places, guard);
  }

 private:
  static unsigned lanes_for(std::uint32_t partitions) noexcept {
    return std::clamp<unsigned>(partitions / 2, 1, delta_lanes::most);
  }

  /// Whether an entry of the partition may lead to a version that a snapshot of this time sees: see
  /// "Why a reader finds its version".
  static bool may_lead_to(const delta_partition& p, std::uint64_t time) noexcept {
    return p.first_began() <= time || (p.noted_for() < time && time < p.noted_until() &&
                                       !SPOLIA_FAULT("consolidated.looks_at_what_began_only"));
  }
  /// How far to walk down a chain before the entries are searched. Where many snapshots are held, a
  /// chain has the versions that each of them sees, and may be long without a gap. Entries lead
  /// closer to what one snapshot sees, but there are only those for held snapshots.
  [[nodiscard]] std::uint64_t steps_before_search(std::uint64_t time) const noexcept {
    return time <= noting_.load_relaxed() ? few_steps : ~std::uint64_t{0};
  }
  const version* over_the_gap(std::uint64_t row, std::uint64_t time,
                              std::uint64_t& length) const noexcept {
    delta_bridge::nearest piece;
    for (std::uint32_t n = 0, end = ring_.count(); n < end; ++n) {
      if (may_lead_to(ring_.at(n), time)) delta_bridge::look_for(piece, bridges_[n], row, time);
    }
    return descend(piece.head, time, length);
  }

  /// Rows whose walks have met a dead link.
  struct searches {
    struct place {
      const delta_bridge::entry* entry;  // the next to be looked at
      delta_bridge::nearest piece;       // the nearest of those that were looked at
      std::uint64_t tried;               // the head of the piece that was tried
    };
    searches(std::span<const old_row> of, std::uint64_t at_time, version_words to_read,
             std::span<walk_place> to) noexcept
        : rows(of), time(at_time), reads(to_read), places(to) {}
    const std::span<const old_row> rows;
    const std::uint64_t time;
    const version_words reads;
    const std::span<walk_place> places;
    std::size_t count = 0;
    std::array<std::uint8_t, walks_together> left;  // numbers of rows without a version so far
    std::array<place, walks_together> at;           // by these numbers
  };
  void walk_over_gaps(std::span<const old_row> rows, std::uint64_t time, version_words reads,
                      std::span<walk_place> places, nodes::guard& guard) const noexcept;
  std::uint64_t search(std::span<const old_row> rows, std::uint64_t time, version_words reads,
                       std::span<walk_place> places) const noexcept;
  void search_in(const delta_bridge& in, searches& of) const noexcept;

  /// How much the readers of one snapshot have searched, and the shortcuts that were made for them.
  struct searcher {
    atomic<std::uint64_t> time{0};  // the snapshot's; approximate, as is `rows`
    atomic<std::uint64_t> rows{0};  // how many were looked for among all entries since
    atomic<delta_shortcuts*> known{nullptr};
  };
  [[nodiscard]] searcher& searches_at(std::uint64_t time) const noexcept {
    return searchers_[(time * 0x9E3779B97F4A7C15U >> 32U) % searchers_.size()];
  }
  /// The shortcuts for snapshots of this time; null: there are none. Inside a guard.
  [[nodiscard]] const delta_shortcuts* shortcuts_at(std::uint64_t time) const noexcept {
    // acquire ← the release in let_go(): the contents.
    const delta_shortcuts* const known = searches_at(time).known.load_acquire();
    const bool ours = known != nullptr &&
                      (known->time() == time || SPOLIA_FAULT("consolidated.shortcuts_of_any_time"));
    return ours ? known : nullptr;
  }
  void by_shortcuts(const delta_shortcuts& known, std::span<const old_row> rows, std::uint64_t time,
                    version_words reads, std::span<walk_place> places,
                    walks_left& left) const noexcept;
  void note_searches(std::uint64_t time, std::uint64_t rows, nodes::guard& guard) const noexcept;
  void make_shortcuts(std::uint64_t time, searcher& of, std::uint64_t entries,
                      nodes::guard& guard) const noexcept;
  [[nodiscard]] bool has_room_for(std::uint64_t shortcut_bytes) const noexcept {
    constexpr std::uint64_t always = std::uint64_t{1} << 20U;
    const std::uint64_t held = memory_.held();
    const std::uint64_t all = shortcut_bytes_.load_relaxed() + shortcut_bytes;
    // While they are made, they take three times as much more.
    if (options_.budget != 0 && held + 4 * shortcut_bytes > options_.budget / share) return false;
    return all <= (std::max)(always, held / 4);
  }
  void let_go(searcher& of, delta_shortcuts* next, nodes::guard& guard) const noexcept {
    // release → the acquire in shortcuts_at(). acquire ← it, of the thread that made the old ones.
    delta_shortcuts* const old = of.known.exchange_acq_rel(next);
    if (old == nullptr) return;
    shortcut_bytes_.store_relaxed(shortcut_bytes_.load_relaxed() - old->bytes());
    if (SPOLIA_FAULT("consolidated.shortcuts_go_at_once")) return delta_shortcuts::free(old);
    memory_.begin_wait(old->bytes());
    guard.retire(old, delta_shortcuts::ending{});
  }
  void forget_shortcuts(bool all) noexcept;

  /// The row's chain goes on in `p`: makes an entry for the partition that it leaves.
  void joins(const ask& a, delta_partition& p) override {
    if (!SPOLIA_FAULT("consolidated.began_forgotten")) p.began(a.since);
    if (a.older == 0 || SPOLIA_FAULT("consolidated.no_bridge")) return;
    const std::uint32_t from = tagged::partition_of(a.older);
    if (from == p.number) return;
    // The piece that the chain leaves ended at a.since: no snapshot, live or to come, looks for it.
    if (a.since <= oldest()) return;
    // An entry is needed for snapshots at or before `noting` that may look for a version there: if
    // the partition has a version that began before one of them, or lacks an entry for one.
    const std::uint64_t noting = noting_.load_relaxed();
    const delta_partition& was_in = ring_.at(from);
    const bool leads_on =
        was_in.noted_for() >= noting || SPOLIA_FAULT("consolidated.one_is_enough");
    if (was_in.first_began() > noting && leads_on) return p.not_noted(noting, a.since);
    auto guard = nodes_.enter();
    if (alive(a.older) != nullptr) delta_bridge::enter_into(bridges_[from], memory_, a);
  }

  /// Gives held snapshots their allocation streams.
  void arrange(bool turn) noexcept override {
    forget_shortcuts(options_.budget != 0 && memory_.held() > options_.budget / share);
    if (memory_.waiting() > most_waiting()) drain();
    to_drop_.store_relaxed(dropped_in_a_turn);
    if (lanes_.count() == 1) return;
    std::array<std::uint64_t, delta_lanes::most> held{};  // the oldest ones, and the youngest
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
      const auto half = std::lower_bound(times_.begin(), times_.end(), before.half_held);
      // A writer that still reads the old value either makes an entry that is not needed, or notes
      // that one is missing.
      noting_.store_relaxed(hurry ? known_ : half == times_.begin() ? 0 : *(half - 1));
    }
    for (const std::uint64_t t : held) {
      if (t != 0) lanes_.give_lane(t, [this] { return make_lane(); });
    }
  }
  delta_partition* make_lane() noexcept {
    delta_partition* const p = choose(0);
    if (p != nullptr) p->begin_turn({delta_partition::any_number, options_.partition_bytes});
    return p;
  }

  /// Whether a snapshot, present or to come, may need a version of the partition.
  bool needed(const delta_partition& p) noexcept {
    const std::lock_guard hold(times_lock_);
    if (p.last_commit() > known_) return true;
    return (any_snapshot(p.first_began(), p.last_commit()) &&
            !SPOLIA_FAULT("consolidated.times_not_asked")) ||
           (any_snapshot(p.noted_for() + 1, p.noted_until()) &&
            !SPOLIA_FAULT("consolidated.notes_not_asked"));
  }

  [[nodiscard]] bool can_go(const delta_partition& p) noexcept override {
    return p.last_commit() <= oldest() || !needed(p);
  }

  /// oneShotGC_with_consolidation of Figure 9.
  bool drop_or_unlock(delta_partition& p) noexcept override {
    const bool all_gone = p.last_commit() <= oldest();
    const bool kept = all_gone ? SPOLIA_FAULT("consolidated.printed_full_branch") : needed(p);
    const bool later = to_drop_.load_relaxed() == 0 && hurries_.load_relaxed() == 0;
    if (kept || later || !p.tag_is_free(oldest(), board_.clock.now())) {
      p.unlock();
      return false;
    }
    const std::uint64_t versions = p.counted();
    const std::uint64_t bytes = p.used_bytes();
    try {
      auto guard = nodes_.enter();
      gap* left = nullptr;
      if (!all_gone) left = nodes_.make<gap>(memory_, p.chunks());
      delta_bridge* b = delta_bridge::take(bridges_[p.number]);
      if (left != nullptr) left->take(p);
      p.drop_and_unlock(delta_partition::chunks_for(options_.partition_bytes));
      dropped(versions);
      count_drop(bytes);
      if (!all_gone) dropped_between_.add(versions);
      while (b != nullptr) {
        memory_.begin_wait(b->bytes());
        guard.retire(std::exchange(b, b->older), delta_bridge::ending{});
      }
      if (left != nullptr) guard.retire(left);
      return true;
    } catch (const std::bad_alloc&) {
      p.unlock();
      return false;
    }
  }

  /// Counts a drop of so many bytes. Two threads that drop at the same time may exceed the limit.
  void count_drop(std::uint64_t bytes) noexcept {
    const std::uint64_t left = to_drop_.load_relaxed();
    to_drop_.store_relaxed(left - (std::min)(left, bytes));
  }

  // In bytes, half a millisecond's work: all memory of one period's drops is freed at once. Other
  // partitions are dropped in later periods.
  static constexpr std::uint64_t dropped_in_a_turn = std::uint64_t{8} << 20U;
  std::array<atomic<delta_bridge*>, tagged::partitions> bridges_{};
  atomic<std::uint64_t> to_drop_{dropped_in_a_turn};  // bytes that this period may still drop
  atomic<std::uint32_t> hurries_{0};                  // how many calls under way drop all
  delta_patience patience_;                           // for the thread in arrange()
  atomic<std::uint64_t> noting_{0};                   // entries are for snapshots at or before this
#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t looked_for = 1;
  static constexpr std::uint64_t before_again = 1;
  static constexpr std::size_t most_shortcuts = 1;
  static constexpr std::uint64_t few_steps = 1;
#else
  static constexpr std::uint64_t looked_for = 64;   // rows, before the entries are counted
  static constexpr std::uint64_t before_again = 8;  // times as much search makes shortcuts anew
  static constexpr std::size_t most_shortcuts = 16;
  static constexpr std::uint64_t few_steps = 8;
#endif
  mutable std::array<searcher, most_shortcuts> searchers_;
  mutable atomic<bool> making_{false};  // one thread at a time makes shortcuts, or forgets them
  mutable atomic<std::uint64_t> shortcut_bytes_{0};  // written by that thread
};

/// Walks down the chains of several rows, by shortcuts where there are some. Inside a guard.
inline void delta_consolidated::walk_over_gaps(std::span<const old_row> rows, std::uint64_t time,
                                               version_words reads, std::span<walk_place> places,
                                               nodes::guard& guard) const noexcept {
  std::uint64_t searched = 0;
  if (const delta_shortcuts* const known = shortcuts_at(time); known == nullptr) {
    searched = search(rows, time, reads, places);
  } else {
    walks_left others;
    by_shortcuts(*known, rows, time, reads, places, others);
    searched = search(others.all(), time, reads, others.places);
    for (std::size_t n = 0; n < others.count; ++n) places[others.which[n]] = others.places[n];
  }
  if (searched != 0) note_searches(time, searched, guard);
}

/// Makes the walks of the rows that have a shortcut; `left` gets the others.
inline void delta_consolidated::by_shortcuts(const delta_shortcuts& known,
                                             std::span<const old_row> rows, std::uint64_t time,
                                             version_words reads, std::span<walk_place> places,
                                             walks_left& left) const noexcept {
  std::size_t near = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    places[i] = {nullptr, known.head_of(rows[i].row, near), 0};
    if (places[i].handle != 0) places[i].at = alive(places[i].handle);
    if (places[i].at != nullptr) fetch_version(places[i].at, reads);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    walk_place& p = places[i];
    if (p.at != nullptr) {
      p.length = 1;
      if (p.at->since.read() <= time) continue;
      p.handle = p.at->older.load_relaxed();
      p.at = descend(p.handle, time, p.length);
    }
    if (p.at == nullptr) left.add(rows[i], i);
  }
}

/// Walks down the chains of several rows. The walks that meet a dead link look for their entries
/// together, step by step as walk_together(): in one block of entries after the other, the largest
/// first, since most entries are there. Returns how many have met a dead link.
inline std::uint64_t delta_consolidated::search(std::span<const old_row> rows, std::uint64_t time,
                                                version_words reads,
                                                std::span<walk_place> places) const noexcept {
  walk_together(
      rows, time, reads, places, [this](std::uint64_t handle) { return alive(handle); },
      steps_before_search(time));
  searches of(rows, time, reads, places);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    of.left[of.count] = static_cast<std::uint8_t>(i);
    of.at[i] = {};
    of.count += places[i].at == nullptr && places[i].handle != 0 ? 1U : 0U;
  }
  const std::uint64_t searched = of.count;
  if (searched == 0) return 0;
  std::array<const delta_bridge*, tagged::partitions> bridges;
  std::size_t count = 0;
  for (std::uint32_t n = 0, end = ring_.count(); n < end; ++n) {
    if (!may_lead_to(ring_.at(n), time)) continue;
    bridges[count] = delta_bridge::newest(bridges_[n]);
    count += bridges[count] != nullptr ? 1U : 0U;
  }
  while (count != 0 && of.count != 0) {
    std::size_t largest = 0;
    for (std::size_t n = 1; n < count; ++n) {
      if (bridges[n]->size > bridges[largest]->size) largest = n;
    }
    const delta_bridge& in = *bridges[largest];
    bridges[largest] = in.older != nullptr ? in.older : bridges[--count];
    search_in(in, of);
  }
  for (std::size_t n = 0; n < of.count; ++n) {
    walk_place& p = places[of.left[n]];
    p.at = descend(of.at[of.left[n]].piece.head, time, p.length);
    if (p.at == nullptr) p.at = descend(p.handle, time, p.length);
  }
  return searched;
}

/// Counts so many more rows for which readers of a snapshot have searched all entries. Makes
/// shortcuts when that has taken as long as a look at each entry would; and makes them again when
/// it has taken much longer.
inline void delta_consolidated::note_searches(std::uint64_t time, std::uint64_t rows,
                                              nodes::guard& guard) const noexcept {
  searcher& of = searches_at(time);
  if (of.time.load_relaxed() != time) {
    if (of.known.load_relaxed() != nullptr) return;  // the shortcuts are of another snapshot
    of.time.store_relaxed(time);
    of.rows.store_relaxed(0);
  }
  const std::uint64_t before = of.rows.fetch_add_relaxed(rows);
  if (before / looked_for == (before + rows) / looked_for) return;
  std::uint64_t blocks = 0;
  std::uint64_t entries = 0;
  for (std::uint32_t n = 0, end = ring_.count(); n < end; ++n) {
    if (!may_lead_to(ring_.at(n), time)) continue;
    for (auto* b = delta_bridge::newest(bridges_[n]); b != nullptr; b = b->older) {
      ++blocks;
      entries += b->entries_used();
    }
  }
  // If there are shortcuts already, most rows have one, and few would gain by new ones.
  const std::uint64_t worth = of.known.load_relaxed() == nullptr ? entries : before_again * entries;
  if ((before + rows) * blocks >= worth) make_shortcuts(time, of, entries, guard);
}

inline void delta_consolidated::make_shortcuts(std::uint64_t time, searcher& of,
                                               std::uint64_t entries,
                                               nodes::guard& guard) const noexcept {
  // acquire ← the releases of `making_`: what the last thread has done.
  if (making_.load_relaxed() || making_.exchange_acquire(true)) return;
  of.rows.store_relaxed(0);
  if (has_room_for(delta_shortcuts::usual_bytes(entries))) {
    try {
      delta_shortcuts::builder all(memory_, time);
      for (std::uint32_t n = 0, end = ring_.count(); n < end; ++n) {
        if (!may_lead_to(ring_.at(n), time)) continue;
        delta_bridge::each_entry(bridges_[n], [&](const auto& e) {
          const bool late = e.until.read() > time;
          if (late || SPOLIA_FAULT("consolidated.shortcuts_of_any_end")) all.add(e);
        });
      }
      if (has_room_for(all.bytes())) {
        delta_shortcuts* const made = all.finish();
        shortcut_bytes_.store_relaxed(shortcut_bytes_.load_relaxed() + made->bytes());
        let_go(of, made, guard);
      }
    } catch (const std::bad_alloc&) {  // readers go on as they have
    }
  }
  making_.store_release(false);  // → the acquires here and in forget_shortcuts()
}

/// Retires the shortcuts of snapshots that have ended, or all. To be called after a look.
inline void delta_consolidated::forget_shortcuts(bool all) noexcept {
  const auto any = [](const searcher& s) { return s.known.load_relaxed() != nullptr; };
  if (std::none_of(searchers_.begin(), searchers_.end(), any)) return;
  // acquire ← the release below, and in make_shortcuts().
  if (making_.load_relaxed() || making_.exchange_acquire(true)) return;
  try {
    auto guard = nodes_.enter();
    const std::lock_guard hold(times_lock_);
    for (searcher& s : searchers_) {
      // acquire ← the release in let_go(): its time.
      const delta_shortcuts* const known = s.known.load_acquire();
      if (known == nullptr) continue;
      const bool ended = known->time() < known_ && !any_snapshot(known->time(), known->time() + 1);
      if (ended || all) let_go(s, nullptr, guard);
    }
  } catch (const std::bad_alloc&) {  // this thread's first guard: the next turn, then
  }
  making_.store_release(false);  // → the acquires here and in make_shortcuts()
}

/// Looks at each row's entries in this block. If the nearest piece so far is among them, it may
/// lead to the version in a few steps: then the row is taken off the list of those that are left.
inline void delta_consolidated::search_in(const delta_bridge& in, searches& of) const noexcept {
  const auto each_left = [&of](auto&& f) {
    for (std::size_t n = 0; n < of.count; ++n) f(of.left[n]);
  };
  each_left([&](std::size_t i) { in.fetch_bucket(of.rows[i].row); });
  std::array<std::uint8_t, walks_together> going;
  std::size_t count = 0;
  each_left([&](std::size_t i) {
    of.at[i].entry = in.first_for(of.rows[i].row);
    going[count] = static_cast<std::uint8_t>(i);
    count += of.at[i].entry != nullptr ? 1U : 0U;
  });
  if (count == 0) return;
  while (count != 0) {
    const std::size_t all = std::exchange(count, 0);
    for (std::size_t n = 0; n < all; ++n) {
      const std::size_t i = going[n];
      searches::place& at = of.at[i];
      at.piece.look_at(*at.entry, of.rows[i].row, of.time);
      at.entry = in.after(*at.entry);
      going[count] = static_cast<std::uint8_t>(i);
      count += at.entry != nullptr ? 1U : 0U;
    }
  }
  each_left([&](std::size_t i) {
    const std::uint64_t head = of.at[i].piece.head;
    const version* const v = head == of.at[i].tried ? nullptr : alive(head);
    if (v != nullptr) fetch_version(v, of.reads);
  });
  const std::size_t all = std::exchange(of.count, 0);
  for (std::size_t n = 0; n < all; ++n) {
    const std::uint8_t i = of.left[n];
    std::uint64_t head = of.at[i].piece.head;
    if (std::exchange(of.at[i].tried, head) != head) {
      of.places[i].at = descend(head, of.time, of.places[i].length, few_steps);
    }
    of.left[of.count] = i;
    of.count += of.places[i].at == nullptr ? 1U : 0U;
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

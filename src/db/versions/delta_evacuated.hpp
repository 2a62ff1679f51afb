// SPDX-License-Identifier: Apache-2.0
// delta_evacuated.hpp: one-shot garbage collection with evacuation: the versions of a partition
// that held snapshots see are copied to the kept versions, by row, and then the partition is
// dropped.
//
// Source:      the storage of Raza et al., SIGMOD 2023, sections 4 and 6 (delta_one_shot.hpp). In
//              place of its section 5 (delta_consolidated.hpp) this does what a copying collector
//              does with its youngest generation.
// Idea:        most versions are seen by no snapshot when their partition's allocation period is
//              over, and are dropped with it in one shot. Those that a held snapshot sees are
//              copied to a table by row (kept_versions.hpp). So writers do nothing for held
//              snapshots, and a snapshot finds its version by one look-up, whatever was written
//              since. Before each version is its stub, which says whose version it is and when it
//              ended: so one walk over a partition tells which of its versions some snapshot sees.
//              A partition is dropped in pieces, its chunks: each as soon as all its versions were
//              walked over. So copies replace their originals in memory, and do not come on top of
//              them. Without a budget the copies of a piece are made by row, so that versions that
//              a scan reads one after the other are in few pages of memory.
//              From its first piece on, the partition stays locked. The oldest partition is the
//              first to be walked over: then few copies are of versions in partitions that stay.
// Cost:        on top of the one-shot storage's: 16 bytes more a version, and two stores. A
//              partition that is dropped while there are older snapshots: a walk over it, a binary
//              search in the snapshots' times for each version that began before the last of them,
//              and a copy of each version that is seen. A reader of an old version: a guard, and a
//              look-up in the table; a walk down the chain if the version is not there.
//              About a millisecond of evacuation is done at the end of an allocation period. Where
//              that was not enough, or half of the partitions or of the budget is in use, a commit
//              also walks over two versions for each one that it makes. So a commit that finds the
//              budget used up, which does all that is left, has a partition or two to do.
// Progress:    as the one-shot storage. Readers wait for no thread.
// Bound:       with any number of snapshots held: the versions that at least one of them sees, with
//              24 to some 48 bytes each for the table; and the partitions of the last `young_turns`
//              + 2 long allocation periods, or more while large transactions are walked over in
//              parts. With a budget, copies are made as long as all memory is at most a sixteenth
//              more than the budget, without what waits for readers. Where deletions have taken
//              more, copies take no more than pieces have freed, and two chunks. Beyond that a
//              partition, or its rest, waits for more room, and commits are refused. While copies
//              are made, at most most_waiting() and a chunk wait, if no reader stalls inside a
//              guard. Copies are freed after their last snapshot: some thousands at the end of an
//              allocation period, some as readers begin and end, or all with collect().
// Why a reader finds its version. Let it look for the version v at time T, since <= T < until.
//   If v was copied, the copy is kept as long as T is announced: sweeps ask the census. If it was
//   not, v's piece was not dropped: before that all versions in it are copied that a snapshot of
//   the census sees, and T is in each scan, or younger than the whole partition. So the reader gets
//   to v by the row's chain, unless a link on the way is dead because the piece of a newer version
//   w was dropped. But that drop has walked on from w, over links that lead elsewhere, as far as a
//   live snapshot could go, and has copied each version that one of them sees: v, too.
//   In the partition itself this walk stops at a version from which it has walked on before. So a
//   piece may be dropped before the rest of its partition: all that is reached over the piece's
//   versions is in the table, also versions of the rest. So a dead link means that the version is
//   in the table, or that there is none. The reader looks there once more, since the copy may have
//   been made after its first look.
// Why the walk on from w meets no reused memory: one thread at a time makes all drops, and a
//   partition with a registered transaction is not dropped. No transaction registers with a
//   partition that is being dropped in pieces: a writer that has room left in one of its parts
//   would write into a dropped piece.
// Why a version that a reader reads is whole, and no tag comes back while a reader has it:
//   delta_between.hpp. A reader copies a version inside its guard, since the version may be moved
//   while it is needed: visit().
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/version_storage.hpp>

#include "db/one_at_a_time.hpp"
#include "db/versions/delta_between.hpp"
#include "db/versions/delta_walk.hpp"
#include "db/versions/kept_versions.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_evacuated final : public delta_between {
 public:
  static constexpr version_storage_info info{.storage = version_storage::one_shot_evacuated,
                                             .name = "one_shot_evacuated",
                                             .collects_between = true,
                                             .keeps_whole_rows = true};

  delta_evacuated(commit_board& board, const options& o)
      : delta_between(board, o, 1, true), kept_(nodes_, memory_) {}

  bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) override {
    if (!delta_between::reserve(writer, asks, most)) return false;
    if (asks.empty()) return true;  // such a call has no `most` to note, and owes nothing
    // Not for each small change, since all threads read it: it varies with the other memory that
    // counts in the budget.
    const std::uint64_t before = most_told_.load_relaxed();
    const std::uint64_t a_little = before / 16;
    if (most < before - a_little || most > before + a_little) most_told_.store_relaxed(most);
    if (behind_turns_.load_relaxed()) owed_.fetch_add_relaxed(asks.size());
    return true;
  }
  void published(std::uint32_t writer, std::uint64_t commit) noexcept override {
    delta_between::published(writer, commit);
    if (behind_turns_.load_relaxed() && owed_.load_relaxed() >= owed_at_once)
      evacuate_what_is_owed();
  }

  /// Precondition: no other thread collects, which could move the version.
  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t row,
                                    std::uint64_t time, const taking_back*) const override {
    auto guard = nodes_.enter();
    return look_for(chain, row, time);
  }
  void gather(std::uint64_t most) noexcept override {
    if (most != 0 && sweep_for_room(most)) return;
    hurries_.fetch_add_relaxed(1);
    delta_between::gather(most);
    hurries_.fetch_sub_relaxed(1);
    sweep(~std::uint64_t{0});
    if (memory_.waiting() != 0) drain();
  }
  void snapshot_ended(std::uint64_t time) noexcept override {
    // Mostly it is not in between: then nothing hangs at it.
    if (first_seer_.load_relaxed() <= time && time <= last_seer_.load_relaxed()) let_go(time);
  }
  void step() noexcept override {
    delta_between::step();
    if (behind_.load_relaxed()) sweep(swept_in_a_turn);
  }
  [[nodiscard]] std::vector<held_things> held() const override;
  [[nodiscard]] std::optional<held_things> held_at(std::uint64_t time) const noexcept override {
    const one_at_a_time mine(busy_);
    if (!mine) return std::nullopt;
    return kept_.held_at(time);
  }
  void fetch(std::span<const old_row> rows, std::uint64_t time) const override;
  void visit(std::span<const old_row> rows, std::uint64_t time, const taking_back*,
             version_taker& take) const override {
    if (rows.size() == 1) {
      auto guard = nodes_.enter();
      const version* const v = look_for(*rows[0].chain, rows[0].row, time);
      return take.take(0, {&v, 1});
    }
    for (std::size_t from = 0; from < rows.size(); from += walks_together) {
      visit_some(rows.subspan(from, (std::min)(walks_together, rows.size() - from)), from, time,
                 take);
    }
  }

 private:
  // About a millisecond of work: how many versions are walked over, as how many of these a copy
  // counts; and how many copies are examined whose snapshots have ended. The last are fewer, since
  // rows and entries are cleaned up at the same time.
  static constexpr std::uint64_t work_in_a_turn = 65536;
  static constexpr std::uint64_t copy_work = 32;
  static constexpr std::uint64_t swept_in_a_turn = 2048;
  // Where the work at the ends of allocation periods is not enough: for so many new versions, twice
  // as many old ones are walked over, and copied.
  static constexpr std::uint64_t owed_at_once = 512;
  static constexpr std::size_t copied_together = 2048;                 // with a budget one by one
  static constexpr std::uint64_t most_gone = std::uint64_t{1} << 18U;  // bytes: then give_up()
  static constexpr std::uint64_t much = 1000;  // versions that are worth a scan of the census
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t young_turns = 0;
#else
  static constexpr std::size_t young_turns = 2;  // periods after which a snapshot counts as held
#endif

  using found_versions = std::array<const version*, walks_together>;
  /// Names a version that was walked over, and is to be copied.
  struct noted {
    std::uint64_t row;
    std::uint64_t until;
    delta_stub* stub;
  };

  void look_up(std::span<const old_row> rows, std::uint64_t time, version_words reads,
               found_versions& found) const noexcept;
  void walk_rest(walks_left& of, std::uint64_t time, version_words reads) const noexcept {
    walk_together(of.all(), time, reads, of.places,
                  [this](std::uint64_t handle) { return alive(handle); });
  }
  void visit_some(std::span<const old_row> rows, std::size_t first, std::uint64_t time,
                  version_taker& take) const;
  const version* look_for(const atomic<std::uint64_t>& chain, std::uint64_t row,
                          std::uint64_t time) const noexcept {
    const version* const v = kept_.find(row, time);
    if (v == nullptr) return by_chain(chain, row, time);
    lengths_.add(1);
    return v;
  }
  const version* by_chain(const atomic<std::uint64_t>& chain, std::uint64_t row,
                          std::uint64_t time) const noexcept;
  const version* second_look(walk_place& p, std::uint64_t row, std::uint64_t time) const noexcept;

  void joins(const ask& a, delta_partition& p) override { p.began(a.since); }
  void arrange(bool turn) noexcept override;
  [[nodiscard]] bool can_go(const delta_partition& p) noexcept override {
    return p.last_commit() <= oldest() || may_be_evacuated(p);
  }
  bool may_be_evacuated(const delta_partition& p) noexcept;
  bool drop_or_unlock(delta_partition& p) noexcept override;
  bool drop_rest(delta_partition& p) noexcept override;
  bool drop_if_it_may(delta_partition& p) noexcept;
  bool drop(delta_partition& p, bool all_gone) noexcept;
  bool evacuate(delta_partition& p);
  void evacuate_what_is_owed() noexcept;
  [[nodiscard]] bool has_room_for_copies(const delta_partition& p) noexcept;
  void let_piece_go(delta_partition& p, std::uint64_t chunk);
  void let_go(std::uint64_t time) noexcept;
  void sweep(std::uint64_t most) noexcept;
  bool sweep_for_room(std::uint64_t most) noexcept;
  void note_seers() noexcept;
  void copy_all();
  void keep_what_follows(std::uint64_t row, const version& v, const delta_partition& p);
  void follow(std::uint64_t row, const version& from, const delta_partition& p);
  void spend(std::uint64_t work) noexcept { left_ -= (std::min)(left_, work); }
  static const delta_stub& stub_of(const version& v) noexcept {
    return *(reinterpret_cast<const delta_stub*>(&v) - 1);
  }
  /// Takes the snapshots of the last look. Throws std::bad_alloc.
  void list_seers() {
    const std::lock_guard hold(times_lock_);
    seers_ = times_;
  }
  [[nodiscard]] bool is_seen(std::uint64_t since, std::uint64_t until) const noexcept {
    return any_in(seers_, since, until);
  }
  [[nodiscard]] delta_stats figures() const noexcept override {
    delta_stats all = delta_between::figures();
    all.versions_made += copied_ahead_.value();
    all.versions_dropped += swept_.value();
    return all;
  }

  kept_versions kept_;
  atomic<std::uint64_t> held_before_{0};  // a snapshot that began before this counts as held
  std::array<std::uint64_t, young_turns + 1> turns_began_{};  // for the thread in arrange()
  std::size_t turn_ = 0;
  shared_tally copied_ahead_;         // versions that were copied and are still in a partition
  shared_tally swept_;                // copies that were freed
  atomic<std::uint32_t> hurries_{0};  // how many calls under way collect all
  atomic<std::uint64_t> work_left_{work_in_a_turn};   // of this period: versions to be walked over
  atomic<std::uint64_t> most_told_{options_.budget};  // about the last `most` of reserve()
  // Whether the work at the end of a period may not be enough; and how many versions have come
  // since commits did more.
  atomic<bool> behind_turns_{false};
  atomic<std::uint64_t> owed_{0};
  // For calls of other threads than the one that is busy: see note_seers().
  atomic<std::uint64_t> first_seer_{1};
  atomic<std::uint64_t> last_seer_{0};
  atomic<bool> behind_{false};
  mutable atomic<bool> busy_{false};      // one thread at a time drops, evacuates and sweeps
  std::vector<std::uint64_t> seers_;      // all snapshots, ascending, while it evacuates
  std::vector<noted> to_copy_;            // between two calls: those for which there was no memory
  delta_partition* copies_of_ = nullptr;  // the partition of these
  std::uint64_t left_ = 0;                // how much work this call of evacuate() may still do
  std::int64_t more_beyond_ = 0;  // bytes of copies, less those of pieces, since there was room
  std::vector<std::pair<const version*, std::uint64_t>> after_it_;  // in follow(): and their ends
};

// Readers.

/// The kept versions that the snapshot may see, one for each row, or null; they are prefetched.
/// They are mostly in no cache, so each step is made for all rows before the next. Inside a guard.
inline void delta_evacuated::look_up(std::span<const old_row> rows, std::uint64_t time,
                                     version_words reads, found_versions& found) const noexcept {
  const auto each_block = [&](auto&& f) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i == 0 || rows[i].row / rows_per_block != rows[i - 1].row / rows_per_block) f(i);
    }
  };
  each_block([&](std::size_t i) { kept_.fetch_slot(rows[i].row); });
  each_block([&](std::size_t i) { kept_.fetch_block(rows[i].row); });
  std::array<std::uint64_t, walks_together> words;
  const kept_versions::block* of = nullptr;
  std::uint64_t last = ~std::uint64_t{0};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t row = rows[i].row;
    if (row / rows_per_block != last) {
      last = row / rows_per_block;
      of = kept_.block_of(row);
    }
    words[i] = of == nullptr ? 0 : kept_versions::fetched_word(*of, row);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    found[i] = kept_versions::candidate(words[i], time);
    if (found[i] != nullptr) fetch_version(found[i], reads);
  }
}

inline void delta_evacuated::fetch(std::span<const old_row> rows, std::uint64_t time) const {
  rows = rows.first((std::min)(rows.size(), walks_together));
  found_versions found;
  walks_left others;
  auto guard = nodes_.enter();
  const bool any = kept_.versions() != 0;
  if (any) look_up(rows, time, {}, found);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!any || found[i] == nullptr) others.add(rows[i], i);
  }
  walk_rest(others, time, {});
}

inline void delta_evacuated::visit_some(std::span<const old_row> rows, std::size_t first,
                                        std::uint64_t time, version_taker& take) const {
  found_versions found;
  walks_left others;
  chain_lengths::some walked;
  auto guard = nodes_.enter();
  const bool any = kept_.versions() != 0;
  if (any) look_up(rows, time, take.reads(), found);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (any && found[i] != nullptr && kept_versions::is_seen(*found[i], time)) continue;
    others.add(rows[i], i);
  }
  walked.add(1, rows.size() - others.count);
  walk_rest(others, time, take.reads());
  for (std::size_t n = 0; n < others.count; ++n) {
    found[others.which[n]] = second_look(others.places[n], others.rows[n].row, time);
    walked.add(others.places[n].length);
  }
  take.take(first, std::span(found).first(rows.size()));
  lengths_.add(walked);
}

inline const version* delta_evacuated::by_chain(const atomic<std::uint64_t>& chain,
                                                std::uint64_t row,
                                                std::uint64_t time) const noexcept {
  // acquire ← the release in install(): the version is filled. (Links may be dead.)
  walk_place p{nullptr, chain.load_acquire(), 0};
  p.at = descend(p.handle, time, p.length);
  const version* const v = second_look(p, row, time);
  lengths_.add(p.length);
  return v;
}

/// The version for a walk that has ended at `p`. If that is a dead link, looks at the kept versions
/// again: the version may have been copied since the first look.
inline const version* delta_evacuated::second_look(walk_place& p, std::uint64_t row,
                                                   std::uint64_t time) const noexcept {
  if (p.at != nullptr || p.handle == 0 || SPOLIA_FAULT("evacuated.no_second_look")) return p.at;
  ++p.length;
  return kept_.find(row, time);
}

// Garbage collection.

inline void delta_evacuated::arrange(bool turn) noexcept {
  if (memory_.waiting() > most_waiting()) drain();
  std::uint64_t now = 0;
  {
    const std::lock_guard hold(times_lock_);
    now = known_;
  }
  if (turn && now != 0) {
    turns_began_[turn_++ % turns_began_.size()] = now;
    held_before_.store_relaxed(turns_began_[turn_ % turns_began_.size()]);
  }
  const std::uint64_t budget = options_.budget;
  const bool hurry = much_in_use(budget - (std::min)(budget, most_told_.load_relaxed()));
  if (hurry) held_before_.store_relaxed(now);
  const bool all_used = work_left_.load_relaxed() == 0;
  behind_turns_.store_relaxed(hurry || all_used);
  work_left_.store_relaxed(work_in_a_turn);
  sweep(swept_in_a_turn);
}

/// Evacuates in proportion to the versions that commits have made. For commits, where much memory
/// is in use: so not much is left for a commit that finds the budget used up.
inline void delta_evacuated::evacuate_what_is_owed() noexcept {
  const std::uint64_t owed = owed_.exchange_relaxed(0);
  if (owed == 0) return;  // another thread does the work
  work_left_.store_relaxed(2 * owed * (1 + copy_work));
  drop_by_age();
  if (work_left_.load_relaxed() != 0) behind_turns_.store_relaxed(false);  // until the next turn
}

/// Whether the versions that snapshots see may be copied now: all these snapshots count as held, or
/// there are none.
inline bool delta_evacuated::may_be_evacuated(const delta_partition& p) noexcept {
  const std::lock_guard hold(times_lock_);
  if (p.last_commit() > known_) return false;
  return !any_snapshot((std::max)(p.first_began(), held_before_.load_relaxed()), p.last_commit());
}

inline bool delta_evacuated::drop_or_unlock(delta_partition& p) noexcept {
  bool dropped_it = false;
  bool in_pieces = false;
  if (const one_at_a_time mine(busy_); mine) {
    dropped_it = drop_if_it_may(p);
    in_pieces = p.in_pieces();
  }
  if (!dropped_it && !in_pieces) p.unlock();
  if (memory_.waiting() > most_waiting()) drain();
  return dropped_it;
}

inline bool delta_evacuated::drop_rest(delta_partition& p) noexcept {
  bool dropped_it = false;
  {
    const one_at_a_time mine(busy_);
    // If it is not in pieces, another thread has dropped it, and we have no lock of it.
    const bool goes_on = p.in_pieces() || SPOLIA_FAULT("evacuated.rest_not_looked_at");
    if (!mine || !goes_on) return false;
    dropped_it = drop_if_it_may(p);
  }
  if (memory_.waiting() > most_waiting()) drain();
  return dropped_it;
}

inline bool delta_evacuated::drop_if_it_may(delta_partition& p) noexcept {
  const bool all_gone = p.last_commit() <= oldest();
  const bool dropped_it = (all_gone || may_be_evacuated(p)) &&
                          p.tag_is_free(oldest(), board_.clock.now()) && drop(p, all_gone);
  if (!all_gone) note_seers();
  return dropped_it;
}

/// Drops and unlocks the partition. False: that is not done, for want of memory or time.
inline bool delta_evacuated::drop(delta_partition& p, bool all_gone) noexcept {
  try {
    if (!all_gone && !evacuate(p)) return false;
    if (copies_of_ == &p) to_copy_.clear();  // no snapshot sees it any more
    auto guard = nodes_.enter();
    gap* const left = all_gone ? nullptr : nodes_.make<gap>(memory_, p.chunks());
    if (left != nullptr) {
      left->take(p);
      more_beyond_ -= static_cast<std::int64_t>(left->memory_of.size() * delta_chunks::bytes);
    }
    const std::uint64_t versions = p.counted() - p.moved;
    p.drop_and_unlock(delta_partition::chunks_for(options_.partition_bytes));
    dropped(versions);
    if (!all_gone) dropped_between_.add(versions);
    if (left != nullptr) guard.retire(left);
    return true;
  } catch (const std::bad_alloc&) {
    return false;  // the copies made so far are found, and the next call does not make them again
  }
}

/// Whether there is room for copies of its versions: all memory in use is at most a sixteenth more
/// than the budget. Where deletions have taken more than that, copies may take what pieces have
/// freed, and two chunks.
inline bool delta_evacuated::has_room_for_copies(const delta_partition& p) noexcept {
  // A partition that has become current meanwhile must be dropped: writers wait for it.
  if (options_.budget == 0 || lanes_.has(p)) return true;
  const std::uint64_t most = options_.budget + options_.budget / 16;
  memory_.shrink_to(most);
  if (!memory_.over(most)) {
    more_beyond_ = 0;
    return true;
  }
  return more_beyond_ <= static_cast<std::int64_t>(2 * delta_chunks::bytes);
}

/// Retires a chunk of the partition that was walked over. Throws std::bad_alloc: then the chunk
/// goes with the rest.
inline void delta_evacuated::let_piece_go(delta_partition& p, std::uint64_t chunk) {
  auto guard = nodes_.enter();
  gap* const left = nodes_.make<gap>(memory_, std::size_t{1});
  left->take(p, chunk);
  more_beyond_ -= static_cast<std::int64_t>(delta_chunks::bytes);
  guard.retire(left);
}

/// Copies the versions of the partition that snapshots see, and those that they see further down
/// the same chains. False: some are left, because of the limit on work at once or of the budget.
inline bool delta_evacuated::evacuate(delta_partition& p) {
  const bool all = hurries_.load_relaxed() != 0;
  left_ = all ? ~std::uint64_t{0} : work_left_.load_relaxed();
  if (left_ == 0) return false;
  list_seers();
  if (seers_.empty() || SPOLIA_FAULT("evacuated.nothing_moved")) return true;
  const std::size_t together = options_.budget == 0 ? copied_together : 1;
  {
    auto guard = nodes_.enter();  // as below
    copy_all();                   // those for which the last call had no memory
  }
  to_copy_.reserve(together);
  copies_of_ = &p;
  const auto keep = [&](delta_stub& stub, const version& v) {
    spend(1);
    const std::uint64_t until = stub.until();  // 0: it was never linked
    if (until != 0 && is_seen(v.since.read(), until)) {
      spend(copy_work);
      to_copy_.push_back({stub.row.read(), until, &stub});
      if (to_copy_.size() >= together) copy_all();
    } else {
      if (until != 0) keep_what_follows(stub.row.read(), v, p);
      stub.set_walked_over();
    }
    return left_ != 0 && has_room_for_copies(p);
  };
  const auto walked = [&](std::uint64_t chunk) {
    if (!SPOLIA_FAULT("evacuated.pieces_before_copies")) copy_all();
    let_piece_go(p, chunk);
    return memory_.waiting() <= most_waiting();
  };
  bool whole = false;
  while (!whole && left_ != 0 && has_room_for_copies(p)) {
    {
      auto guard = nodes_.enter();  // chunks of other partitions, which follow() reads, stay
      whole = p.walk_on(keep, walked);
      copy_all();
    }
    if (!whole && memory_.waiting() > most_waiting()) drain();
  }
  if (!all) work_left_.store_relaxed(left_);
  return whole;
}

/// Copies the versions that were noted, by row: so the copies that a scan reads one after the other
/// are in few pages. Throws std::bad_alloc: then the next call copies the rest.
inline void delta_evacuated::copy_all() {
  std::sort(to_copy_.begin(), to_copy_.end(), [](const noted& x, const noted& y) {
    return x.row != y.row ? x.row < y.row : x.until < y.until;
  });
  for (const noted& n : to_copy_) {
    const version& v = *reinterpret_cast<const version*>(n.stub + 1);
    const std::uint64_t before = kept_.bytes();
    // Checked again: snapshots may have ended since it was noted.
    if (is_seen(v.since.read(), n.until) &&
        kept_.keep(n.row, v, n.stub->words(), n.until, seers_)) {
      ++copies_of_->moved;
    }
    more_beyond_ += static_cast<std::int64_t>(kept_.bytes() - before);
    keep_what_follows(n.row, v, *copies_of_);
    n.stub->set_walked_over();
  }
  to_copy_.clear();
}

inline void delta_evacuated::keep_what_follows(std::uint64_t row, const version& v,
                                               const delta_partition& p) {
  const std::uint64_t before = kept_.bytes();
  if (!SPOLIA_FAULT("evacuated.links_not_followed")) follow(row, v, p);
  if (kept_.gone_bytes() > most_gone) kept_.give_up();
  more_beyond_ += static_cast<std::int64_t>(kept_.bytes() - before);
}

/// Copies the versions that snapshots see further down the chain, in other partitions and in pieces
/// of this one that stay for now: when `from` is dropped, no reader can walk past it to them.
inline void delta_evacuated::follow(std::uint64_t row, const version& from,
                                    const delta_partition& p) {
  after_it_.clear();
  const version* at = &from;
  for (;;) {
    const std::uint64_t handle = at->older.load_relaxed();
    const std::uint64_t until = at->since.read();
    if (handle == 0 || seers_.front() >= until) break;
    at = alive(handle);
    if (at == nullptr) break;
    const bool walked_on_from =
        SPOLIA_FAULT("evacuated.links_within_not_followed") || stub_of(*at).is_walked_over();
    if (tagged::partition_of(handle) == p.number && walked_on_from) break;
    spend(1);
    if (is_seen(at->since.read(), until)) after_it_.push_back({at, until});
  }
  // The oldest first: so each is appended to the row's list.
  for (; !after_it_.empty(); after_it_.pop_back()) {
    const auto& [v, until] = after_it_.back();
    if (!kept_.keep(row, *v, stub_of(*v).words(), until, seers_)) continue;
    copied_ahead_.add(1);
    spend(copy_work);
  }
}

/// A snapshot has ended at which copies may hang. If these are many, they are worth a scan of the
/// census, and are swept.
inline void delta_evacuated::let_go(std::uint64_t time) noexcept {
  {
    const one_at_a_time mine(busy_);
    if (!mine || kept_.held_at(time).count < much) return;
  }
  look();
  sweep(swept_in_a_turn);
}

/// Examines copies whose snapshots have ended, so many at most.
inline void delta_evacuated::sweep(std::uint64_t most) noexcept {
  if (kept_.empty()) return;
  std::uint64_t freed = 0;
  {
    const one_at_a_time mine(busy_);
    if (!mine) return;
    const std::uint64_t before = kept_.versions();
    try {
      list_seers();
      kept_.sweep(seers_, most);
      kept_.give_up();
    } catch (const std::bad_alloc&) {  // the next sweep goes on
    }
    freed = before - kept_.versions();
    swept_.add(freed);
    note_seers();
  }
  if (freed > much) drain();  // at once: else one call would free what many sweeps have left
}

/// Makes room by sweeping copies whose snapshots have ended, some thousands at a time, before
/// anything else is done. True: now there is room within `most` bytes.
inline bool delta_evacuated::sweep_for_room(std::uint64_t most) noexcept {
  look();
  for (;;) {
    const std::uint64_t before = kept_.versions();
    sweep(swept_in_a_turn);
    memory_.shrink_to(most);
    if (!memory_.over(most) && !memory_.too_dear(most)) return true;
    if (kept_.versions() >= before) return false;  // no more can go, or another thread sweeps
  }
}

/// Publishes these for calls of other threads than the one that is busy.
inline void delta_evacuated::note_seers() noexcept {
  const auto [first, last] = kept_.held_between();
  first_seer_.store_relaxed(first);
  last_seer_.store_relaxed(last);
  behind_.store_relaxed(kept_.is_behind());
}

inline std::vector<held_things> delta_evacuated::held() const {
  const one_at_a_time mine(busy_, backoff());
  return kept_.held();
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// commit.hpp: commit timestamps, and how all rows of one transaction become visible in one instant.
//
// Source:      MV2PL of Raza et al., SIGMOD 2023, sections 2 and 7.1, with two corrections (D1,
//              D2). The unresolved mark is that of MV-RLU. That readers complete a commit which is
//              ready is the idea of versioned CAS objects (Wei et al., PPoPP 2021).
// Idea:        a writer holds the locks of all its rows. It puts its mark in each row's stamp, says
//              `ready`, draws a commit timestamp from the clock, and writes it into its record: one
//              store that makes all its rows visible. Then it replaces the marks.
//              A reader that meets a mark reads the record. Not ready: the commit timestamp will be
//              above the reader's, so the row is not for it. Ready: the reader draws the timestamp
//              itself. No thread waits.
// Why a snapshot at time T sees all or nothing of a commit with timestamp c:
//   c <= T: the reader's clock reading comes after the drawing of c in the clock's order of
//     modifications, all of which are read-modify-writes; so it happens after `ready`, and that
//     after all marks. The reader meets the mark (or the final stamp) in each row, and finds
//     `ready` or c in the record.
//   c > T: whatever the reader finds says so, or is `not ready`, or is `ready` and gets its time
//   now. c is decided once, by a compare-and-swap from a word that names this one commit.
// Serializable transactions: what they have read must still be so at their commit timestamp c. So c
//   is drawn first and the reads are checked afterwards (publish_if). In between the commit is
//   undecided. The check is right at c: a transaction that has committed between this one's
//   snapshot and c had its marks in place before it drew its time, and so before c was drawn. So
//   the check sees the mark, or the stamp that replaced it. All that is committed so is serial in
//   the order of the commit timestamps, and a snapshot is a position in that order: read-only
//   transactions need no check.
//   What a row was at c can be found out unless it was committed again after c. Then the check asks
//   for a later time (verdict::later): the commit draws anew, and everything is checked again. A
//   reader at T >= c that meets an undecided commit does not wait: it takes c away. The commit is
//   then later than T, and its writer draws and checks anew. It gives up after `most_draws` times.
// Cost:        a commit: two stores, one increment of the shared clock, one compare-and-swap on a
//              line of its own. A snapshot: the census's announcement. A reader of a plain stamp: a
//              comparison.
// Progress:    wait-free, but for a reader that meets the marks of ever new transactions in one
//              row.
// Memory:      a cache line for each transaction that was ever open at the same time.
//
// Departures from the paper and its system:
//   D1  The commit timestamp is drawn when all locks are held, not at the start; a writer whose row
//       was committed after its start gives up. (Theirs: no validation, lost updates.)
//   D2  Rows become visible together. (Theirs: row by row, torn snapshots.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A shared counter that commits advance, each to a value of its own. The value 0 is before all.
class commit_clock {
 public:
  static constexpr bool advances_alone = false;

  // acquire ← the release half of tick(), and of every tick before it (they are all
  // read-modify-writes): a thread that reads t sees what was done before each tick up to t.
  [[nodiscard]] std::uint64_t now() const noexcept { return value_.load_acquire(); }
  // release → the acquire in now(); acquire: the log's order of commits is that of their causes.
  std::uint64_t tick() noexcept { return value_.fetch_add_acq_rel(1) + 1; }
  void pass(std::uint64_t t) noexcept {
    if (now() <= t) tick();
  }
  [[nodiscard]] static constexpr std::uint64_t bound() noexcept { return 0; }
  [[nodiscard]] static constexpr bool after(std::uint64_t x, std::uint64_t y) noexcept {
    return x > y;
  }
  [[nodiscard]] static constexpr time_order compare(std::uint64_t x, std::uint64_t y) noexcept {
    return spolia::detail::order_of(x, y, 0);
  }

 private:
  alignas(cache_line) atomic<std::uint64_t> value_{1};
};

static_assert(timestamp_clock<commit_clock>);

/// A row's stamp is the commit timestamp of its newest version, or the mark of the transaction that
/// is putting one there.
inline constexpr std::uint64_t mark_flag = std::uint64_t{1} << 63U;
constexpr bool is_mark(std::uint64_t stamp) noexcept { return (stamp & mark_flag) != 0; }

/// Above every timestamp: the transaction has not committed as far as this reader is concerned.
inline constexpr std::uint64_t not_yet = ~std::uint64_t{0};
/// The mark's transaction is over, and the row has its final stamp: read that again.
inline constexpr std::uint64_t look_again = not_yet - 1;

/// What a serializable transaction's check says of its commit at the time that was drawn.
enum class verdict : std::uint8_t {
  holds,   ///< what was read is so at that time
  broken,  ///< it is not
  later    ///< that cannot be found out any more: a later time has to be drawn
};

/// The records of open transactions, the clock and the census: what all rows of a database share.
class commit_board {
 public:
  class alignas(cache_line) record {
   public:
    [[nodiscard]] std::uint32_t number() const noexcept { return number_.read(); }
    /// Whether a reader or transaction has it: of use where none begins or ends meanwhile.
    [[nodiscard]] bool taken() const noexcept { return taken_.load_relaxed(); }

   private:
    friend class commit_board;
    atomic<bool> taken_{false};
    plain<std::uint32_t> number_{0};
    // Of the thread with this number, when it wants more than one: see take_another().
    atomic<std::uint32_t> given_back_{0};  // the record of that number, last; 0: none
    atomic<std::uint32_t> next_{0};
    atomic<std::uint32_t> not_looked_{0};
    atomic<std::uint64_t> serial_{0};  // of the last commit that began
    atomic<std::uint64_t> state_{0};   // see the constants below
  };

  commit_board() = default;
  commit_board(const commit_board&) = delete;
  commit_board& operator=(const commit_board&) = delete;

  commit_clock clock;
  census living;
  /// Serializable commits whose reads are being checked. Each is announced with a time before its
  /// own.
  census validating;

  /// A record for the calling thread alone. Throws std::bad_alloc.
  record& take() {
    const std::uint32_t me = threads::number();
    record& mine = records_.of(me);
    if (try_to_take(mine, me)) return mine;
    return take_another(mine, me);  // it has a reader or transaction already
  }
  void give_back(record& r) noexcept {
    if (!threads::is_this(r.number())) [[unlikely]]
      note_given_back(r.number());
    r.taken_.store_release(false);  // → the acquire in try_to_take()
  }

  /// All numbers of records taken so far are below this.
  [[nodiscard]] std::uint32_t high_water() const noexcept { return high_.load_relaxed(); }

  /// Calls f(cell) for what each record's holder keeps in `of`, a cells<...> indexed by numbers.
  template <class Cells, class F>
  void for_each(const Cells& of, F&& f) const {
    for (std::uint32_t n = 0; n < high_water(); ++n) {
      if (auto* const cell = of.find(n)) f(*cell);
    }
  }

  /// Begins a commit: the mark to put into the rows.
  static std::uint64_t begin(record& r) noexcept {
    const std::uint64_t serial = (r.serial_.load_relaxed() + 1) & serial_mask;
    // release → the acquires in resolve(): a reader that sees this serial sees the final stamps of
    // the commit before it. One that sees the mark, which is stored later, sees this state or a
    // later one.
    r.serial_.store_release(serial);
    r.state_.store_release(serial << code_bits | installing);
    return mark_flag | std::uint64_t{r.number()} << serial_bits | serial;
  }

  /// All marks are in place: makes them visible, and returns the commit timestamp.
  std::uint64_t publish(record& r) noexcept {
    std::uint64_t mine = r.serial_.load_relaxed() << code_bits | ready;
    const std::uint64_t early = SPOLIA_FAULT("commit.time_before_ready") ? clock.tick() : 0;
    // release → the acquire in resolve(): a reader that sees `ready` sees all marks, and what they
    // lead to.
    r.state_.store_release(mine);
    const std::uint64_t drawn = early != 0 ? early : clock.tick();
    // release → the acquire in resolve(), as above, since this replaces `ready`.
    if (r.state_.cas_strong_acq_rel(mine, drawn << code_bits | resolved)) return drawn;
    return mine >> code_bits;  // a reader was faster
  }

  /// The same, if valid(drawn), a verdict, says `holds` after that time was drawn. Returns 0 if it
  /// says `broken`, or if too often readers took the time away or it asked for a later one. Then
  /// nothing can be seen: the caller undoes what it has put into the rows, and then calls
  /// publish(). What valid() throws comes out, and the caller has the same to do.
  /// complete(drawn, step) makes the last step: it returns what step() does, or false without
  /// calling that if it wants a later time.
  template <class Valid, class Complete>
  std::uint64_t publish_if(record& r, Valid&& valid, Complete&& complete) {
    const std::uint64_t asks = r.serial_.load_relaxed() << code_bits | asked;
    for (unsigned n = 0; n < most_draws; ++n) {
      const bool early = SPOLIA_FAULT("commit.valid_before_draw");
      if (early && valid(clock.now()) == verdict::broken) return 0;
      // release → the acquire in resolve(): a reader that sees `asked` sees all marks.
      r.state_.store_release(asks);
      const std::uint64_t drawn = clock.tick();
      std::uint64_t mine = asks;
      // Both release → the acquire in resolve(), and acquire ← the release there of a reader that
      // took the time away: the next one is drawn after that reader's snapshot.
      if (!r.state_.cas_strong_acq_rel(mine, drawn << code_bits | undecided)) continue;
      const verdict v = early ? verdict::holds : valid(drawn);
      if (v == verdict::broken) return 0;
      if (v == verdict::later) continue;
      const auto step = [&] {
        mine = drawn << code_bits | undecided;
        // As above.
        return r.state_.cas_strong_acq_rel(mine, drawn << code_bits | resolved);
      };
      if (complete(drawn, step)) return drawn;
    }
    return 0;
  }
  template <class Valid>
  std::uint64_t publish_if(record& r, Valid&& valid) {
    return publish_if(r, std::forward<Valid>(valid),
                      [](std::uint64_t, auto& step) { return step(); });
  }

  /// When the version with this mark, which was read (acquire) from a row's stamp, was committed;
  /// or not_yet: after `time`, or never; or look_again. Draws that time if the commit is ready.
  std::uint64_t resolve(std::uint64_t mark, std::uint64_t time) noexcept {
    record& r = *records_.find(static_cast<std::uint32_t>((mark & ~mark_flag) >> serial_bits));
    const std::uint64_t serial = mark & serial_mask;
    // acquire, each ← the releases in begin(), publish() and publish_if(). The state first: if it
    // is that of a later commit, the serial read afterwards is, too.
    std::uint64_t state = r.state_.load_acquire();
    for (;;) {
      if (r.serial_.load_acquire() != serial) return look_again;
      switch (state & code_mask) {
        case resolved:
          return state >> code_bits;
        case installing:
          return not_yet;
        case ready: {
          if (SPOLIA_FAULT("commit.no_help")) return not_yet;
          const std::uint64_t drawn = clock.tick();
          // release → the acquire above, for what this reader has seen of the writer.
          if (r.state_.cas_strong_acq_rel(state, drawn << code_bits | resolved)) return drawn;
          break;
        }
        default:
          if (stands_back(r, state, serial, time)) return not_yet;
      }
    }
  }

  /// When the version with this stamp was committed, as seen at `time`: resolve() for marks.
  std::uint64_t time_of(std::uint64_t stamp, std::uint64_t time) noexcept {
    return is_mark(stamp) ? resolve(stamp, time) : stamp;
  }

 private:
  /// The record that the thread gave back last is mostly free yet. Else it looks from where it
  /// found one last, or gave one back, on. If all up to the end are taken, it looks at those
  /// before, but not again for as many calls as it has found taken then. So to take many takes
  /// constant time each, and there are about twice as many records as were taken at once, at most.
  SPOLIA_NOINLINE record& take_another(record& mine, std::uint32_t me) {
    const std::uint32_t last = mine.given_back_.load_relaxed();
    if (last != 0 && try_to_take(records_.of(last), last)) return records_.of(last);
    const std::uint32_t first = me + 1;
    const std::uint32_t end = (std::max)(first, high_water());
    const std::uint32_t next = std::clamp(mine.next_.load_relaxed(), first, end);
    if (record* const r = take_between(mine, next, end)) return *r;
    if (const std::uint32_t n = mine.not_looked_.load_relaxed(); n != 0) {
      mine.not_looked_.store_relaxed(n - 1);
    } else {
      if (record* const r = take_between(mine, first, next)) return *r;
      mine.not_looked_.store_relaxed(next - first);
    }
    constexpr std::uint32_t most = std::uint32_t{1} << (63U - serial_bits);  // a million are open
    if (record* const r = take_between(mine, end, most)) return *r;
    throw std::bad_alloc();
  }
  /// A record of another number than that of the calling thread, which takes it first when it wants
  /// more than one.
  SPOLIA_NOINLINE void note_given_back(std::uint32_t number) noexcept {
    record* const mine = records_.find(threads::number());
    if (mine == nullptr) return;
    mine->given_back_.store_relaxed(number);
    if (number < mine->next_.load_relaxed()) mine->next_.store_relaxed(number);
  }
  record* take_between(record& mine, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t n = from; n < to; ++n) {
      record& r = records_.of(n);
      if (!try_to_take(r, n)) continue;
      mine.next_.store_relaxed(n + 1);
      return &r;
    }
    return nullptr;
  }

  /// Record n.
  bool try_to_take(record& r, std::uint32_t n) noexcept {
    // acquire ← the release in give_back(): its last holder's commit is over.
    if (r.taken_.load_relaxed() || r.taken_.exchange_acquire(true)) return false;
    r.number_.write(n);
    std::uint32_t high = high_.load_relaxed();
    while (high <= n && !high_.cas_weak_relaxed(high, n + 1)) {
    }
    return true;
  }

  /// Sees to it that an undecided commit will be after `time`. False: it was decided meanwhile, or
  /// changed otherwise; `state` is what it is now.
  static bool stands_back(record& r, std::uint64_t& state, std::uint64_t serial,
                          std::uint64_t time) noexcept {
    if ((state & code_mask) == undecided && state >> code_bits > time) return true;
    if (SPOLIA_FAULT("commit.no_push")) return true;
    // release → the acquires in publish_if(): what is drawn next is after our reading of the clock.
    return r.state_.cas_strong_acq_rel(state, serial << code_bits | installing);
  }

  // A state: a serial or a timestamp, and what it is in the lowest bits.
  static constexpr unsigned code_bits = 3;
  static constexpr std::uint64_t code_mask = 7;
  static constexpr std::uint64_t resolved = 0;    // a timestamp
  static constexpr std::uint64_t installing = 1;  // a serial: not before the present time
  static constexpr std::uint64_t ready = 2;  // a serial: a reader that needs the time may draw it
  static constexpr std::uint64_t asked = 3;  // a serial: its time is being drawn
  static constexpr std::uint64_t undecided = 4;  // a timestamp, if at all
  static constexpr unsigned most_draws = 16;
  // At a million commits a second, one record's serials last for a hundred days, and wrap: a reader
  // would have to sleep that long between two readings of one row.
  static constexpr unsigned serial_bits = 43;
  static constexpr std::uint64_t serial_mask = (std::uint64_t{1} << serial_bits) - 1;

  cells<record> records_;
  atomic<std::uint32_t> high_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

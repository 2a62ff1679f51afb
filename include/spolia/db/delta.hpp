// SPDX-License-Identifier: Apache-2.0
// delta.hpp: what a version storage is: where the before-images of rows live, and until when.
//
// The newest version of a row lies in the table. What it replaces is copied into the version
// storage, and the row's head points there; versions are chained from the newest to the oldest
// (Raza et al., SIGMOD 2023, section 2.1: delta storage, N2O). A storage is chosen when a database
// is opened, so it is a class with virtual functions: one call for all versions of a commit, one
// for each reader that must leave the table.
//
// A commit uses a storage like this, `writer` being the number of its record on the commit board:
//
//   reserve(writer, asks, most) places for all versions of the transaction, or nothing at all
//   ... fill the places, link them, publish ...
//   published(writer, c)        they all ended at time c, which is now known
//   cancel(writer)              instead of published: nothing was linked
//
// and a reader with an announced timestamp T, which met a row whose newest version is after T:
//
//   find(chain, row, T)         the newest version in the chain not after T; null if there is none
//   visit(rows, T, take)        the same for rows of a scan; what the engine calls. A storage that
//                               moves versions which are needed copies them in here
//
// A version is a whole row, or the columns that its successor has changed: options::changes_only.
// A reader that looks for one of those takes the row as it is now, and lets each version on the way
// undo the columns that it has. So a version on the way may be missing only if one further on has
// its columns, too. Storages that drop any version between two others keep whole rows.
//
// What a storage must keep. A version is current from `since` on and before the time when it ended,
// c. It is needed by the snapshots T with since <= T < c. The chain leads a reader only over
// versions that ended after its T: it goes on from a version only if that began after T, which is
// when the next one ended. So a storage that lets go of a version only when census::oldest() >= c
// needs no guards and no tags: no reader, present or to come, ever goes there. One that lets go of
// more (delta_chain.hpp, delta_between.hpp) has find() enter a guard before it reads where the
// chain begins.
//
// Threads:     everything may be called by any thread; one writer number by one thread at a time.
// Errors:      reserve throws std::bad_alloc, and returns false if all versions would take more
//              than `most` bytes, also after collecting; nothing has changed then. find may throw
//              std::bad_alloc where it needs a guard; and one that forgets what snapshots need
//              (none of ours does) a no_result, which comes out of the reader's call.
// Budgets:     each call of reserve says how many bytes there may be in all. Some commits may have
//              more than others. Memory that was taken for a commit that may have more is not given
//              to one that may have less, while the sum is above what the latter may have. So
//              storages that take memory ahead check the sum before each commit.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/db/columns.hpp>
#include <spolia/db/commit.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A row's shape: whether there is a row, and which of its columns are null.
inline constexpr std::uint64_t row_exists = std::uint64_t{1} << 63U;
/// A table has no more columns than this, so that each has a bit.
inline constexpr std::uint32_t most_columns = 62;

/// All columns of a row, in a set of columns.
inline constexpr std::uint64_t every_column = ~std::uint64_t{0};

/// A before-image; the words of its columns follow it, one after the other. Written before it is
/// linked, and never again, but for `older` in storages that take others out of the chain.
struct version {
  plain<std::uint64_t> since{};   ///< commit timestamp
  atomic<std::uint64_t> older{};  ///< handle of the next version; 0: none
  plain<std::uint64_t> shape{};
  plain<std::uint64_t> columns{};  ///< which; every_column: a whole row

  [[nodiscard]] plain<std::uint64_t>* words() noexcept {
    return reinterpret_cast<plain<std::uint64_t>*>(this + 1);
  }
  [[nodiscard]] const plain<std::uint64_t>* words() const noexcept {
    return reinterpret_cast<const plain<std::uint64_t>*>(this + 1);
  }
  /// Bytes of one with so many words.
  static constexpr std::size_t bytes(std::uint32_t count) noexcept {
    return sizeof(version) + count * sizeof(plain<std::uint64_t>);
  }
  /// Makes one at `place`, where there is room for its words, which put() makes.
  static version* make(void* place) noexcept { return ::new (place) version; }
  /// Each word once. (Not before: a row's words would be written twice.)
  void put(std::uint32_t i, std::uint64_t word) noexcept {
    (::new (words() + i) plain<std::uint64_t>)->write(word);
  }
};

/// Takes a row's words back to earlier versions: some columns of them, as they lie in a row image.
class taking_back {
 public:
  taking_back(column_set wanted, std::uint64_t* out) noexcept : wanted_(wanted), out_(out) {}
  void operator()(const version& v) const noexcept {
    const std::uint64_t has = v.columns.read();
    if (wanted_.mask == 0) return;
    if (has == every_column) {
      wanted_.each_word([&](std::uint32_t i) { out_[i] = v.words()[i].read(); });
      return;
    }
    std::uint32_t at = 0;
    each_column(has, [&](std::uint32_t c) {
      const column_span span = wanted_.all[c];
      if ((wanted_.mask >> c & 1U) != 0) {
        for (std::uint32_t i = 0; i < span.words; ++i) {
          out_[span.first + i] = v.words()[at + i].read();
        }
      }
      at += span.words;
    });
  }

 private:
  const column_set wanted_;
  std::uint64_t* const out_;
};

/// How many versions readers have looked at for the one that they needed: how often one, two or
/// three, four to seven, and so on. Added to by any thread, spread over a few.
class chain_lengths {
 public:
  static constexpr std::size_t ranges = 16;  ///< the last one has no end
  using counts = std::array<std::uint64_t, ranges>;

  /// Lengths that a thread gathers, to add them together.
  struct some {
    counts reads{};
    std::uint64_t versions = 0;

    void add(std::uint64_t length, std::uint64_t times = 1) noexcept {
      if (length == 0) return;
      reads[range_of(length)] += times;
      versions += length * times;
    }
  };

  void add(std::uint64_t length) noexcept {
    if (length == 0) return;
    part& mine = parts_[threads::number() % parts_.size()];
    mine.versions.add(length);
    mine.reads[range_of(length)].add();
  }
  void add(const some& all) noexcept {
    if (all.versions == 0) return;
    part& mine = parts_[threads::number() % parts_.size()];
    mine.versions.add(all.versions);
    for (std::size_t i = 0; i < ranges; ++i) {
      if (all.reads[i] != 0) mine.reads[i].add(all.reads[i]);
    }
  }
  [[nodiscard]] counts reads() const noexcept {
    counts all{};
    for (const part& p : parts_) {
      for (std::size_t i = 0; i < ranges; ++i) all[i] += p.reads[i].value();
    }
    return all;
  }
  [[nodiscard]] std::uint64_t versions() const noexcept {
    std::uint64_t all = 0;
    for (const part& p : parts_) all += p.versions.value();
    return all;
  }

 private:
  static std::size_t range_of(std::uint64_t length) noexcept {
    return (std::min)(std::size_t{bit_length(length)} - 1, ranges - 1);
  }

  struct alignas(cache_line) part {
    shared_tally versions;
    std::array<shared_tally, ranges> reads;
  };
  std::array<part, 8> parts_;
};

/// Walks a chain: `at(handle)` is the version that a handle leads to.
template <class At>
const version* walk(const atomic<std::uint64_t>& chain, std::uint64_t time,
                    const taking_back* on_the_way, chain_lengths& lengths, At&& at) noexcept {
  // acquire ← the release in install(): the version is filled.
  std::uint64_t handle = chain.load_acquire();
  std::uint64_t length = 0;
  const version* found = nullptr;
  while (handle != 0 && found == nullptr) {
    const version* const v = at(handle);
    ++length;
    if (v->since.read() <= time) {
      found = v;
    } else {
      if (on_the_way != nullptr) (*on_the_way)(*v);
      // relaxed: what it leads to was there before this version was.
      handle = v->older.load_relaxed();
    }
  }
  lengths.add(length);
  return found;
}

/// One version that a commit wants a place for.
struct ask {
  std::uint32_t words = 0;
  std::uint64_t row = 0;    ///< whose
  std::uint64_t since = 0;  ///< when it began
  /// Handle of the one before it; 0: none. Out: of the one that it is to lead to.
  std::uint64_t older = 0;
  const atomic<std::uint64_t>* chain = nullptr;  ///< where the row's chain begins, for good
  std::uint64_t columns = every_column;          ///< that it is to have
  version* place = nullptr;                      ///< out: made, to be filled
  std::uint64_t handle = 0;                      ///< out: what goes into the row's head; never 0
};

/// A row whose newest version is after a snapshot's time.
struct old_row {
  const atomic<std::uint64_t>* chain;  ///< what leads to its versions
  std::uint64_t row;                   ///< ask::row
};
/// Words of a version, from the first one on, before the end.
struct version_words {
  std::uint32_t first = 0;
  std::uint32_t end = 1;
};
/// Takes what a storage has found.
class version_taker {
 public:
  /// The versions of the rows from `first` on, which stay until this returns; null: there is none.
  virtual void take(std::size_t first, std::span<const version* const> found) = 0;
  /// What it reads of them: the storage may have that fetched into the processor's caches.
  [[nodiscard]] version_words reads() const noexcept { return reads_; }

 protected:
  version_taker() = default;
  explicit version_taker(version_words reads) noexcept : reads_(reads) {}
  ~version_taker() = default;
  version_taker(const version_taker&) = default;
  version_taker& operator=(const version_taker&) = default;

 private:
  version_words reads_;
};

/// What waits for the snapshots of one time: old versions, or deleted rows and index entries.
struct held_things {
  std::uint64_t time = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

/// What a storage holds and has done. Approximate while others work.
struct delta_stats {
  std::uint64_t versions_made = 0;
  std::uint64_t versions_dropped = 0;
  std::uint64_t dropped_between = 0;  ///< of these, from between two snapshots that were there
  std::uint64_t bytes = 0;            ///< of memory held
  std::uint64_t partitions = 0;       ///< one-shot: in the ring
  std::uint64_t partitions_used = 0;  ///< one-shot: with versions in them
  std::uint64_t drops = 0;            ///< one-shot: of whole partitions
  std::uint64_t looks = 0;            ///< at the census, for the oldest snapshot
  /// How often a reader has looked at one old version, at two or three, at four to seven, ... for
  /// the one that it needed; and at how many in all.
  chain_lengths::counts reads{};
  std::uint64_t versions_looked_at = 0;
};

class delta {
 public:
  delta(const delta&) = delete;
  delta& operator=(const delta&) = delete;
  /// Precondition: no thread reads or writes any more.
  virtual ~delta() = default;

  /// There may be `most` bytes of versions then; 0: any number.
  virtual bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) = 0;
  virtual void published(std::uint32_t writer, std::uint64_t commit) noexcept = 0;
  virtual void cancel(std::uint32_t writer) noexcept = 0;
  /// Versions that it passes, which began after `time`, go to `on_the_way`, if that is not null.
  /// `chain` is what leads to the newest of them.
  [[nodiscard]] virtual const version* find(const atomic<std::uint64_t>& chain, std::uint64_t row,
                                            std::uint64_t time,
                                            const taking_back* on_the_way) const = 0;
  /// find() for several rows of a scan. A storage that moves versions while snapshots see them
  /// must do this; for the others it is a loop. Only with one row may `on_the_way` be not null.
  virtual void visit(std::span<const old_row> rows, std::uint64_t time,
                     const taking_back* on_the_way, version_taker& take) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const version* const v = find(*rows[i].chain, rows[i].row, time, on_the_way);
      take.take(i, {&v, 1});
    }
  }
  /// These rows will be looked for soon, one by one: a storage may have what is on the way to their
  /// versions fetched into the processor's caches, for as many of them as it likes. The time is
  /// announced, as for find(). May throw std::bad_alloc.
  virtual void fetch(std::span<const old_row> /*rows*/, std::uint64_t /*time*/) const {}
  /// The row whose chain begins there was deleted at `until`, and no snapshot sees any version of
  /// it; its slot goes to another row next. The caller holds the row's lock. For storages that find
  /// what they let go of by rows' chains: they do not find it there later.
  virtual void row_gone(atomic<std::uint64_t>& /*chain*/, std::uint64_t /*until*/) noexcept {}
  /// Whether that is to be called of the rows of a dropped table, too, before their memory goes;
  /// `until` is the time of the row's last commit then. Else their versions go by their times.
  [[nodiscard]] virtual bool wants_rows_of_tables() const noexcept { return false; }
  /// A snapshot of this time has ended: if much was kept for it, some of that goes now, in a
  /// millisecond at most. Then step() goes on with it, when readers begin and end.
  virtual void snapshot_ended(std::uint64_t /*time*/) noexcept {}
  virtual void step() noexcept {}
  /// What is kept for which snapshots, by time, if the storage knows: a version that several see is
  /// counted at one of them. Throws std::bad_alloc.
  [[nodiscard]] virtual std::vector<held_things> held() const { return {}; }
  /// The same of one snapshot, for the status page. None: the storage does not know, or to say it
  /// would mean to wait.
  [[nodiscard]] virtual std::optional<held_things> held_at(std::uint64_t /*time*/) const noexcept {
    return std::nullopt;
  }
  /// Lets go of all versions that no snapshot needs now, also of those that other threads have
  /// left.
  virtual void collect() noexcept = 0;
  [[nodiscard]] delta_stats stats() const noexcept {
    delta_stats all = figures();
    all.reads = lengths_.reads();
    all.versions_looked_at = lengths_.versions();
    return all;
  }
  /// Whether it may read rows at any time, by what it was asked for: then they stay where they are
  /// until it ends, those of dropped tables too.
  [[nodiscard]] virtual bool looks_at_rows() const noexcept { return false; }
  /// Whether versions have the changed columns only; as was said before the first one.
  [[nodiscard]] bool changes_only() const noexcept { return changes_only_; }
  void keep_changes_only() noexcept { changes_only_ = true; }

 protected:
  delta() = default;
  /// All but what is counted here.
  [[nodiscard]] virtual delta_stats figures() const noexcept = 0;

  mutable chain_lengths lengths_;

 private:
  bool changes_only_ = false;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

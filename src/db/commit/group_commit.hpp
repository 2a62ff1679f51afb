// SPDX-License-Identifier: Apache-2.0
// group_commit.hpp: the queue of a log. Commits become visible in the order of their positions in
// the log, and the first thread that waits writes for all.
//
// Idea:        append() publishes the commit and queues its record under one short lock. So records
//              are in the log in the order in which commits become visible. A transaction that has
//              seen another one's commit, or has changed a row that the other had locked, comes
//              after it. So each prefix of the log has all commits on which its transactions
//              depend.
//              A committer that waits for its record to be durable becomes the leader, if there is
//              none. It takes the whole queue, writes and syncs it, and publishes up to which
//              record all are durable. The others sleep meanwhile; the next of them leads with the
//              records that have queued up.
// Not by time: a serializable commit draws its timestamp before it comes here, since its reads are
//              checked in between. Of two commits that have seen nothing of each other, the one
//              with the later timestamp may come first in the log, even if the other one has read
//              what it replaces. A prefix may then lack a transaction on which nothing in it
//              depends.
// Groups:      threads that were acknowledged together come again together. The first of them would
//              write for itself alone, and the others would wait for the next write. So a leader
//              may wait for as many as came lately; the sink decides how long.
// At once:     where a sink's memory is its file, to write a record is to copy it. append() does
//              that under its lock, while nothing is queued and no thread leads. Then no thread
//              waits, and none is woken.
// Why there is no writer thread: programs refuse libraries that start threads unasked. To lead
//              costs a committer nothing, since it would wait for the same sync; on quick storage,
//              it saves two thread switches for each commit.
// Visible before durable: locks are not held while the disk works. What a transaction has read may
//              be lost with the power, but no acknowledged commit depends on lost changes: that a
//              commit is acknowledged proves all before it durable, for the log is in order and a
//              failed log stays failed. A transaction that only reads, and has to know, asks
//              visible() when its snapshot has begun, and waits for that number.
// Failure:     the first write or sync that fails ends the log. A record that was not durable then
//              is not acknowledged; nothing is tried again (see files.hpp).
// Again:       published commits can still become durable by other means, such as a checkpoint of
//              all that memory shows. part_here() takes a position for that, after all commits that
//              were published before, and without an entry. begin_again() goes on after it with a
//              renewed sink. A thread that waits until then is told that the log has failed; one
//              that checks later finds its entry durable.
// Progress:    append(): a short lock. wait(): as long as the disk takes, twice.
// Memory:      entries belong to the sink once they are appended.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Entry has `next`, `sequence`, `bytes` and `since`. Sink has
///   bool write(Entry* first, std::uint64_t durable) noexcept   makes a list durable, and keeps it
///   bool in_place() const noexcept             whether at_once() may be worth a try
///   bool at_once(Entry&) noexcept             makes it durable, without waiting for anything, and
///                                             leaves it to the caller; false: nothing was done
///   void collect(queued) noexcept             before a write: may wait for more entries to come;
///                                             queued() is how many there are
///   void ended(written, queued) noexcept      after it: how many it had, and how many came since
///   void sleep(ready, times) noexcept         until wake(), or not at all if ready(), or shorter;
///                                             for the times-th time, from 0
///   void wake() noexcept                      what ready() reads was changed before
///   void give_way() noexcept                  pauses while another thread has the lead
///   bool is_there() noexcept                  whether what was made durable can be found
template <class Entry, class Sink>
class group_commit {
 public:
  /// The log ends with entry `last`; all of it is durable.
  group_commit(Sink& sink, std::uint64_t last) noexcept : sink_(sink) { restart(last); }
  group_commit(const group_commit&) = delete;
  group_commit& operator=(const group_commit&) = delete;

  /// Precondition: no other thread uses it yet.
  void restart(std::uint64_t last) noexcept {
    last_.store_relaxed(last);
    durable_.store_relaxed(last);
  }

  /// The position of an entry.
  struct place {
    std::uint64_t sequence = 0;
    bool first = false;    ///< nothing was queued before it
    bool written = false;  ///< it is durable, and the entry is still the caller's
  };

  /// Runs publish() and queues `e` after all entries that were published before; returns what
  /// publish() returns. Unless where.written, e belongs to the sink then, and may be gone at once.
  template <class Publish>
  auto append(Entry& e, place& where, Publish&& publish) noexcept {
    const bool early = SPOLIA_FAULT("group_commit.publish_before_queue");
    if (early) static_cast<void>(publish());
    const std::lock_guard hold(lock_);
    const auto published = early ? decltype(publish()){} : publish();
    if (!write_at_once(e, where)) queue(e, where);
    return published;
  }
  /// The same if publish() returns true, and only for a commit at a `time` that no cut has passed:
  /// a commit that the snapshot of a cut sees must not come after that cut. Otherwise false:
  /// nothing was done, and e is still the caller's.
  template <class Publish>
  bool append_if(Entry& e, place& where, std::uint64_t time, Publish&& publish) noexcept {
    const std::lock_guard hold(lock_);
    if (time <= seen_at_cut_ && !SPOLIA_FAULT("group_commit.behind_the_cut")) return false;
    if (!publish()) return false;
    if (!write_at_once(e, where)) queue(e, where);
    return true;
  }
  /// Queues `e`, which ends the part of the log before it. look() begins a snapshot at that
  /// position and returns its time; 0: there is none.
  template <class Look>
  void cut(Entry& e, place& where, Look&& look) noexcept {
    const std::lock_guard hold(lock_);
    seen_at_cut_ = std::max<std::uint64_t>(seen_at_cut_, look());
    queue(e, where);
  }
  /// The same without an entry. Returns the number of the last entry before the snapshot.
  template <class Look>
  std::uint64_t look_here(Look&& look) noexcept {
    const std::lock_guard hold(lock_);
    seen_at_cut_ = std::max<std::uint64_t>(seen_at_cut_, look());
    return last_.load_relaxed();
  }

  /// The last entry whose commit a snapshot that was begun before this can see.
  [[nodiscard]] std::uint64_t visible() noexcept {
    // Under the lock: a commit becomes visible under it, before its entry has a number.
    if (SPOLIA_FAULT("group_commit.visible_unlocked")) return last_.load_relaxed();
    const std::lock_guard hold(lock_);
    return last_.load_relaxed();
  }

  /// True: all changes up to this number are durable. False: the log has failed.
  bool wait(std::uint64_t sequence) noexcept {
    for (std::uint32_t times = 0;; ++times) {
      // acquire, both ← the releases in lead() and begin_again(): what the leader has done. failed_
      // is read first: an entry that was durable before the failure is not in doubt, and the thread
      // that begins again must not be told of that failure.
      const bool late = SPOLIA_FAULT("group_commit.failure_last");
      bool failed = !late && failed_.load_acquire();
      if (durable_.load_acquire() >= sequence) return true;
      if (late) failed = failed_.load_acquire();
      if (failed) return false;
      if (take_lead()) {
        lead();
        // release → the acquire in take_lead(): the sink, for the next leader.
        leading_.store_release(false);
        sink_.wake();
      } else {
        const auto ready = [&] {
          return durable_.load_relaxed() >= sequence || failed_.load_relaxed() ||
                 !leading_.load_relaxed();
        };
        sink_.sleep(ready, times);
      }
    }
  }

  /// Asks the sink, with the lead, whether what was written can still be found. False: it cannot,
  /// and so the log has failed now; or it had failed before.
  bool look() noexcept {
    while (!take_lead()) sink_.give_way();
    const lead_given_back whole(*this);
    // relaxed: stored by a leader, whose release take_lead() has acquired.
    if (failed_.load_relaxed()) return false;
    if (sink_.is_there()) return true;
    // release → the acquires in wait() and failed(): the reason.
    failed_.store_release(true);
    return false;
  }

  /// After a failure: takes a position after all that was published, which no entry has. look()
  /// begins a snapshot there and returns its time; 0: there is none, and nothing has happened.
  /// Returns the queued entries, which are the caller's and will not be written. One thread at a
  /// time.
  template <class Look>
  Entry* part_here(std::uint64_t& position, Look&& look) noexcept {
    const bool early = SPOLIA_FAULT("group_commit.part_unlocked");
    std::uint64_t seen = early ? look() : 0;
    const std::lock_guard hold(lock_);
    if (!early) seen = look();
    if (seen == 0) return nullptr;
    seen_at_cut_ = std::max<std::uint64_t>(seen_at_cut_, seen);
    position = last_.load_relaxed() + 1;
    last_.store_relaxed(position);
    return take_all();
  }
  /// After a failure, when all that was published up to a position that part_here() has given is
  /// durable. make_new() runs with the lead, and makes the sink go on after the position.
  /// write(first, durable) is the sink's write(), for the entries that were queued since. When all
  /// is durable, the log counts as failed no more; done() is called then, before another thread can
  /// lead. False: a write has failed. What make_new() throws comes out, and the log stays failed.
  /// One thread at a time.
  template <class MakeNew, class Write, class Done>
  bool begin_again(std::uint64_t position, MakeNew&& make_new, Write&& write, Done&& done) {
    while (!take_lead()) sink_.give_way();
    const lead_given_back whole(*this);
    make_new();
    // release → the acquire in wait(), as below.
    if (SPOLIA_FAULT("group_commit.again_too_early")) durable_.store_release(last_.load_relaxed());
    std::uint64_t before = position;
    for (;;) {
      Entry* first = nullptr;
      std::uint64_t last = 0;
      {
        const std::lock_guard hold(lock_);
        last = last_.load_relaxed();
        first = take_all();
        if (first == nullptr) {
          // release → the acquire in wait(): what the sink has done.
          durable_.store_release(last);
          oldest_.store_relaxed(0);
          // release → the acquires in failed() and wait(): the sink is new.
          failed_.store_release(false);
          break;
        }
      }
      if (!write(first, before)) return false;
      before = last;
    }
    done();
    return true;
  }

  /// The queued entries, which will not be written. No thread uses the queue any more.
  Entry* abandon() noexcept {
    tail_ = nullptr;
    return std::exchange(first_, nullptr);
  }

  // acquire ← the release in write_at_once(): a thread that waits for an entry that was written
  // there, and would not be woken, finds it durable.
  [[nodiscard]] std::uint64_t last() const noexcept { return last_.load_acquire(); }
  [[nodiscard]] std::uint64_t durable() const noexcept { return durable_.load_relaxed(); }
  [[nodiscard]] std::uint64_t queued_bytes() const noexcept { return queued_.load_relaxed(); }
  /// `since` of the oldest entry that is not durable; 0: all are.
  [[nodiscard]] std::uint64_t oldest() const noexcept { return oldest_.load_relaxed(); }
  // acquire ← the releases in lead() and begin_again(): why it failed, or that the sink is new.
  [[nodiscard]] bool failed() const noexcept { return failed_.load_acquire(); }
  /// Whether the log has failed, and this entry was not durable before. Read in this order: see
  /// wait().
  [[nodiscard]] bool in_doubt(std::uint64_t sequence) const noexcept {
    // acquire ← the release in begin_again(), which has made it durable.
    return failed() && durable_.load_acquire() < sequence;
  }

 private:
  struct lead_given_back {
    explicit lead_given_back(group_commit& q) noexcept : of(q) {}
    lead_given_back(const lead_given_back&) = delete;
    lead_given_back& operator=(const lead_given_back&) = delete;
    ~lead_given_back() {
      // release → the acquire in take_lead(): the sink, for the next leader.
      of.leading_.store_release(false);
      of.sink_.wake();
    }
    group_commit& of;
  };

  /// Takes the whole queue. Under the lock.
  Entry* take_all() noexcept {
    tail_ = nullptr;
    queued_.store_relaxed(0);
    return std::exchange(first_, nullptr);
  }

  /// Writes the entry without queueing it, if the sink can. Under the lock. No thread waits while
  /// this one has the lead: all earlier entries are durable, and the last leader has woken all
  /// threads.
  bool write_at_once(Entry& e, place& where) noexcept {
    if (first_ != nullptr && !SPOLIA_FAULT("group_commit.before_the_queue")) return false;
    if (!sink_.in_place() || !take_lead()) return false;
    e.sequence = last_.load_relaxed() + 1;
    // relaxed: stored by a leader, whose release take_lead() has acquired.
    const bool done = !failed_.load_relaxed() && sink_.at_once(e);
    if (done) {
      where = {.sequence = e.sequence, .first = false, .written = true};
      // relaxed: a thread that waits for the entry has its number by the lock, or from last().
      durable_.store_relaxed(e.sequence);
      if (SPOLIA_FAULT("group_commit.relaxed_last")) {
        last_.store_relaxed(e.sequence);
      } else {
        // release → the acquire in last().
        last_.store_release(e.sequence);
      }
    }
    // release → the acquire in take_lead(): the sink, for the next leader.
    leading_.store_release(false);
    return done;
  }

  /// Appends the entry to the queue. Under the lock.
  void queue(Entry& e, place& where) noexcept {
    where = {.sequence = last_.load_relaxed() + 1, .first = first_ == nullptr, .written = false};
    e.sequence = where.sequence;
    e.next = nullptr;
    if (first_ == nullptr) {
      first_ = &e;
      if (oldest_.load_relaxed() == 0) oldest_.store_relaxed(e.since);
    } else {
      tail_->next = &e;
    }
    tail_ = &e;
    queued_.store_relaxed(queued_.load_relaxed() + e.bytes);
    last_.store_relaxed(where.sequence);
  }

  bool take_lead() noexcept {
    if (SPOLIA_FAULT("group_commit.two_leaders")) {
      if (leading_.load_relaxed()) return false;
      leading_.store_relaxed(true);
      return true;
    }
    return !leading_.load_relaxed() &&
           // acquire ← the releases of `leading_`: the sink as the last leader left it.
           !leading_.exchange_acquire(true);
  }

  void lead() noexcept {
    const std::uint64_t before = durable_.load_relaxed();
    sink_.collect([&] { return last_.load_relaxed() - before; });
    Entry* first = nullptr;
    std::uint64_t last = 0;
    {
      const std::lock_guard hold(lock_);
      if (failed_.load_relaxed()) return;
      last = last_.load_relaxed();
      first = take_all();
      if (first == nullptr) return;
    }
    // release → the acquire in wait(), as below.
    if (SPOLIA_FAULT("group_commit.acknowledge_first")) durable_.store_release(last);
    if (!sink_.write(first, before) && !SPOLIA_FAULT("group_commit.failure_forgotten")) {
      // release → the acquires in wait() and failed(): the reason.
      failed_.store_release(true);
      return;
    }
    if (SPOLIA_FAULT("group_commit.relaxed_durable")) {
      durable_.store_relaxed(last);
    } else {
      // release → the acquire in wait(): what the sink has done.
      durable_.store_release(last);
    }
    sink_.ended(last - before, last_.load_relaxed() - last);
    const std::lock_guard hold(lock_);
    oldest_.store_relaxed(first_ == nullptr ? 0 : first_->since);
  }

  Sink& sink_;
  // One cache line with all that each commit changes where a sink's memory is its file.
  alignas(cache_line) spolia::detail::short_lock lock_;
  atomic<bool> leading_{false};
  Entry* first_ = nullptr;
  Entry* tail_ = nullptr;
  std::uint64_t seen_at_cut_ = 0;  // the latest snapshot that was begun at a cut
  atomic<std::uint64_t> last_{0};
  atomic<std::uint64_t> durable_{0};
  // Another with what each commit reads.
  alignas(cache_line) atomic<std::uint64_t> queued_{0};
  atomic<std::uint64_t> oldest_{0};
  atomic<bool> failed_{false};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

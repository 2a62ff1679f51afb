// SPDX-License-Identifier: Apache-2.0
// group_commit.hpp: the queue of a log: commits become visible and get their position in the log in
// one order, and the first thread that waits writes for all.
//
// Idea:        append() publishes the commit and queues its record under one short lock. So records
//              lie in the log in the order in which commits become visible: a transaction that has
//              seen a commit, or has changed what that one had locked, stands after it, and any
//              prefix of the log has all that its transactions have built upon.
//              A committer that wants to know its record durable becomes the leader, if there is
//              none. It takes the whole queue, writes and syncs it, and publishes up to where. The
//              others sleep meanwhile; the next of them leads with what has queued up.
// Not by time: a serializable commit draws its timestamp before it comes here, since its reads are
//              checked in between. Of two that have seen nothing of each other, the one with the
//              later timestamp may stand first, also where the other one has read what it replaces.
//              A prefix then lacks a transaction that nothing in it depends on.
// Groups:      threads that were acknowledged together come again together. The first of them would
//              write for itself alone, and the others would wait for the next write. So a leader
//              may wait for as many as came lately; the sink decides how long.
// At once:     where a sink's memory is its file, to write a record is to copy it. append() does
//              that under its lock, while nothing is queued and no thread leads. Then no thread
//              waits, and none is woken.
// Why no thread of its own: programs refuse libraries that start threads unasked. A leader costs a
//              committer nothing, since that would wait for the same sync; on storage that is
//              quick, it saves two changes of threads for each commit.
// Visible before durable: locks are not held while the disk works. What is read may be lost with
//              the power, but no acknowledged commit is built upon what is lost: one that is
//              acknowledged proves all before it durable, for the log is in order and a failed log
//              stays failed. A transaction that only reads, and has to know, asks visible() when
//              its snapshot has begun, and waits for that number.
// Failure:     the first write or sync that fails ends it. What was not durable then is not
//              acknowledged; nothing is tried again (see files.hpp).
// Again:       what was published can still become durable by other means, as a checkpoint of all
//              that memory shows. part_here() takes a position for that, after all that was
//              published before and with no entry of its own, and begin_again() goes on after it
//              with a sink that has been made new. Until then each thread that waits is told that
//              the log has failed; one that looks later finds its entry durable.
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
///   bool in_place() const noexcept             at_once() may be worth a try
///   bool at_once(Entry&) noexcept             makes it durable, without waiting for anything, and
///                                             leaves it to the caller; false: nothing was done
///   void collect(queued) noexcept     before a write: may wait until queued() is as much as comes
///   void ended(written, queued) noexcept      after it: entries, and those that came meanwhile
///   void sleep(ready, times) noexcept         until wake(), or not at all if ready(), or shorter;
///                                             for the times-th time, from 0
///   void wake() noexcept                      what ready() reads was changed before
///   void give_way() noexcept                  while another thread has the lead
///   bool is_there() noexcept                  what was made durable can be found
template <class Entry, class Sink>
class group_commit {
 public:
  /// The log ends with `last`, all of it durable.
  group_commit(Sink& sink, std::uint64_t last) noexcept : sink_(sink) { restart(last); }
  group_commit(const group_commit&) = delete;
  group_commit& operator=(const group_commit&) = delete;

  /// No other thread uses it yet.
  void restart(std::uint64_t last) noexcept {
    last_.store_relaxed(last);
    durable_.store_relaxed(last);
  }

  /// Where an entry stands.
  struct place {
    std::uint64_t sequence = 0;
    bool first = false;    ///< nothing was queued before it
    bool written = false;  ///< it is durable, and the entry still the caller's
  };

  /// Runs publish() and queues `e` after all that was published before; returns what publish()
  /// returns. e belongs to the sink then, which may be done with it at once, unless where.written.
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
  /// what the snapshot of a cut sees must not come after that cut. Otherwise nothing was done, and
  /// e is still the caller's.
  template <class Publish>
  bool append_if(Entry& e, place& where, std::uint64_t time, Publish&& publish) noexcept {
    const std::lock_guard hold(lock_);
    if (time <= seen_at_cut_ && !SPOLIA_FAULT("group_commit.behind_the_cut")) return false;
    if (!publish()) return false;
    if (!write_at_once(e, where)) queue(e, where);
    return true;
  }
  /// Queues `e` as an end of what came before. look() begins a snapshot at that position, and
  /// returns its time; 0: there is none.
  template <class Look>
  void cut(Entry& e, place& where, Look&& look) noexcept {
    const std::lock_guard hold(lock_);
    seen_at_cut_ = std::max<std::uint64_t>(seen_at_cut_, look());
    queue(e, where);
  }
  /// The same without an entry: the number of the last one before the snapshot.
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
      // acquire, both ← the releases in lead() and begin_again(): what the leader has done. Whether
      // it has failed comes first: what was durable before the failure is not in doubt, and
      // the thread that begins again is not told of it.
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

  /// Whether what was written is still where it is looked for: asks the sink, with the lead. False:
  /// it is not, and the log has failed, or it had.
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

  /// After a failure: a position behind all that was published, which no entry has. look() begins
  /// a snapshot there and returns its time; 0: there is none, and nothing has happened. Returns
  /// what was queued, which is the caller's and will not be written. One thread at a time.
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
  /// After a failure, when what was published up to a position that part_here() has given is
  /// durable. make_new() has the lead of the log and lets the sink go on behind the position;
  /// write(first, durable) is the sink's write(), for what was queued since. When all is durable,
  /// the log has not failed any more; done() is called then, before another thread has the lead.
  /// False: a write has failed. What make_new() throws comes out; then the log has failed as it had
  /// before. One thread at a time.
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

  /// What was queued and will not be written. No thread uses the queue any more.
  Entry* abandon() noexcept {
    tail_ = nullptr;
    return std::exchange(first_, nullptr);
  }

  // acquire ← the release in write_at_once(): a thread that waits for what was written there, and
  // would not be woken, finds it durable.
  [[nodiscard]] std::uint64_t last() const noexcept { return last_.load_acquire(); }
  [[nodiscard]] std::uint64_t durable() const noexcept { return durable_.load_relaxed(); }
  [[nodiscard]] std::uint64_t queued_bytes() const noexcept { return queued_.load_relaxed(); }
  /// `since` of the oldest entry that is not durable; 0: all are.
  [[nodiscard]] std::uint64_t oldest() const noexcept { return oldest_.load_relaxed(); }
  // acquire ← the releases in lead() and begin_again(): why it failed, or that the sink is new.
  [[nodiscard]] bool failed() const noexcept { return failed_.load_acquire(); }
  /// The log has failed, and this entry was not durable before. In this order: see wait().
  [[nodiscard]] bool in_doubt(std::uint64_t sequence) const noexcept {
    // acquire ← the release in begin_again(): it is durable by that.
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

  /// Under the lock.
  Entry* take_all() noexcept {
    tail_ = nullptr;
    queued_.store_relaxed(0);
    return std::exchange(first_, nullptr);
  }

  /// Under the lock. No thread waits for the one that has the lead meanwhile: all before is
  /// durable, and the last leader has woken all.
  bool write_at_once(Entry& e, place& where) noexcept {
    if (first_ != nullptr && !SPOLIA_FAULT("group_commit.before_the_queue")) return false;
    if (!sink_.in_place() || !take_lead()) return false;
    e.sequence = last_.load_relaxed() + 1;
    // relaxed: stored by a leader, whose release take_lead() has acquired.
    const bool done = !failed_.load_relaxed() && sink_.at_once(e);
    if (done) {
      where = {.sequence = e.sequence, .first = false, .written = true};
      // relaxed: a thread that waits for it has its number by the lock, or from last().
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

  /// Under the lock.
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
           // acquire ← the release of the last leader in wait(): the sink as it left it.
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
  // What each commit changes where a sink's memory is its file: one cache line.
  alignas(cache_line) spolia::detail::short_lock lock_;
  atomic<bool> leading_{false};
  Entry* first_ = nullptr;
  Entry* tail_ = nullptr;
  std::uint64_t seen_at_cut_ = 0;  // the latest snapshot that was begun at a cut
  atomic<std::uint64_t> last_{0};
  atomic<std::uint64_t> durable_{0};
  // What each commit reads.
  alignas(cache_line) atomic<std::uint64_t> queued_{0};
  atomic<std::uint64_t> oldest_{0};
  atomic<bool> failed_{false};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

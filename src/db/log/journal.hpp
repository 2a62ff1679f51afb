// SPDX-License-Identifier: Apache-2.0
// journal.hpp: the write-ahead log of an open database. Internal.
//
// A commit goes through it like this:
//
//   admit()      waits while too much is queued; false: the log has failed
//   take()       a record to write the changes into; may throw
//   promise()    room in the log for it; false: there is none, and nothing has happened
//   append()     publishes the commit and queues the record: nothing fails here
//   acknowledge  waits as the level of durability wants it
//
// Threads:     any at once. With durability_level::async it has one of its own, which sleeps while
//              nothing is queued.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/base/at_home.hpp>
#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/db/database.hpp>
#include <spolia/db/durability.hpp>
#include <spolia/db/files.hpp>

#include "db/at_work.hpp"
#include "db/commit/group_commit.hpp"
#include "db/files/folder.hpp"
#include "db/files/reserve_file.hpp"
#include "db/log/log_format.hpp"
#include "db/log/log_room.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// What became of a record that ends a segment.
struct cut_result {
  std::uint32_t crc = 0;
  bool begun = false;                   ///< there is a segment after it
  std::optional<storage_error> reason;  ///< why not; empty if there was no memory
};

/// A record on its way. Its data begins with room for the header.
struct log_entry {
  log_entry* next = nullptr;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::uint64_t since = 0;   // ticks
  std::uint64_t commit = 0;  // the time of the commit that it is of; 0: of none
  record_kind kind = record_kind::transaction;
  cut_result* cut = nullptr;  // out, of a cut
  byte_buffer data;

  /// Its data is what shall be written.
  void complete() noexcept {
    bytes = data.size();
    since = ticks::read();
  }
};

/// What was in doubt after a failure of the log.
struct resumed_commits {
  std::vector<std::uint64_t> times;   // of commits
  std::uint64_t catalog_changes = 0;  // which their callers have undone
};

/// Where a log ends.
struct log_end {
  std::uint32_t epoch = 0;
  std::uint64_t sequence = 0;
  std::uint32_t chain = 0;
};

/// What an opening does to its directory while the log begins.
struct opening_steps {
  /// Cuts off what a process that was killed has set aside in the last segment, for its room.
  std::function<void()> cut_zeros;
  /// All else, when there is a segment that lacks its name alone.
  std::function<void()> before_name;
};

/// Writes records into segments. One leader at a time.
class log_writer {
 public:
  log_writer(const engine& of, folder& where, const options& o);
  ~log_writer();
  log_writer(const log_writer&) = delete;
  log_writer& operator=(const log_writer&) = delete;

  /// Begins a segment after `end`, with records of this origin.
  void start(const log_end& end, std::uint64_t origin, const opening_steps& steps);
  /// The folder that the log is in.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.path(); }
  /// Not so in a child of the process that has opened it: the file is its parent's.
  [[nodiscard]] bool at_home() const noexcept { return home_ == ::getpid(); }
  bool write(log_entry* first, std::uint64_t durable) noexcept {
    return write(first, durable, nullptr);
  }
  // What group_commit asks for.
  bool is_there() noexcept;
  template <class Queued>
  void collect(Queued&& queued) noexcept {
    if (!collects_ || quick() || queued() >= company_) return;
    using std::chrono::nanoseconds;
    const nanoseconds at_most = std::min(took_ / patience, longest_patience);
    const auto until = std::chrono::steady_clock::now() + at_most;
    nanoseconds waited{0};  // at least, by no clock: one that stands must not hold up commits
    while (queued() < company_) {
      const auto left =
          std::min<nanoseconds>(until - std::chrono::steady_clock::now(), at_most - waited);
      if (left.count() <= 0) {
        company_ = queued();
        return;
      }
      waited += give_way(left);
    }
  }
  void ended(std::uint64_t written, std::uint64_t queued) noexcept {
    company_ = std::max(company_, written + queued);
  }
  template <class Ready>
  void sleep(Ready&& ready, std::uint32_t times) noexcept {
    // acquire ← the release in wake(): a thread that finds the new number is ready.
    std::uint32_t round = round_.load(std::memory_order_acquire);
    if (ready() || pause(times)) return;
    // A thread that wakes others looks for the mark alone: those that it has woken may not run for
    // a long time.
    if ((round & asleep) == 0 &&
        !round_.compare_exchange_strong(round, round | asleep, std::memory_order_relaxed)) {
      return;
    }
    round_.wait(round | asleep, std::memory_order_relaxed);
  }
  void wake() noexcept {
    std::uint32_t round = round_.load(std::memory_order_relaxed);
    // release → the acquire in sleep().
    while (!round_.compare_exchange_weak(round, (round | asleep) + 1, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
    if ((round & asleep) != 0) round_.notify_all();
  }
  static void give_way() noexcept { give_way(std::chrono::microseconds(100)); }
  /// Writes are over before a thread could have slept.
  [[nodiscard]] bool quick() const noexcept { return quick_.load_relaxed(); }

  /// What is put into the window is in the file.
  [[nodiscard]] bool in_place() const noexcept { return in_place_.load_relaxed(); }
  bool at_once(log_entry& e) noexcept;
  /// Where the window comes to its end: makes the file longer, while others go on. For a thread
  /// that has nothing to wait for.
  void look_ahead() noexcept {
    // relaxed, both: what is to be done is read under the lock.
    if (ahead_wanted_.load_relaxed() && ahead_wanted_.exchange_relaxed(false)) make_ahead();
  }

  /// An empty record, with room for the header. Throws std::bad_alloc.
  log_entry* take();
  void give_back(log_entry* e) noexcept;
  /// The same, of what the thread record with this number has had before: no lock, and a warm
  /// cache.
  log_entry* take(std::uint32_t session);
  void give_back(log_entry* e, std::uint32_t session) noexcept;
  /// Room for a record that will be appended, or given back. False: there is none; refusal() says
  /// why. frees_room() tells whether it may have what is kept for such records. By any thread;
  /// throws std::bad_alloc.
  template <class FreesRoom>
  bool promise(std::size_t bytes, FreesRoom&& frees_room) {
    return room_left_.promise(bytes) || make_room(bytes, frees_room());
  }
  void give_room_back(std::size_t bytes) noexcept { room_left_.give_back(bytes); }
  /// Why there was no room for the last record that asked for more than there is.
  [[nodiscard]] std::optional<storage_error> refusal();
  /// That in words, or those of failure(); none: "". Kept apart: copies of an error share its
  /// words, and the thread sanitizer does not see what counts them. Throws std::bad_alloc.
  [[nodiscard]] std::string refusal_in_words();
  [[nodiscard]] std::string failure_in_words() const {
    const std::lock_guard hold(failure_lock_);
    return failure_ ? failure_words_ : std::string();
  }

  /// Why it has failed; empty if it has not, or there was no memory. Throws std::bad_alloc.
  [[nodiscard]] std::optional<storage_error> failure() const {
    const std::lock_guard hold(failure_lock_);
    return failure_;
  }

  // After a failure, for the one thread that begins again. What was not acknowledged stays here,
  // so that it can be told.

  /// These are not going to be written.
  void leave_out(log_entry* first) noexcept { keep_doubtful(first); }
  /// Goes on in another segment after `end`, up to which all is durable otherwise. The segment
  /// that has failed is not touched any more. Precondition: the caller has the lead. Throws
  /// storage_error, std::bad_alloc.
  void begin_again(const log_end& end, std::uint64_t origin);
  /// Writes what was queued since, and keeps it as well.
  bool write_since(log_entry* first, std::uint64_t durable, resumed_commits& told) noexcept {
    return write(first, durable, &told);
  }
  /// Of its last record.
  [[nodiscard]] std::uint32_t chain() const noexcept { return end_.chain; }
  /// Adds what is kept so far. Throws std::bad_alloc.
  void tell(resumed_commits& to) const { tell(doubtful_, to); }
  /// It has not failed any more, and nothing is in doubt. Precondition: the caller has the lead.
  void nothing_in_doubt() noexcept;
  void fill(log_stats& s) const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load_relaxed(); }

 private:
  /// Has another name yet, and goes with this unless it gets its own.
  struct fresh_segment {
    explicit fresh_segment(folder& of) noexcept : where(of) {}
    ~fresh_segment() {
      if (passing) remove_quietly(where, temporary);
    }
    fresh_segment(const fresh_segment&) = delete;
    fresh_segment& operator=(const fresh_segment&) = delete;

    folder& where;
    std::string temporary;
    std::string name;
    std::unique_ptr<storage_file> file;
    std::uint64_t room = 0;  // after the header
    bool passing = false;    // the other name is nothing that stays
  };

  bool write(log_entry* first, std::uint64_t durable, resumed_commits* told) noexcept;
  static void tell(const log_entry* first, resumed_commits& to);
  void keep_doubtful(log_entry* first) noexcept;
  [[nodiscard]] std::uint64_t promised_room() const noexcept;
  std::uint64_t room_left();
  [[nodiscard]] byte_buffer next_header() const;
  [[nodiscard]] std::string next_name() const;
  void prepare_segment(fresh_segment& next, std::uint64_t least) const;
  void prepare_first(fresh_segment& next, const std::function<void()>& cut_zeros);
  void lengthen_first(fresh_segment& next) const noexcept;
  bool prepare_from_reserve(fresh_segment& next);
  void name_segment(fresh_segment& next);
  void use_segment(fresh_segment& next);
  void look_for_segment();
  /// As signed numbers, since the counter of another processor may be a little late.
  [[nodiscard]] bool is_time_to_look(std::uint64_t now) const noexcept {
    return static_cast<std::int64_t>(now - look_at_) >= 0;
  }
  void look_later() noexcept;
  std::optional<storage_error> begin_another();
  void next_segment();
  void end_segment(cut_result& done);
  void keep_failure() noexcept;
  void write_all(log_entry* first, std::uint64_t durable);
  void seal(log_entry& e, std::uint64_t durable) noexcept;
  void put(bytes_view record) noexcept;
  [[nodiscard]] bool long_enough() const noexcept;
  bool make_room(std::size_t bytes, bool frees_room);
  bool lengthen(std::size_t bytes);
  void refuse(const storage_error& why) noexcept;
  void map_for(std::size_t bytes) noexcept;
  void map_all() noexcept;
  void make_ahead() noexcept;
  bool take_ahead(std::size_t bytes) noexcept;
  void use_ahead() noexcept;
  void ask_ahead() noexcept;
  void forget_ahead() noexcept;
  void end_room();
  void stage(bytes_view record);
  void write_staged();
  void make_durable();
  [[nodiscard]] bool pause(std::uint32_t times) const noexcept;
  static std::chrono::nanoseconds give_way(std::chrono::nanoseconds at_most) noexcept;
  void give_back_all(log_entry* first) noexcept;

  const engine& engine_;
  folder& folder_;
  const std::uint64_t segment_bytes_;
  const std::uint64_t step_;     // what a segment is made longer by
  std::uint64_t next_at_;        // the segment is long enough
  std::uint64_t look_at_ = 0;    // in ticks: then it is asked whether the directory has the segment
  std::span<std::byte> behind_;  // what follows the window; empty if that is
  std::size_t ask_at_ = 0;       // bytes of the window that are left when more is asked for
  byte_block staged_;            // what comes next, where there is no window
  std::chrono::nanoseconds took_{0};  // the last write
  std::uint32_t slow_ = 0;            // writes since the last quick one
  std::uint64_t company_ = 1;         // entries that come together
  const double ns_per_tick_;
  std::string name_;  // of the segment
  const bool collects_;
  std::size_t used_ = 0;           // of it
  bool dirty_ = false;             // something was written and not synced
  bool in_doubt_ = false;          // it is not known whether the name of another segment is there
  log_entry* doubtful_ = nullptr;  // since a failure; those that lie in a segment have 0 bytes
  log_entry* last_doubtful_ = nullptr;
  mutable std::mutex failure_lock_;
  std::optional<storage_error> failure_;
  std::string failure_words_;
  std::uint64_t origin_ = 0;    // of all records until the log begins again
  atomic<bool> broken_{false};  // the segment is not touched any more
  atomic<bool> quick_{true};
  atomic<bool> in_place_{false};
  atomic<std::uint64_t> longest_ns_{0};
  atomic<std::uint32_t> epoch_{0};

  // What each record changes that is put in place: one cache line goes from thread to thread.
  alignas(cache_line) log_end end_;
  std::uint64_t size_ = 0;       // of the segment, as far as it is written
  std::span<std::byte> window_;  // its end as memory, if there is such
  atomic<std::uint64_t> bytes_{0};
  atomic<std::uint64_t> flushes_{0};

  // The thread that has the lead writes to the segment's file; but one thread at a time may make it
  // longer meanwhile. The lock is over that: what follows, up to refusal_, and which file
  // `segment_` is, which only the thread with the lead changes.
  alignas(cache_line) std::mutex room_lock_;
  std::unique_ptr<storage_file> segment_;
  std::uint64_t room_ = 0;      // the segment has room up to here
  std::uint64_t mapped_ = 0;    // and is memory up to here: window_, behind_, ahead_
  std::span<std::byte> ahead_;  // what was made after those two
  bool ask_ = false;            // for ahead_
  std::optional<storage_error> refusal_;
  std::string refusal_words_;
  atomic<bool> ahead_wanted_{false};
  reserve_file reserve_;
  // What each commit changes, also while it does not have the lead.
  alignas(cache_line) log_room room_left_;

  spolia::detail::short_lock free_lock_;
  log_entry* free_ = nullptr;
  atomic<std::size_t> free_bytes_{0};
  struct alignas(cache_line) spare {
    atomic<log_entry*> entry{nullptr};
  };
  static constexpr std::size_t most_spare = 64;
  std::array<spare, most_spare> spare_;
  const ::pid_t home_ = ::getpid();

  static constexpr int patience = 8;  // a leader waits for others for the eighth of a write
  static constexpr std::chrono::nanoseconds longest_patience{2000000};

  static constexpr std::uint32_t asleep = 1;  // in the number: a thread waits for the next one
  std::atomic<std::uint32_t> round_{0};
};

/// What an error says besides when the log has failed.
inline constexpr const char* until_resumed =
    "; the log has failed: nothing is acknowledged until database::resume()";

class journal {
 public:
  using queue = group_commit<log_entry, log_writer>;

  journal(const engine& of, folder& where, const options& o);
  /// Makes durable what is queued.
  ~journal();
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  /// After what recovery has found. After what a step throws, the log is as it was.
  void start(const log_end& end, std::uint64_t origin, const opening_steps& steps);

  log_entry* take() { return writer_.take(); }
  log_entry* take(std::uint32_t session) { return writer_.take(session); }
  void give_back(log_entry* e, std::uint32_t session) noexcept { writer_.give_back(e, session); }
  /// Throws std::invalid_argument if this thread is writing the log.
  bool admit();
  /// See log_writer.
  template <class FreesRoom>
  bool promise(const log_entry& e, FreesRoom&& frees_room) {
    return writer_.promise(e.data.size(), std::forward<FreesRoom>(frees_room));
  }
  void give_room_back(const log_entry& e) noexcept { writer_.give_room_back(e.data.size()); }
  template <class Publish>
  auto append(log_entry& e, queue::place& where, Publish&& publish) noexcept {
    e.complete();
    return queue_.append(e, where, std::forward<Publish>(publish));
  }
  /// See group_commit::append_if().
  template <class Step>
  bool append_if(log_entry& e, queue::place& where, std::uint64_t time, Step&& step) noexcept {
    e.complete();
    return queue_.append_if(e, where, time, std::forward<Step>(step));
  }
  /// False: the log has failed; what was appended is not durable, as far as is known.
  bool acknowledge(const queue::place& where) noexcept;
  bool sync() noexcept { return queue_.wait(queue_.last()); }
  /// The same, and looks whether the directory still has the log. (In a child of the process, no
  /// thread may give the lead back.)
  bool sync_and_look() noexcept { return sync() && (!writer_.at_home() || queue_.look()); }
  /// Waits until it is durable, whatever the level of durability. False: the log has failed.
  bool wait(const queue::place& where) noexcept { return queue_.wait(where.sequence); }
  bool wait(std::uint64_t sequence) noexcept { return queue_.wait(sequence); }
  /// The last record whose commit a snapshot that was begun before this can see.
  [[nodiscard]] std::uint64_t visible() noexcept { return queue_.visible(); }
  /// Appends changes of rows that are no commit's, and waits until they are durable. Throws
  /// storage_error, std::bad_alloc.
  void write_alone(bytes_view changes);

  /// Ends the segment after all that was published so far; calls f() at that moment, which returns
  /// the time of a snapshot that it has begun, or 0. Where the log ends then. Throws storage_error
  /// if the log has failed; and this or std::bad_alloc if another segment could not be begun: then
  /// the log goes on as it was.
  template <class F>
  log_end cut(F&& f);

  /// The last record of what was published so far; calls f() at that moment as cut() does. The log
  /// goes on as it was.
  template <class F>
  std::uint64_t look_here(F&& f) noexcept {
    return queue_.look_here(std::forward<F>(f));
  }

  /// After a failure: takes a position behind all that was published, which no record has; calls
  /// f() at that moment as cut() does. Where a log can go on, of a history of its own; sequence 0:
  /// f() has returned 0. Throws what std::random_device does. One thread at a time, as the next.
  template <class F>
  log_end part_here(F&& f);
  /// What is before that position and in doubt, in ascending order. Throws std::bad_alloc.
  [[nodiscard]] resumed_commits in_doubt() const;
  /// Goes on after that position, up to which all is durable by now: the log has not failed any
  /// more then, and what was published since is durable, too. Throws storage_error, std::bad_alloc;
  /// the log has failed as before then.
  resumed_commits begin_again(const log_end& end, std::uint64_t origin);

  [[nodiscard]] std::uint64_t last() const noexcept { return queue_.last(); }
  /// Up to here, also after a failure.
  [[nodiscard]] std::uint64_t durable() const noexcept { return queue_.durable(); }
  [[nodiscard]] bool failed() const noexcept { return queue_.failed(); }
  /// Throws it, if the log has failed.
  void check() const;
  /// There was no room, or the log has failed: throws why.
  [[noreturn]] void throw_refusal();
  /// Why nothing can be appended; empty: it can.
  std::string why_not();
  void fill(log_stats& s) const noexcept;
  /// Of log that were written.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return writer_.bytes(); }

 private:
  static constexpr std::uint64_t most_queued = 32U << 20U;
  static constexpr std::uint64_t worth_a_flush = 256U << 10U;

  log_entry* begin_cut();
  [[nodiscard]] std::uint32_t another_chain() const;
  void run() noexcept;
  void ask_for_flush(bool now) noexcept;

  const engine& engine_;
  log_writer writer_;
  queue queue_{writer_, 0};
  const durability_level level_;
  const std::chrono::milliseconds window_;
  std::uint64_t window_ticks_ = 0;
  std::uint32_t epoch_ = 0;

  std::mutex flush_lock_;
  at_home<std::condition_variable> flush_wanted_;
  bool wanted_ = false;
  atomic<bool> hurry_{false};
  bool stop_ = false;
  at_home<std::thread> flusher_;
};

template <class F>
log_end journal::cut(F&& f) {
  log_entry* const e = begin_cut();
  cut_result done;
  e->cut = &done;
  queue::place where;
  queue_.cut(*e, where, std::forward<F>(f));
  if (!queue_.wait(where.sequence)) check();
  if (done.reason) throw storage_error(*done.reason);
  if (!done.begun) throw std::bad_alloc();
  return {epoch_, where.sequence, done.crc};
}

template <class F>
log_end journal::part_here(F&& f) {
  log_end end{.epoch = epoch_ + 1, .sequence = 0, .chain = another_chain()};
  writer_.leave_out(queue_.part_here(end.sequence, std::forward<F>(f)));
  if (end.sequence != 0) epoch_ = end.epoch;
  return end;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

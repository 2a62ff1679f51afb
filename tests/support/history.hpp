// SPDX-License-Identifier: Apache-2.0
/// \file
/// Recording what concurrent threads did to a structure, for the checkers in linearizability.hpp.
/// Each thread writes to its own lane, whose memory exists before the threads start: recording
/// takes no lock and allocates nothing.
///
///     map_recorder record(threads, operations_each);
///     // in thread t:
///     auto& lane = record.of(t);
///     lane.insert(key, value, [&] { return map.insert(key, value); });
///     lane.find(key, [&] { return map.find(key); });              // std::optional<value>
///     // after the threads were joined:
///     EXPECT_TRUE(accepted(check_map(record.events())));
///
/// An operation that throws is not recorded, so it must have had no effect. Keys and values are
/// 64-bit integers; a test of another type numbers its keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/stamp_clock.hpp"

namespace spolia::test {

/// replace: the key had the value `before`, and has `value`. take: it had `value`, and is gone.
enum class map_op : std::uint8_t { insert, insert_or_assign, erase, find, contains, replace, take };

/// One completed operation on a map. a precedes b in real time exactly if a.end < b.start.
struct map_event {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t key = 0;
  std::uint64_t value = 0;  ///< what insert and insert_or_assign wrote, what a successful find saw
  std::uint32_t thread = 0;
  map_op op = map_op::find;
  bool ok = false;  ///< inserted, erased, found, replaced, taken; false: the key was not as it must
  std::uint64_t before = 0;  ///< what a successful replace has seen
};

enum class bag_op : std::uint8_t { put, take };

/// One completed operation on a queue or stack: enqueue or push, dequeue or pop.
struct bag_event {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t value = 0;  ///< unique in the history: no two puts of the same value
  std::uint32_t thread = 0;
  bag_op op = bag_op::put;
  bool ok = true;  ///< false: a take that found nothing
};

/// One ordered scan over the closed range [low, high].
struct scan_event {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::uint32_t thread = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> shown;  ///< (key, value) as they came
};

/// Storage that never grows while threads run.
template <class Event>
class fixed_buffer {
 public:
  explicit fixed_buffer(std::size_t capacity) : events_(capacity) {}

  /// Called before the operation runs, so that none runs without being recorded.
  void require_room() const {
    if (full()) throw std::length_error("the history's lane is full");
  }
  [[nodiscard]] bool full() const noexcept { return used_ == events_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  void push(const Event& event) noexcept { events_[used_++] = event; }
  [[nodiscard]] const Event* begin() const noexcept { return events_.data(); }
  [[nodiscard]] const Event* end() const noexcept { return events_.data() + used_; }

 private:
  std::vector<Event> events_;
  std::size_t used_ = 0;
};

/// What one thread does to a map. Not thread-safe: one thread at a time.
class alignas(128) map_lane {
 public:
  /// `scan_room` is how many keys all scans of this lane may show together.
  map_lane(std::uint32_t thread, std::size_t capacity, std::size_t scan_room, stamp_clock clock)
      : clock_(clock),
        thread_(thread),
        events_(capacity),
        items_(scan_room),
        scans_(scan_room == 0 ? 0 : capacity) {}

  template <class F>
  bool insert(std::uint64_t key, std::uint64_t value, F&& f) {
    return note(map_op::insert, key, value, std::forward<F>(f));
  }
  template <class F>
  bool insert_or_assign(std::uint64_t key, std::uint64_t value, F&& f) {
    return note(map_op::insert_or_assign, key, value, std::forward<F>(f));
  }
  template <class F>
  bool erase(std::uint64_t key, F&& f) {
    return note(map_op::erase, key, 0, std::forward<F>(f));
  }
  template <class F>
  bool contains(std::uint64_t key, F&& f) {
    return note(map_op::contains, key, 0, std::forward<F>(f));
  }
  /// `f()` returns something like std::optional<value>.
  template <class F>
  std::optional<std::uint64_t> find(std::uint64_t key, F&& f) {
    events_.require_room();
    const std::uint64_t start = clock_.before();
    const auto found = std::forward<F>(f)();
    const std::uint64_t end = clock_.after();
    const bool ok = static_cast<bool>(found);
    const std::uint64_t value = ok ? static_cast<std::uint64_t>(*found) : 0;
    events_.push({start, end, key, value, thread_, map_op::find, ok, 0});
    return ok ? std::optional(value) : std::nullopt;
  }
  /// `f()` runs an update that goes by the value that there is, and returns what has become of it.
  struct change {
    map_op op;
    bool ok;
    std::uint64_t value = 0;
    std::uint64_t before = 0;
  };
  template <class F>
  void by_value(std::uint64_t key, F&& f) {
    events_.require_room();
    const std::uint64_t start = clock_.before();
    const change c = std::forward<F>(f)();
    const std::uint64_t end = clock_.after();
    events_.push({start, end, key, c.value, thread_, c.op, c.ok, c.before});
  }
  /// `f(show)` runs the scan and calls `show(key, value)` for each element.
  template <class F>
  void scan(std::uint64_t low, std::uint64_t high, F&& f) {
    scans_.require_room();
    const std::size_t first = items_.size();
    const std::uint64_t start = clock_.before();
    std::forward<F>(f)([this](std::uint64_t key, std::uint64_t value) {
      items_.require_room();
      items_.push({key, value});
    });
    const std::uint64_t end = clock_.after();
    scans_.push({start, end, low, high, first, items_.size()});
  }

  /// `f()` returns the first pair at `low` or after it, if there is any: as a scan shows it that
  /// ends there.
  template <class F>
  void nearest_up(std::uint64_t low, F&& f) {
    nearest(low, ~std::uint64_t{0}, &scan_record::high, std::forward<F>(f));
  }
  /// `f()` returns the last pair before `high` or at it.
  template <class F>
  void nearest_down(std::uint64_t high, F&& f) {
    nearest(0, high, &scan_record::low, std::forward<F>(f));
  }

  [[nodiscard]] bool full() const noexcept { return events_.full(); }
  void append_events(std::vector<map_event>& to) const {
    to.insert(to.end(), events_.begin(), events_.end());
  }
  void append_scans(std::vector<scan_event>& to) const {
    for (const scan_record& s : scans_) {
      to.push_back({s.start,
                    s.end,
                    s.low,
                    s.high,
                    thread_,
                    {items_.begin() + s.first, items_.begin() + s.last}});
    }
  }

 private:
  struct scan_record {
    std::uint64_t start, end, low, high;
    std::size_t first, last;  // its part of items_
  };

  template <class F>
  void nearest(std::uint64_t low, std::uint64_t high, std::uint64_t scan_record::* end_of_it,
               F&& f) {
    scans_.require_room();
    items_.require_room();
    scan_record s{clock_.before(), 0, low, high, items_.size(), items_.size()};
    const auto found = std::forward<F>(f)();
    s.end = clock_.after();
    if (found) {
      items_.push({found->first, found->second});
      s.*end_of_it = found->first;
      s.last = items_.size();
    }
    scans_.push(s);
  }

  template <class F>
  bool note(map_op op, std::uint64_t key, std::uint64_t value, F&& f) {
    events_.require_room();
    const std::uint64_t start = clock_.before();
    const bool ok = static_cast<bool>(std::forward<F>(f)());
    const std::uint64_t end = clock_.after();
    events_.push({start, end, key, value, thread_, op, ok, 0});
    return ok;
  }

  stamp_clock clock_;
  std::uint32_t thread_;
  fixed_buffer<map_event> events_;
  fixed_buffer<std::pair<std::uint64_t, std::uint64_t>> items_;
  fixed_buffer<scan_record> scans_;
};

/// What one thread does to a queue or stack. Not thread-safe: one thread at a time.
class alignas(128) bag_lane {
 public:
  bag_lane(std::uint32_t thread, std::size_t capacity, std::size_t, stamp_clock clock)
      : clock_(clock), thread_(thread), events_(capacity) {}

  template <class F>
  void put(std::uint64_t value, F&& f) {
    events_.require_room();
    const std::uint64_t start = clock_.before();
    std::forward<F>(f)();
    const std::uint64_t end = clock_.after();
    events_.push({start, end, value, thread_, bag_op::put, true});
  }
  /// `f()` returns something like std::optional<value>.
  template <class F>
  std::optional<std::uint64_t> take(F&& f) {
    events_.require_room();
    const std::uint64_t start = clock_.before();
    const auto taken = std::forward<F>(f)();
    const std::uint64_t end = clock_.after();
    const bool ok = static_cast<bool>(taken);
    const std::uint64_t value = ok ? static_cast<std::uint64_t>(*taken) : 0;
    events_.push({start, end, value, thread_, bag_op::take, ok});
    return ok ? std::optional(value) : std::nullopt;
  }

  [[nodiscard]] bool full() const noexcept { return events_.full(); }
  void append_events(std::vector<bag_event>& to) const {
    to.insert(to.end(), events_.begin(), events_.end());
  }

 private:
  stamp_clock clock_;
  std::uint32_t thread_;
  fixed_buffer<bag_event> events_;
};

/// The lanes of all threads. events() and scans() may be called once the threads were joined.
template <class Lane, class Event>
class recorder {
 public:
  recorder(std::size_t threads, std::size_t operations_each, std::size_t scan_room_each = 0,
           stamp_clock clock = {}) {
    lanes_.reserve(threads);
    for (std::size_t t = 0; t < threads; ++t) {
      lanes_.emplace_back(static_cast<std::uint32_t>(t), operations_each, scan_room_each, clock);
    }
  }

  [[nodiscard]] Lane& of(std::size_t thread) { return lanes_.at(thread); }

  [[nodiscard]] std::vector<Event> events() const {
    std::vector<Event> all;
    for (const Lane& lane : lanes_) lane.append_events(all);
    return all;
  }

  [[nodiscard]] std::vector<scan_event> scans() const
    requires requires(const Lane& lane, std::vector<scan_event>& to) { lane.append_scans(to); }
  {
    std::vector<scan_event> all;
    for (const Lane& lane : lanes_) lane.append_scans(all);
    return all;
  }

 private:
  std::vector<Lane> lanes_;
};

using map_recorder = recorder<map_lane, map_event>;
using bag_recorder = recorder<bag_lane, bag_event>;

}  // namespace spolia::test

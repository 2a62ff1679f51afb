// SPDX-License-Identifier: Apache-2.0
// snapshot.hpp: one instant of all structures of a timeline, or of several, for as long as you
// like.
//
//     const spolia::snapshot now;                             // of the process's own timeline
//     const spolia::snapshot now(time, "monthly report");     // or of another
//     const spolia::snapshot now({time, other}, "audit");     // or of several, with any clocks
//     table.at(session, now);  index.at(session, now);        // the same instant
//     std::thread([now = now.clone()] { ... });
//
// A snapshot is one announcement in the census and nothing else: it holds no guard, so it holds up
// only the versions that it can see, however long it lives. What it finds stays for as long as it
// lives, also without a guard.
// A snapshot of several timelines is one announcement in each, and one instant of all: there is a
// moment within the constructor's call such that it sees all that was done before, and nothing
// else. (With a hardware clock as far as that goes for one timeline; any_timeline.hpp has the
// proof.)
//
// Threads:     a snapshot may be moved to another thread and end there. Clones share the
//              announcement, which is withdrawn when the last of them ends. One object belongs to
//              one thread at a time. Snapshots may nest in any way, and updates may be made while
//              one is held.
// Errors:      the constructor throws std::bad_alloc, and then nothing was announced. clone() and
//              all else never fail.
// Cost:        an announcement (timeline.hpp) and a small block. clone(): a count. With several
//              timelines: for each an announcement and two reads of its clock, again if a clock has
//              moved meanwhile; updates do not wait.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/life.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/version/detail/any_timeline.hpp>
#include <spolia/version/timeline.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class snapshot;

namespace detail::version {
/// Text that may end before the snapshot that it would be the label of.
template <class S>
concept text_that_may_end = std::same_as<S, std::string> || std::same_as<S, std::string_view>;
/// What a compiler says where such a one is given.
struct a_label_is_a_literal_since_it_stays_as_long_as_the_snapshot {};

/// Whether the snapshot and its clones have all ended.
life::witness witness_of(const snapshot& s) noexcept;
}  // namespace detail::version

class snapshot {
 public:
  /// The present instant of `time`, which must outlive the snapshot. The label shows in the census
  /// and in accounts, which have the pointer: it must live as long as the snapshot and as they are
  /// read (a string literal).
  template <class Timeline>
    requires requires(Timeline& time, const char* label) { time.announce(label); }
  explicit snapshot(Timeline& time, const char* label = nullptr) : shared_(make(1)) {
    try {
      shared_->first = {&time, time.announce(named(label))};
    } catch (...) {
      end(shared_);
      throw;
    }
  }
  template <class Timeline, detail::version::text_that_may_end S>
  snapshot(Timeline&, const S&,
           detail::version::a_label_is_a_literal_since_it_stays_as_long_as_the_snapshot = {}) =
      delete;
  /// The present instant of all structures that were not given their own timeline.
  explicit snapshot(const char* label = nullptr) : snapshot(default_timeline(), label) {}
  template <detail::version::text_that_may_end S>
  explicit snapshot(
      const S&,
      detail::version::a_label_is_a_literal_since_it_stays_as_long_as_the_snapshot = {}) = delete;
  /// One present instant of all these timelines, which must outlive it; none() if there are none.
  explicit snapshot(std::span<const any_timeline> times, const char* label = nullptr)
      : shared_(of_several(times, named(label))) {}
  explicit snapshot(std::initializer_list<any_timeline> times, const char* label = nullptr)
      : snapshot(std::span(times.begin(), times.size()), label) {}
  snapshot(snapshot&& from) noexcept : shared_(std::exchange(from.shared_, nullptr)) {}
  snapshot& operator=(snapshot&& from) noexcept {
    if (this != &from) {
      withdraw();
      shared_ = std::exchange(from.shared_, nullptr);
    }
    return *this;
  }
  ~snapshot() { withdraw(); }

  /// The same instant, independently.
  ///
  /// A second announcement would not do: a scan might read its slot before it is there, and the
  /// first one's slot after that was withdrawn.
  [[nodiscard]] snapshot clone() const noexcept {
    if (shared_ != nullptr) shared_->holders.fetch_add_relaxed(1);
    return snapshot(shared_);
  }

  /// No instant at all, as of a snapshot that was moved from.
  [[nodiscard]] static snapshot none() noexcept { return snapshot(static_cast<shared*>(nullptr)); }

  /// Ends the protection early.
  void withdraw() noexcept {
    shared* const mine = std::exchange(shared_, nullptr);
    if (mine == nullptr) return;
    // release → acquire: what each clone has read happens before the withdrawal. Without it a
    // version could be freed while a clone on another thread still reads it.
    const bool last = SPOLIA_FAULT("snapshot.relaxed_end")
                          ? mine->holders.fetch_sub_relaxed(1) == 1
                          : mine->holders.fetch_sub_acq_rel(1) == 1;
    if (last) end(mine);
  }

  /// False if it was moved from or withdrawn.
  [[nodiscard]] explicit operator bool() const noexcept { return shared_ != nullptr; }
  /// Its timestamp: that of its timeline, of the first if there are several.
  [[nodiscard]] std::uint64_t timestamp() const noexcept {
    return shared_->first.ticket.timestamp();
  }
  /// Its timestamp of `time`, to which it must belong.
  template <class Timeline>
  [[nodiscard]] std::uint64_t timestamp(const Timeline& time) const noexcept {
    return in(&time)->ticket.timestamp();
  }
  /// Whether it is an instant of `time`.
  template <class Timeline>
  [[nodiscard]] bool belongs_to(const Timeline& time) const noexcept {
    return shared_ != nullptr && in(&time) != nullptr;
  }

 private:
  friend detail::life::witness detail::version::witness_of(const snapshot& s) noexcept;

  /// Its announcement in one timeline.
  struct part {
    const void* time = nullptr;
    census::ticket ticket{};
  };
  struct shared {
    explicit shared(std::size_t n) noexcept : parts(n) {}
    const std::size_t parts;
    part first{};
    part* more = nullptr;  // after this, all but the first
    atomic<std::uint64_t> holders{1};
    [[no_unique_address]] detail::life alive;
  };
  static_assert(sizeof(shared) % alignof(part) == 0);

  /// The census notes the time of those only that have a label.
  static const char* named(const char* label) noexcept {
    return label == nullptr ? "snapshot" : label;
  }

  explicit snapshot(shared* s) noexcept : shared_(s) {}

  static std::size_t bytes(std::size_t parts) noexcept {
    return sizeof(shared) + (parts - 1) * sizeof(part);
  }
  static shared* make(std::size_t parts) {
    auto* const room = static_cast<char*>(memory::allocate(bytes(parts), alignof(shared)));
    auto* const s = ::new (room) shared(parts);
    if (parts > 1) s->more = ::new (room + sizeof(shared)) part[parts - 1];
    return s;
  }
  static void end(shared* s) noexcept {
    const std::size_t size = bytes(s->parts);
    std::destroy_n(s->more, s->parts - 1);
    s->~shared();
    memory::deallocate(s, size, alignof(shared));
  }

  static shared* of_several(std::span<const any_timeline> times, const char* label) {
    std::vector<any_timeline> all;
    for (const any_timeline& t : times) {
      if (std::ranges::find(all, t) == all.end()) all.push_back(t);
    }
    if (all.empty()) return nullptr;
    detail::version::meeting m(all, label);
    shared* const s = make(all.size());
    s->first = {all[0].identity(), m.take(0)};
    for (std::size_t i = 1; i < all.size(); ++i) s->more[i - 1] = {all[i].identity(), m.take(i)};
    return s;
  }

  const part* in(const void* time) const noexcept {
    if (shared_->first.time == time) [[likely]]
      return &shared_->first;
    return among_more(time);
  }
  SPOLIA_NOINLINE const part* among_more(const void* time) const noexcept {
    for (std::size_t i = 1; i < shared_->parts; ++i) {
      if (shared_->more[i - 1].time == time) return &shared_->more[i - 1];
    }
    return nullptr;
  }

  shared* shared_;
};

namespace detail::version {
inline life::witness witness_of(const snapshot& s) noexcept {
  return s.shared_ == nullptr ? life::witness() : life::witness(s.shared_->alive);
}
}  // namespace detail::version

}  // namespace spolia::inline SPOLIA_FLAVOUR

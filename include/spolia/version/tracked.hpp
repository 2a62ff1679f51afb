// SPDX-License-Identifier: Apache-2.0
// tracked.hpp: what every version carries to be found obsolete: when it began, when it ended, and
// the links of the list in which it waits for that. Nothing is allocated when a version ends.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// The stamp of a version that was appended a moment ago. Larger than every timestamp, so that a
/// reader that meets it by mistake passes on to an older version.
inline constexpr std::uint64_t no_stamp = ~std::uint64_t{0};

/// A version is current from `since` on and before `until`: a snapshot at time t sees it if and
/// only if since <= t < until. `until`, `next` and `next_list` belong to the thread that holds the
/// list.
struct tracked {
  atomic<std::uint64_t> since{no_stamp};
  plain<std::uint64_t> until{no_stamp};
  plain<tracked*> next{nullptr};
  plain<tracked*> next_list{nullptr};
};

/// Ended versions, by the time when they ended. Owned by one thread at a time; every operation
/// takes constant time. Does not own the versions.
class tracked_list {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_.read() == nullptr; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_.read(); }
  [[nodiscard]] tracked* front() const noexcept { return first_.read(); }
  /// When the last one ended; 0 if there is none.
  [[nodiscard]] std::uint64_t latest() const noexcept {
    return empty() ? 0 : last_.read()->until.read();
  }

  void push(tracked* t) noexcept {
    t->next.write(nullptr);
    if (empty()) {
      first_.write(t);
    } else {
      last_.read()->next.write(t);
    }
    last_.write(t);
    count_.write(count() + 1);
  }

  tracked* pop() noexcept {
    tracked* const t = front();
    if (t == nullptr) return nullptr;
    first_.write(t->next.read());
    count_.write(count() - 1);
    return t;
  }

  /// Gives the whole list away, as its first element (null: it was empty).
  tracked* release() noexcept {
    tracked* const all = front();
    forget();
    return all;
  }
  void forget() noexcept {
    first_.write(nullptr);
    last_.write(nullptr);
    count_.write(0);
  }

 private:
  plain<tracked*> first_{nullptr};
  plain<tracked*> last_{nullptr};
  plain<std::uint64_t> count_{0};
};

/// Which snapshots have ended so far though an older one had not, as scans have found it: what one
/// of them alone has needed ended after its time, and nothing that ended before can go on account
/// of it. Of those that ended one after the other the oldest counts. If there are many runs, two
/// that follow each other count as one, the longer ago the rather: who last asked some time ago
/// looks back little more than twice as far.
class ended_times {
 public:
  /// Found by a scan with this `known`, which does not fall.
  void note(std::uint64_t known, std::uint64_t time) noexcept {
    while (count_ != 0 && last_[count_ - 1].time >= time) --count_;
    if (count_ == last_.size()) join_two(known);
    last_[count_++] = {known, time};
  }
  /// The oldest of those that scans have found whose `known` was this or more; if there is none, as
  /// large as can be.
  [[nodiscard]] std::uint64_t oldest_since(std::uint64_t known) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (last_[i].known >= known) return last_[i].time;
    }
    return ~std::uint64_t{0};
  }

 private:
  struct found {
    std::uint64_t known;
    std::uint64_t time;
  };

  /// Those that as one are the shortest, compared to how long ago they began.
  void join_two(std::uint64_t now) noexcept {
    std::size_t at = 1;
    double least = 2;
    for (std::size_t i = 1; i < count_; ++i) {
      const auto ago = static_cast<double>(now - last_[i - 1].time);
      const double share = static_cast<double>(last_[i].known - last_[i - 1].time) / ago;
      if (share < least) at = i;
      least = (std::min)(least, share);
    }
    last_[at].time = last_[at - 1].time;
    std::move(last_.begin() + static_cast<std::ptrdiff_t>(at), last_.end(),
              last_.begin() + static_cast<std::ptrdiff_t>(at - 1));
    --count_;
  }
  // By both, from the smallest to the largest.
  std::array<found, 16> last_{};
  std::size_t count_ = 0;
};

/// What a scan of the census has found: every snapshot below `known`, now or to come, has one of
/// `times`, which ascend.
struct scan_times {
  std::uint64_t known = 0;
  std::vector<std::uint64_t> times;
  ended_times ended{};
  std::size_t looked_at = 0;  ///< slots, for it

  /// For how many versions such a scan is worth its while: then it costs each of them about as much
  /// as a look at one version. A time is sorted, and copied a few times; a slot is looked at.
  [[nodiscard]] std::uint64_t is_worth() const noexcept {
    return times.size() / 4 + looked_at / 32;
  }

  /// Whether a snapshot sees a version that was current from `since` on and before `until`, a time
  /// that is known.
  [[nodiscard]] bool see(std::uint64_t since, std::uint64_t until) const noexcept {
    if (times.empty() || times.back() < since) return false;
    const auto first = std::lower_bound(times.begin(), times.end(), since);
    return first != times.end() && *first < until;
  }

  /// No snapshot, now or to come, has a time below this.
  [[nodiscard]] std::uint64_t least() const noexcept {
    return times.empty() ? known : (std::min)(known, times.front());
  }
};

/// Walks down the announced times together with a list of versions, from the newest to the oldest.
class time_cursor {
 public:
  explicit time_cursor(const scan_times& of) noexcept : of_(&of), left_(of.times.size()) {}

  /// Forgets the times at or above `stamp`: in O(log) of how many these are. False: that were all.
  bool pass(std::uint64_t stamp) noexcept {
    std::size_t step = 1;
    for (; left_ >= step && of_->times[left_ - step] >= stamp; step *= 2) left_ -= step;
    const auto end = of_->times.begin() + static_cast<std::ptrdiff_t>(left_);
    const auto first = end - static_cast<std::ptrdiff_t>((std::min)(step, left_));
    left_ = static_cast<std::size_t>(std::lower_bound(first, end, stamp) - of_->times.begin());
    return left_ != 0;
  }
  /// Whether a time that is left is at or above `stamp`: then the version with that stamp, being
  /// the newest below the stamps passed, is what a snapshot at that time sees.
  [[nodiscard]] bool any_from(std::uint64_t stamp) const noexcept {
    return left_ != 0 && of_->times[left_ - 1] >= stamp;
  }

 private:
  const scan_times* of_;
  std::size_t left_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

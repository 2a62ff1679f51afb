// SPDX-License-Identifier: Apache-2.0
// shared_budget.hpp: one budget for what waits in several domains.
//
//     spolia::shared_budget all(256 << 20, [](const spolia::shared_budget::passed& now) {
//       for (const auto& share : now.shares) log(share.label, share.garbage_bytes);
//     });
//     spolia::domain<> orders({.shared = &all, .label = "orders"});
//     spolia::domain<> prices({.shared = &all, .label = "prices"});
//
// Each domain says what waits in it when it looks at its budget; the sum of what all have said last
// is compared with the limit. Only when that is passed are all of them asked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/detail/pins.hpp>
#include <spolia/reclaim/detail/strays.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// Lives longer than the domains that are given it, of any schemes and policies.
///
/// Thread safety: any thread may call anything. A domain that passes the budget, or goes, may wait
/// until another one has asked all of them: a look at each thread of each domain.
/// Memory: fixed; the function's report takes a few words for each domain and pin.
class shared_budget final : private threads::listener {
 public:
  /// What waits in one domain.
  struct share {
    const char* label = nullptr;  ///< domain::options::label
    std::uint64_t garbage_bytes = 0;
    std::uint64_t garbage_blocks = 0;
    std::vector<pin> pins;  ///< as over_budget::pins
  };
  struct passed {
    std::uint64_t budget_bytes;
    std::uint64_t garbage_bytes;
    std::vector<share> shares;  ///< the most bytes first; fewer if there was no memory for it
  };

  /// `f` is called when more than `bytes` wait in all domains together; once, until less than half
  /// of it waits. As domain::options::over_budget it runs on the thread that notices, between two
  /// of its operations; it may use the domains and drain them, must not throw, and should not take
  /// long.
  shared_budget(std::uint64_t bytes, std::function<void(const passed&)> f)
      : bytes_(bytes), passed_(std::move(f)) {
    threads::listen(*this);
  }
  shared_budget(const shared_budget&) = delete;
  shared_budget& operator=(const shared_budget&) = delete;
  ~shared_budget() { threads::unlisten(*this); }

  std::uint64_t bytes() const noexcept { return bytes_; }
  /// What waits in all domains, as they have said last.
  std::uint64_t garbage_bytes() const noexcept { return said_.load_relaxed(); }

  /// A domain's part. For domains only.
  class member {
   protected:
    member() = default;
    member(const member&) = delete;
    member& operator=(const member&) = delete;
    virtual ~member() = default;  // not that it is ended by this

   private:
    friend shared_budget;
    virtual std::uint64_t waiting_bytes() const noexcept = 0;
    /// Throws std::bad_alloc.
    virtual share describe() = 0;

    member* next_ = nullptr;
    atomic<std::uint64_t> said_{0};
  };

  void join(member& m) noexcept {
    lock_.lock();
    m.next_ = first_;
    fence::for_forks();  // a child finds the list without it, or with it
    first_ = &m;
    lock_.unlock();
  }
  void leave(member& m) noexcept {
    lock_.lock();
    member** at = &first_;
    while (*at != &m) at = &(*at)->next_;
    *at = m.next_;
    lock_.unlock();
    say(m, 0);
  }

  void say(member& m, std::uint64_t bytes) noexcept {
    const std::uint64_t before = m.said_.exchange_relaxed(bytes);
    said_.fetch_add_relaxed(bytes - before);
  }
  /// Between two operations of a domain, in which so many bytes wait.
  void look(member& m, std::uint64_t bytes) noexcept {
    say(m, bytes);
    const std::uint64_t now = garbage_bytes();
    if (now <= bytes_ / 2) over_.store_relaxed(false);
    if (now <= bytes_ || over_.load_relaxed()) return;
    passed report{bytes_, 0, {}};
    lock_.lock();
    for (member* each = first_; each != nullptr; each = each->next_) {
      say(*each, each->waiting_bytes());
    }
    report.garbage_bytes = garbage_bytes();
    const bool tells = report.garbage_bytes > bytes_ && !over_.exchange_relaxed(true);
    if (tells) describe(report);
    lock_.unlock();
    if (!tells) return;
    passed_(report);
    // It may have drained them: then the next time is another one.
    if (garbage_bytes() <= bytes_ / 2) over_.store_relaxed(false);
  }

 private:
  void describe(passed& report) noexcept {
    try {
      for (member* each = first_; each != nullptr; each = each->next_) {
        report.shares.push_back(each->describe());
      }
    } catch (const std::bad_alloc&) {  // then without the others
    }
    std::sort(report.shares.begin(), report.shares.end(),
              [](const share& a, const share& b) { return a.garbage_bytes > b.garbage_bytes; });
  }

  void thread_left(std::uint32_t) noexcept override {}
  void thread_lost(std::uint32_t) noexcept override {}
  /// In a fork's child: the thread that held it may be gone. It has changed one link at most. And
  /// what a domain has said last may not have come to the sum.
  void forked() noexcept override {
    lock_.break_open();
    std::uint64_t sum = 0;
    for (const member* each = first_; each != nullptr; each = each->next_) {
      sum += each->said_.load_relaxed();
    }
    said_.store_relaxed(sum);
    over_.store_relaxed(false);
  }

  const std::uint64_t bytes_;
  const std::function<void(const passed&)> passed_;
  detail::reclaim::rare_lock lock_;  // of the list
  member* first_ = nullptr;
  atomic<std::uint64_t> said_{0};
  atomic<bool> over_{false};  // the budget, and that has been said
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
/// \file
/// An announcement that is made in steps, by a thread that announces in several censuses at one
/// instant (version/detail/any_timeline.hpp). census.hpp says what the steps do.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class census_draft {
 public:
  /// Announces nothing yet. \throws std::bad_alloc
  census_draft(census& in, const char* label) : order_(in.order_) {
    detail::census_slot& s = in.take();
    s.describe(label);
    ticket_ = census::ticket(&s, 0);
  }

  /// Announces a time of `clock`, or that there will be one. May be called again: nothing relies on
  /// the earlier time yet.
  template <timestamp_clock Clock>
  void propose(const Clock& clock) noexcept {
    auto& stamp = ticket_.slot_->stamp();
    const std::uint64_t t = clock.now();
    // Both release, for what stood here before: see census::complete().
    if constexpr (Clock::advances_alone) {
      seen_ = ticket_.slot_->open(stamp, t);
    } else {
      stamp.store_release(seen_ = t);
    }
    order_();  // ↔ the one in census::visit(): see "Why no ticket is missed"
  }

  /// What the time is: `t`, which was read after propose(), unless a scan has completed the
  /// announcement.
  template <timestamp_clock Clock>
  std::uint64_t complete(std::uint64_t t) noexcept {
    if constexpr (Clock::advances_alone) {
      // acq_rel, as in census::complete().
      if (ticket_.slot_->stamp().cas_strong_acq_rel(seen_, t)) seen_ = t;
    }
    return ticket_.timestamp_ = seen_;
  }
  template <timestamp_clock Clock>
  [[deprecated("it is called complete()")]] std::uint64_t settle(std::uint64_t t) noexcept {
    return complete<Clock>(t);
  }

  [[nodiscard]] census::ticket finish() noexcept { return std::move(ticket_); }

 private:
  census::ticket ticket_;
  std::uint64_t seen_ = 0;  // in the slot
  fence::frequent order_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

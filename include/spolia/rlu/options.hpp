// SPDX-License-Identifier: Apache-2.0
// options.hpp: the options of a read-log-update domain, and its statistics.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

/// Thrown by domain::update when a section finds its thread's log at its cap again and again.
class log_full : public std::bad_alloc {
 public:
  [[nodiscard]] const char* what() const noexcept override {
    return "rlu: a thread's log has reached its cap, and sections that are alive need what it "
           "holds";
  }
};

/// Bytes are those of one thread's log. Where a fast-path check is enough in place of a scan of the
/// census (online_state.hpp), a sweep begins at a sixteenth of low_watermark or walk_watermark.
struct options {
  std::uint32_t segment_bytes = 16384;   ///< what a log grows by in the end; cap / 4 at most
  std::size_t low_watermark = 32768;     ///< written since the last sweep bring one on
  std::size_t high_watermark = 1048576;  ///< from here on other threads help
  std::size_t log_cap = std::size_t{64} << 20U;  ///< a section that would go beyond starts over
  std::uint32_t walk_watermark = 4096;           ///< reads that met copies bring a sweep on, too
  /// While sections of threads that were interrupted hold much up, each thread gives its processor
  /// away after so many microseconds, between two sections, and once at once for each such section
  /// that it meets; 0: never. See reclaim/courtesy.hpp (voluntary yields).
  std::uint32_t turn_us = 300;
  /// A thread that has the domain to itself changes objects where they are: see exclusive_mode.hpp.
  bool in_place = true;
  std::uint32_t tries_when_full = 200;  ///< of update, with pauses, before log_full
};

/// Sums over all threads; approximate while they work.
struct statistics {
  std::uint64_t commits = 0;           ///< sections that wrote
  std::uint64_t conflicts = 0;         ///< sections that started over
  std::uint64_t walks = 0;             ///< reads of objects that had copies
  std::uint64_t written_back = 0;      ///< copies
  std::uint64_t waiting = 0;           ///< copies that the last sweeps had to leave
  std::uint64_t passes = 0;            ///< over logs; each has found out which sections there are
  std::uint64_t log_bytes = 0;         ///< in all logs
  std::uint64_t retired_segments = 0;  ///< that wait for readers in the middle of a walk
  std::uint64_t retired_bytes = 0;     ///< theirs
  std::uint64_t freed_bytes = 0;       ///< of large objects that wait, with what they own
  std::uint64_t turns = 0;             ///< that threads have given away, see options::turn_us
};

namespace detail {

/// Segments are few and large. A sweep has some guards for each, and each that waits is one more
/// that the caches have to hold; so epochs are short, which costs no fence while all threads go on.
template <class Blocks>
auto options_of_blocks() noexcept {
  typename Blocks::options o{};
#if !defined(SPOLIA_MODEL)  // whose small scenarios end an epoch by draining
  if constexpr (requires { o.scheme.hasty_from; }) {
    o.scheme.scan_every = 2;
    o.scheme.hasty_looks = 5;
    o.scheme.hasty_from = 4;
  }
#endif
  return o;
}

/// How much longer a time slice may last because other processes have the processor: two of their
/// time slices. Without time slices reads meet copies at every step, which costs more than these.
inline constexpr std::uint32_t forgiven_us = 10000;

inline options checked(options o) {
  if (o.segment_bytes == 0 || o.segment_bytes > (1U << 30U)) {
    throw std::invalid_argument("rlu: segment_bytes must be from 1 to 2^30");
  }
  if (o.low_watermark == 0 || o.walk_watermark == 0) {
    throw std::invalid_argument("rlu: low_watermark and walk_watermark must be at least 1");
  }
  // Less under a small cap: else no record would ever have room.
  o.segment_bytes =
      static_cast<std::uint32_t>(std::min<std::size_t>(o.segment_bytes, o.log_cap / 4));
  return o;
}

}  // namespace detail
}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// write_set.hpp: the results of a section: its outcome, the objects that it has made, its counts.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

/// The state of a section, or how it has ended.
enum class outcome : std::uint8_t {
  committed,  ///< or not doomed yet
  conflict,   ///< another section was faster, or the user asked for another try
  cancelled,  ///< by the user
  log_full    ///< the thread's log has reached its cap
};

namespace detail {

/// An object that the section has made.
struct fresh_object {
  object* made;
  const object_kind* how;
  bool dropped;  // freed again
};

/// What is added to a counter if the section commits.
struct count_on_commit {
  tally* to = nullptr;
  std::uint64_t n = 0;
};

}  // namespace detail
}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR

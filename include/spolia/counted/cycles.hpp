// SPDX-License-Identifier: Apache-2.0
/// \file
/// Finds cycles of counted pointers, which never end by themselves, names their types, and ends
/// them if you like: among objects of types that can name their children (traced.hpp).
///
///     const spolia::counted::cycle_report lost = spolia::counted::find_cycles();
///     for (const auto& [type, objects] : lost.types) {
///       std::printf("%zu %s\n", objects, type.c_str());
///     }
///     spolia::counted::end_cycles();
///
/// Source:      Bacon and Rajan, "Concurrent cycle collection in reference counted systems", ECOOP
///              2001, section 3 (synchronous): an object is garbage if all references to it lie in
///              other objects, and no object with a reference from elsewhere leads to it.
/// Departures:
///   1. All traced objects are read, not only candidates whose count went down without becoming 0:
///      so counting stays as cheap as it is.
///   2. What private pointers name is held.
///   3. To end a cycle, the pointers within it become null, and then its objects end as all others
///      do. So destructors find no pointers to objects that have ended.
/// Bound:       time linear in the number of traced objects and their pointers, and about 64 bytes
///              an object meanwhile.
/// Thread safety: both functions drain first, so destructors may run. Meanwhile no other thread may
///              use pointers to traced objects; other pointers may be used freely.
/// Errors:      std::bad_alloc, and what each_child throws. Then find_cycles has changed nothing;
///              end_cycles may have made some pointers within cycles null.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/counted/traced.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// Objects to which nothing leads from outside: those of cycles, and those to which only cycles
/// lead.
struct cycle_report {
  std::size_t objects = 0;
  std::size_t bytes = 0;                                   ///< of the objects alone
  std::vector<std::pair<std::string, std::size_t>> types;  ///< most objects first
};

#if !defined(SPOLIA_MODEL)
SPOLIA_EXPORT cycle_report look_for_cycles(bool end);
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted {

using core::cycle_report;

#if !defined(SPOLIA_MODEL)
/// Changes nothing.
[[nodiscard]] inline cycle_report find_cycles() { return core::look_for_cycles(false); }
/// Says what it has ended.
inline cycle_report end_cycles() { return core::look_for_cycles(true); }
#endif

}  // namespace counted
}  // namespace spolia::inline SPOLIA_FLAVOUR

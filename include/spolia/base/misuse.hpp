// SPDX-License-Identifier: Apache-2.0
// misuse.hpp: what happens when a user breaks a precondition that can be checked.
//
// In the checked build variant the mistake is named on standard error and the process aborts; a
// program may install its own handler (tests do). The native variant does not check: report() is
// then nothing.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#if defined(SPOLIA_MODEL)
#include <spolia/model/engine.hpp>
#endif

namespace spolia::core {
/// Hears of a mistake; may return, then the mistaken call does nothing, or as little as it can.
using misuse_handler = void (*)(const char* what, std::uint32_t thread);
/// Installs a handler for the whole process and returns the one before; null restores the default.
SPOLIA_EXPORT misuse_handler set_misuse_handler(misuse_handler) noexcept;
SPOLIA_EXPORT void report_misuse(const char* what, std::uint32_t thread) noexcept;
/// A number no other caller in this process gets.
SPOLIA_EXPORT std::uint64_t next_serial() noexcept;
}  // namespace spolia::core

namespace spolia::inline SPOLIA_FLAVOUR {
namespace misuse {

inline void report([[maybe_unused]] const char* what,
                   [[maybe_unused]] std::uint32_t thread) noexcept {
#if defined(SPOLIA_MODEL)
  model::check(false, what);
#elif SPOLIA_CHECKS
  core::report_misuse(what, thread);
#endif
}

}  // namespace misuse
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// misuse.hpp: what happens when a user breaks a precondition that can be checked.
//
// In the checked build variant the mistake is named on standard error and the process aborts; a
// program may install its own handler (tests do). The native variant does not check: report() is
// then nothing. What would write over memory of others, and can be told at no cost, is reported in
// every variant: a thing that two copies of the library share.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#if defined(SPOLIA_MODEL)
#include <spolia/model/engine.hpp>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {
/// Hears of a mistake; may return, then the mistaken call does nothing, or as little as it can.
using misuse_handler = void (*)(const char* what, std::uint32_t thread);
/// Installs a handler for the whole process and returns the one before; null restores the default.
SPOLIA_EXPORT misuse_handler set_misuse_handler(misuse_handler) noexcept;
SPOLIA_EXPORT void report_misuse(const char* what, std::uint32_t thread) noexcept;
/// A number no other caller in this process gets, whichever copy of the library it is linked with.
SPOLIA_EXPORT std::uint64_t next_serial() noexcept;
/// Where it lies tells which copy of the library the code that asks is linked with.
extern SPOLIA_EXPORT SPOLIA_NO_COPY const char copy_mark;
#if !defined(SPOLIA_MODEL)
/// Reports it, and throws std::logic_error if the handler returns.
[[noreturn]] SPOLIA_EXPORT void report_other_copy(const char* what);
#endif
}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace misuse {

/// Kept by what only one copy of the library may use: two static copies in one process, as of two
/// plugins, do not know of each other's threads.
class copy_of_the_library {
 public:
#if defined(SPOLIA_MODEL)
  constexpr void expect_own(const char*) const noexcept {}
#else
  /// `what` names the thing in a sentence about it. Costs a load and a comparison.
  void expect_own(const char* what) const {
    if (mark_ != &core::copy_mark) [[unlikely]]
      core::report_other_copy(what);
  }

 private:
  const char* mark_ = &core::copy_mark;
#endif
};

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

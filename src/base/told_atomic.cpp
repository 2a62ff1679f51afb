// SPDX-License-Identifier: Apache-2.0
#include <spolia/base/config.hpp>

#if SPOLIA_VALGRIND
#include <spolia/base/told_atomic.hpp>

#include <valgrind/helgrind.h>

namespace spolia::core::inline SPOLIA_OF_VERSION {

void tell_release(const void* place) noexcept { ANNOTATE_HAPPENS_BEFORE(place); }

void tell_acquire(const void* place) noexcept { ANNOTATE_HAPPENS_AFTER(place); }

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
#endif

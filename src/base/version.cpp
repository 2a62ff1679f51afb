// SPDX-License-Identifier: Apache-2.0
#include <spolia/version.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

const char* version() noexcept { return SPOLIA_VERSION_STRING; }

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

// SPDX-License-Identifier: Apache-2.0
// The plugin in the native build variant, whatever the rest of the tests is compiled in.
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 0
#include "users/tenant_part.hpp"

// SPDX-License-Identifier: Apache-2.0
// The native build variant, whatever the rest of the program is compiled in.
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 0
#define SPOLIA_TEST_FLAVOUR native_part
#include "standard/flavour_part.hpp"

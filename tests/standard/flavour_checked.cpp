// SPDX-License-Identifier: Apache-2.0
// The checked build variant, whatever the rest of the program is compiled in.
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 1
#define SPOLIA_TEST_FLAVOUR checked_part
#include "standard/flavour_part.hpp"

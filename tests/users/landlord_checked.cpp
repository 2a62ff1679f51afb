// SPDX-License-Identifier: Apache-2.0
// The program's part in the checked build variant.
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 1
#define SPOLIA_TEST_LANDLORD checked_landlord
#include "users/landlord_part.hpp"

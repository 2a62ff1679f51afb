// SPDX-License-Identifier: Apache-2.0
// The program's part in the native build variant.
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 0
#define SPOLIA_TEST_LANDLORD native_landlord
#include "users/landlord_part.hpp"

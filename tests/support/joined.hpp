// SPDX-License-Identifier: Apache-2.0
/// \file
/// Programs of several tests (cmake/joined.cmake): which case belongs to which test. SPOLIA_TEST in
/// the environment names the one to run; without it all are run.
#pragma once

namespace spolia::test {

/// From here on, until the next one of these is made, cases belong to this test of ctest.
struct begins {
  begins(const char* test, const char* source);
};

}  // namespace spolia::test

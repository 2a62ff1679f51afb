// SPDX-License-Identifier: Apache-2.0
// The functions of flavour_part.hpp, in each build variant.
#pragma once

#include <cstdint>

#define SPOLIA_TEST_PART(name) \
  namespace name {             \
  void open_region();          \
  void close_region();         \
  bool readers_are_gone();     \
  void retire_one();           \
  std::uint64_t waiting();     \
  bool clean_up();             \
  }
SPOLIA_TEST_PART(native_part)
SPOLIA_TEST_PART(checked_part)

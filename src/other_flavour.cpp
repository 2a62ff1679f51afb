// SPDX-License-Identifier: Apache-2.0
// other_flavour.cpp: what a process has one of in each build variant, for the variant that the
// library itself is not compiled in.
#include "other_flavour.hpp"

#include "version/timeline.cpp"

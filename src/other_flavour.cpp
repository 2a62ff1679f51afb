// SPDX-License-Identifier: Apache-2.0
// other_flavour.cpp: what a process has one of in each flavour, in the one that the library itself
// is not compiled in.
#include "other_flavour.hpp"

#include "version/timeline.cpp"

// SPDX-License-Identifier: Apache-2.0
// A domain of blocks at the first place, where a domain of logs has its clock.
// refused: the first argument of a domain is its clock
#include <spolia/rlu.hpp>

#if defined(REFUSED)
using own = spolia::rlu::basic_domain<spolia::domain<spolia::debra, spolia::batch>>;
#else
using own = spolia::rlu::basic_domain<spolia::logical_clock>;
#endif

void collect(own& all) { all.collect(); }

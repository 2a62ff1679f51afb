// SPDX-License-Identifier: Apache-2.0
// Uses what a version of the library has one of in a process, and says whether that is of its
// headers' version.
#include <cstdio>
#include <cstring>

#include <spolia/rcu.hpp>
#include <spolia/snapshot.hpp>
#include <spolia/version.hpp>

extern "C" const void* PART() {
  const char* const library = spolia::core::version();
  std::printf("headers %s, library %s\n", SPOLIA_VERSION_STRING, library);
  spolia::rcu_retire(new int(1));
  spolia::rcu_barrier();
  const spolia::snapshot now;
  const bool same = std::strcmp(library, SPOLIA_VERSION_STRING) == 0;
  return same ? static_cast<const void*>(&spolia::default_timeline()) : nullptr;
}

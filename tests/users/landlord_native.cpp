// SPDX-License-Identifier: Apache-2.0
// The program's part in the native build variant.
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 0
#define SPOLIA_TEST_LANDLORD native_landlord
#include "users/landlord_part.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

void native_reloads(const char* path, int times) {
  using namespace spolia::test;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<void*> places;
  for (int i = 0; i < times; ++i) {
    void* const plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << dlerror();
    const auto* const does = static_cast<const tenant*>(dlsym(plugin, "tenant_functions"));
    ASSERT_NE(does, nullptr) << dlerror();
    const auto code = reinterpret_cast<std::uintptr_t>(does->use_kinds);
    ASSERT_NO_THROW(does->use_kinds(most_kinds)) << i;
    while (!spolia::counted::drain()) continue;
    ASSERT_EQ(dlclose(plugin), 0);
    ASSERT_EQ(dlopen(path, RTLD_NOW | RTLD_NOLOAD), nullptr) << "the test needs it to be gone";
    // No other may come to this place.
    places.push_back(mmap(reinterpret_cast<void*>(code - code % page), page, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  }
  for (void* place : places) {
    if (place != MAP_FAILED) munmap(place, page);
  }
}

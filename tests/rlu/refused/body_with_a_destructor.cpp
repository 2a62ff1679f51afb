// SPDX-License-Identifier: Apache-2.0
// Bodies are copied and written over, and need no destructor. What does lies in the fixed part.
// refused: rlu: bodies
#include <spolia/rlu.hpp>

#include <string>

#if defined(REFUSED)
struct named {
  std::string name;
  long count;
};
#else
struct named {
  using fixed = std::string;
  long count;
};
#endif

void use(spolia::rlu::domain& d) {
#if defined(REFUSED)
  d.discard(d.make<named>({"nails", 1}));
#else
  d.discard(d.make<named>("nails", {1}));
#endif
}

// SPDX-License-Identifier: Apache-2.0
// A pointer keeps its type.
#include <spolia/rlu.hpp>

struct account {
  long balance;
};
struct owner {
  long name;
};

spolia::rlu::ptr<account> use(spolia::rlu::ptr<account> a, spolia::rlu::ptr<owner> b) {
#if defined(REFUSED)
  return b;
#else
  static_cast<void>(b);
  return a;
#endif
}

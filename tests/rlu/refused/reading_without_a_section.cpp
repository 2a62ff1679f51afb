// SPDX-License-Identifier: Apache-2.0
// A pointer leads nowhere without a section.
#include <spolia/rlu.hpp>

struct account {
  long balance;
};

long use(spolia::rlu::domain& bank, spolia::rlu::ptr<account> a) {
#if defined(REFUSED)
  static_cast<void>(bank);
  return a->balance;
#else
  return bank.read([&](auto& in) { return in.read(a)->balance; });
#endif
}

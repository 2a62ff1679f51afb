// SPDX-License-Identifier: Apache-2.0
// A view does not leave its section; what it shows may.
// refused: a view must not outlive its section
#include <spolia/rlu.hpp>

struct account {
  long balance;
};

long use(spolia::rlu::domain& bank, spolia::rlu::ptr<account> a) {
#if defined(REFUSED)
  return bank.read([&](auto& in) { return in.read(a); })->balance;
#else
  return bank.read([&](auto& in) { return in.read(a)->balance; });
#endif
}

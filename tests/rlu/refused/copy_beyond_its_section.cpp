// SPDX-License-Identifier: Apache-2.0
// Nor does a copy.
// refused: a view must not outlive its section
#include <spolia/rlu.hpp>

struct account {
  long balance;
};

void use(spolia::rlu::domain& bank, spolia::rlu::ptr<account> a) {
#if defined(REFUSED)
  bank.update([&](auto& in) { return in.try_lock(a); });
#else
  bank.update([&](auto& in) { return in.try_lock(a)->balance; });
#endif
}

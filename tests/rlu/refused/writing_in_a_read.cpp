// SPDX-License-Identifier: Apache-2.0
// A section that only reads cannot lock.
// refused: try_lock
#include <spolia/rlu.hpp>

struct account {
  long balance;
};

void use(spolia::rlu::domain& bank, spolia::rlu::ptr<account> a) {
#if defined(REFUSED)
  bank.read([&](auto& in) { in.try_lock(a); });
#else
  bank.update([&](auto& in) { in.try_lock(a); });
#endif
}

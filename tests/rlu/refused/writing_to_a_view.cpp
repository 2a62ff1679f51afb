// SPDX-License-Identifier: Apache-2.0
// What a section reads does not change, also not in a section that may write.
#include <spolia/rlu.hpp>

struct account {
  long balance;
};

void use(spolia::rlu::domain& bank, spolia::rlu::ptr<account> a) {
  bank.update([&](auto& in) {
#if defined(REFUSED)
    auto found = in.read(a);
#else
    auto found = in.try_lock(a);
#endif
    if (found) found->balance = 1;
  });
}

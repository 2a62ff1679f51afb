// SPDX-License-Identifier: Apache-2.0
/// \file
/// System calls that the system refuses from some time on, as in a sandbox that a program puts on
/// after its start: for the calling thread and those that it starts. There is no way back: call it
/// in a child.
#pragma once

#if defined(__linux__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace spolia::test {

/// False: it cannot be done here.
inline bool refuse([[maybe_unused]] std::initializer_list<long> calls, [[maybe_unused]] int error) {
#if defined(__linux__)
  std::vector<sock_filter> steps;
  steps.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const long call : calls) {
    steps.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    steps.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)));
  }
  steps.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
  return false;
#endif
}

}  // namespace spolia::test

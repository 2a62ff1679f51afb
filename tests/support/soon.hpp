// SPDX-License-Identifier: Apache-2.0
/// \file
/// Waiting for another thread, but not forever.
#pragma once

#include <chrono>
#include <thread>

namespace spolia::test {

/// Whether condition() becomes true, within two minutes: long beside what a busy machine takes.
template <class Condition>
bool soon(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return condition();
}

}  // namespace spolia::test

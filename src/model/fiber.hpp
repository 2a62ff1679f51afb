// SPDX-License-Identifier: Apache-2.0
// Stackful coroutines: each scenario thread is one, all on the operating system thread that called
// explore().
#pragma once

#include <cstddef>

namespace spolia::model {

// One stack and the place where it was left. Restarting a fiber forgets whatever was on its stack.
class fiber {
 public:
  fiber() = default;
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  // The next switch to this fiber calls entry(), which must never return.
  void start(void (*entry)());

  // Leaves `from` and goes on in `to`. A default-constructed fiber stands for the caller's own
  // stack when it is left.
  static void change(fiber& from, fiber& to);

 private:
  // Exceptions in flight belong to the stack that they are handled on.
  struct exception_state {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  void* left_at_ = nullptr;
  std::byte* stack_ = nullptr;
  exception_state exceptions_{};
};

}  // namespace spolia::model

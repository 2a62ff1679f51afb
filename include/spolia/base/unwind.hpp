// SPDX-License-Identifier: Apache-2.0
/// \file
/// How a `catch (...)` that goes on lets pass what is no exception of C++.
#pragma once

#include <exception>
#if __has_include(<pthread.h>)
#include <pthread.h>
#endif

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// To be called first in every `catch (...)` block that does not end in `throw;`. It throws again
/// what is being handled if that is no exception of C++, and does nothing otherwise.
///
/// Reason: pthread_cancel and pthread_exit unwind a thread's stack, and such a handler catches the
/// unwinding. The C library ends the process when a handler does not throw it again. An exception
/// of another language is not ours to swallow either.
///
/// The C++ library says which it is: std::current_exception() is null in the handler of what is no
/// exception of C++ (libstdc++ and libc++abi alike). What is being unwound may pass no function
/// that is noexcept, so one that calls code of the user in such a block must not be.
inline void let_unwinding_pass() {
  if (std::current_exception() == nullptr) throw;
}

/// While one exists, its thread is not cancelled: for what must be waited for, whatever happens.
class uncancelled {
 public:
#if defined(PTHREAD_CANCEL_DISABLE)
  uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~uncancelled() { pthread_setcancelstate(before_, nullptr); }
#else
  uncancelled() noexcept = default;
#endif
  uncancelled(const uncancelled&) = delete;
  uncancelled& operator=(const uncancelled&) = delete;

 private:
  friend class cancelled_as_before;
#if defined(PTHREAD_CANCEL_DISABLE)
  int before_ = 0;
#endif
};

/// While one exists, its thread can be cancelled as it could before the `uncancelled`: for code of
/// the program that is called meanwhile.
class cancelled_as_before {
 public:
#if defined(PTHREAD_CANCEL_DISABLE)
  explicit cancelled_as_before(const uncancelled& of) noexcept {
    pthread_setcancelstate(of.before_, nullptr);
  }
  ~cancelled_as_before() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); }
#else
  explicit cancelled_as_before(const uncancelled& /*of*/) noexcept {}
#endif
  cancelled_as_before(const cancelled_as_before&) = delete;
  cancelled_as_before& operator=(const cancelled_as_before&) = delete;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

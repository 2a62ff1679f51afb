// SPDX-License-Identifier: Apache-2.0
/// \file
/// What only the process that has made it may destroy: a thread, or what a thread waits for.
#pragma once

#include <unistd.h>

#include <utility>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// In a child of that process its thread does not exist: it can be neither joined nor detached, and
/// a condition would wait forever, in its destructor, for the threads that waited there. So the
/// child leaves such an object alone: its memory goes, its destructor is not called.
template <class T>
class at_home {
 public:
  template <class... Args>
  explicit at_home(Args&&... args) : of_(std::forward<Args>(args)...) {}
  ~at_home() {
    if (here()) of_.~T();
  }
  at_home(const at_home&) = delete;
  at_home& operator=(const at_home&) = delete;

  /// Not so in a child.
  [[nodiscard]] bool here() const noexcept { return home_ == ::getpid(); }
  [[nodiscard]] T& operator*() noexcept { return of_; }
  [[nodiscard]] T* operator->() noexcept { return &of_; }

 private:
  const ::pid_t home_ = ::getpid();
  union {
    T of_;
  };
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

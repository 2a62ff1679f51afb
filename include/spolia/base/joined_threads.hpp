// SPDX-License-Identifier: Apache-2.0
// joined_threads.hpp: threads that have ended when this goes. (Not every standard library has
// std::jthread.)
#pragma once

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

class joined_threads {
 public:
  joined_threads() = default;
  joined_threads(const joined_threads&) = delete;
  joined_threads& operator=(const joined_threads&) = delete;
  ~joined_threads() {
    for (std::thread& one : all_) one.join();
  }

  /// One more, which calls f(). False: the system has no more. Throws std::bad_alloc.
  template <class F>
  bool start(F&& f) {
    try {
      all_.emplace_back(std::forward<F>(f));
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

 private:
  std::vector<std::thread> all_;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

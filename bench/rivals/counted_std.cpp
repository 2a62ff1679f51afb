// SPDX-License-Identifier: Apache-2.0
// counted_std.cpp: the standard library's shared pointers: plain ones, those behind the atomic free
// functions, and std::atomic of them.
#include <atomic>
#include <memory>

#include "../counted_pauses.hpp"
#include "../counted_strings.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // the free functions, since C++20

namespace bench {
namespace {

template <class Family>
struct makes_shared : Family {
  template <class T, class... Args>
  static std::shared_ptr<T> make(Args&&... args) {
    return std::make_shared<T>(std::forward<Args>(args)...);
  }
};

template <class T>
using shared = std::shared_ptr<T>;
template <class T>
using atomic_shared = std::atomic<std::shared_ptr<T>>;

/// A plain pointer behind the free functions.
template <class T>
struct freely_loaded {
  shared<T> load() const { return std::atomic_load(&inside); }
  void store(shared<T> p) { std::atomic_store(&inside, std::move(p)); }
  shared<T> inside;
};

using plain_std = makes_shared<plain_family<shared>>;
using free_std = makes_shared<loaded_family<shared, freely_loaded>>;
using atomic_std = makes_shared<loaded_family<shared, atomic_shared>>;

[[maybe_unused]] const bool told = [] {
  auto& all = counted_pointers();
  all.push_back({"std-plain",
                 "std::shared_ptr, which no thread changes meanwhile",
                 {{"contention", contention<plain_std>},
                  {"set", setting<plain_std>},
                  {"allocate", allocation<plain_std>}}});
  all.push_back({"std",
                 "std::shared_ptr with std::atomic_load and std::atomic_store",
                 {{"contention", contention<free_std>},
                  {"set", setting<free_std>},
                  {"allocate", allocation<plain_std>},
                  {"destroy", destruction<free_std>}}});
  add_tests_of_maps<free_std>(all.back());
  all.push_back({"std-atomic",
                 "std::atomic<std::shared_ptr>",
                 {{"contention", contention<atomic_std>},
                  {"set", setting<atomic_std>},
                  {"allocate", allocation<atomic_std>},
                  {"destroy", destruction<atomic_std>}}});
  add_tests_of_maps<atomic_std>(all.back());
  return true;
}();

}  // namespace
}  // namespace bench

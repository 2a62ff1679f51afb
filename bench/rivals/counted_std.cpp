// SPDX-License-Identifier: Apache-2.0
// counted_std.cpp: the standard library's shared pointers: plain ones, those behind the atomic free
// functions, and std::atomic of them.
#include <atomic>
#include <memory>

#include "../counted_trial.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // the free functions, since C++20

namespace bench {
namespace {

struct plain_std {
  template <class T>
  using location = std::shared_ptr<T>;
  template <class T>
  static location<T> look(const location<T>& from) {
    return from;
  }
  template <class T>
  static void set(location<T>& to, location<T>& from) {
    to = from;
  }
  template <class T, class... Args>
  static void fill(location<T>& to, Args... args) {
    to = std::make_shared<T>(args...);
  }
};

struct free_std : plain_std {
  template <class T>
  static location<T> look(const location<T>& from) {
    return std::atomic_load(&from);
  }
  template <class T>
  static void step(location<T>& to, const location<T>& from) {
    to = std::atomic_load(&from);
  }
  template <class T>
  static void set(location<T>& to, location<T>& from) {
    std::atomic_store(&to, std::atomic_load(&from));
  }
};

struct atomic_std {
  template <class T>
  using location = std::atomic<std::shared_ptr<T>>;
  template <class T>
  static std::shared_ptr<T> look(const location<T>& from) {
    return from.load();
  }
  template <class T>
  static void step(std::shared_ptr<T>& to, const location<T>& from) {
    to = from.load();
  }
  template <class T>
  static void set(location<T>& to, location<T>& from) {
    to.store(from.load());
  }
  template <class T, class... Args>
  static void fill(location<T>& to, Args... args) {
    to.store(std::make_shared<T>(args...));
  }
};

[[maybe_unused]] const bool told = [] {
  auto& all = counted_pointers();
  all.push_back({"std-plain",
                 "std::shared_ptr, which nobody changes meanwhile",
                 {{"contention", contention<plain_std>},
                  {"set", setting<plain_std>},
                  {"allocate", allocation<plain_std>}}});
  all.push_back({"std",
                 "std::shared_ptr with std::atomic_load and std::atomic_store",
                 {{"contention", contention<free_std>},
                  {"set", setting<free_std>},
                  {"allocate", allocation<plain_std>},
                  {"read", reading<free_std>}}});
  all.push_back({"std-atomic",
                 "std::atomic<std::shared_ptr>",
                 {{"contention", contention<atomic_std>},
                  {"set", setting<atomic_std>},
                  {"allocate", allocation<atomic_std>},
                  {"read", reading<atomic_std>}}});
  return true;
}();

}  // namespace
}  // namespace bench

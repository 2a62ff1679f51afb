// SPDX-License-Identifier: Apache-2.0
// counted_boost.cpp: Boost's atomic shared pointer.
#include <boost/smart_ptr/atomic_shared_ptr.hpp>
#include <boost/smart_ptr/make_shared.hpp>

#include "../counted_trial.hpp"

namespace bench {
namespace {

struct atomic_boost {
  template <class T>
  using location = boost::atomic_shared_ptr<T>;
  template <class T>
  static boost::shared_ptr<T> look(const location<T>& from) {
    return from.load();
  }
  template <class T>
  static void step(boost::shared_ptr<T>& to, const location<T>& from) {
    to = from.load();
  }
  template <class T>
  static void set(location<T>& to, location<T>& from) {
    to.store(from.load());
  }
  template <class T, class... Args>
  static void fill(location<T>& to, Args... args) {
    to.store(boost::make_shared<T>(args...));
  }
};

[[maybe_unused]] const bool told = [] {
  counted_pointers().push_back({"boost-atomic",
                                "boost::atomic_shared_ptr",
                                {{"contention", contention<atomic_boost>},
                                 {"set", setting<atomic_boost>},
                                 {"allocate", allocation<atomic_boost>},
                                 {"read", reading<atomic_boost>}}});
  return true;
}();

}  // namespace
}  // namespace bench

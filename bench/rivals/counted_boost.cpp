// SPDX-License-Identifier: Apache-2.0
// counted_boost.cpp: Boost's atomic shared pointer.
#include <boost/smart_ptr/atomic_shared_ptr.hpp>
#include <boost/smart_ptr/make_shared.hpp>

#include "../counted_pauses.hpp"
#include "../counted_strings.hpp"

namespace bench {
namespace {

struct boost_family : loaded_family<boost::shared_ptr, boost::atomic_shared_ptr> {
  template <class T, class... Args>
  static boost::shared_ptr<T> make(Args&&... args) {
    return boost::make_shared<T>(std::forward<Args>(args)...);
  }
};

[[maybe_unused]] const bool told = [] {
  auto& all = counted_pointers();
  all.push_back({"boost-atomic",
                 "boost::atomic_shared_ptr",
                 {{"contention", contention<boost_family>},
                  {"set", setting<boost_family>},
                  {"allocate", allocation<boost_family>},
                  {"destroy", destruction<boost_family>}}});
  add_tests_of_maps<boost_family>(all.back());
  return true;
}();

}  // namespace
}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// Counted pointers in a program that is compiled without run-time types (-fno-rtti).
#include <gtest/gtest.h>

#include <string>

#include <spolia/db.hpp>
#include <spolia/hazard_pointer.hpp>
#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>

namespace {

#if defined(__cpp_rtti)
#error "this program is to be compiled with -fno-rtti"
#endif

struct counting {
  int* ended;
  void operator()(const int* p) const noexcept {
    ++*ended;
    delete p;
  }
};

TEST(no_rtti, a_deleter_is_called_and_cannot_be_asked_for) {
  int ended = 0;
  {
    const spolia::shared_ptr<int> p(new int(3), counting{&ended});
    EXPECT_EQ(spolia::get_deleter<counting>(p), nullptr);
    EXPECT_EQ(*p, 3);
  }
  EXPECT_EQ(ended, 1);
}

struct person : spolia::traced<person> {
  spolia::shared_ptr<person> best_friend;
  template <class F>
  void each_child(F&& f) {
    f(best_friend);
  }
};

TEST(no_rtti, cycles_are_found_and_their_types_have_no_name) {
  spolia::weak_ptr<person> seen;
  {
    const auto one = spolia::make_shared<person>();
    one->best_friend = one;
    seen = one;
  }
  const spolia::counted::cycle_report lost = spolia::counted::end_cycles();
  ASSERT_EQ(lost.types.size(), 1U);
  EXPECT_EQ(lost.types[0].first, "(a type without RTTI)");
  EXPECT_TRUE(seen.expired());
}

}  // namespace

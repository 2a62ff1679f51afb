// SPDX-License-Identifier: Apache-2.0
/// \file
/// The two libraries whose shared pointers must behave alike: each test runs over both, so what it
/// expects is what the standard library does.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include <spolia/memory.hpp>

namespace spolia::test {

#define SPOLIA_TEST_FAMILY(name, from)                                 \
  struct name {                                                        \
    template <class T>                                                 \
    using shared = from::shared_ptr<T>;                                \
    template <class T>                                                 \
    using weak = from::weak_ptr<T>;                                    \
    template <class T>                                                 \
    using self = from::enable_shared_from_this<T>;                     \
    template <class T, class... Args>                                  \
    static auto make(Args&&... args) {                                 \
      return from::make_shared<T>(std::forward<Args>(args)...);        \
    }                                                                  \
    template <class T>                                                 \
    static auto make_raw(auto... n) {                                  \
      return from::make_shared_for_overwrite<T>(n...);                 \
    }                                                                  \
    template <class T, class A, class... Args>                         \
    static auto allocate(const A& a, Args&&... args) {                 \
      return from::allocate_shared<T>(a, std::forward<Args>(args)...); \
    }                                                                  \
    template <class T, class P>                                        \
    static auto cast_static(P&& p) {                                   \
      return from::static_pointer_cast<T>(std::forward<P>(p));         \
    }                                                                  \
    template <class T, class P>                                        \
    static auto cast_dynamic(P&& p) {                                  \
      return from::dynamic_pointer_cast<T>(std::forward<P>(p));        \
    }                                                                  \
    template <class T, class P>                                        \
    static auto cast_const(P&& p) {                                    \
      return from::const_pointer_cast<T>(std::forward<P>(p));          \
    }                                                                  \
    template <class T, class P>                                        \
    static auto cast_reinterpret(P&& p) {                              \
      return from::reinterpret_pointer_cast<T>(std::forward<P>(p));    \
    }                                                                  \
    template <class D, class P>                                        \
    static auto deleter(const P& p) {                                  \
      return from::get_deleter<D>(p);                                  \
    }                                                                  \
    template <class P>                                                 \
    static auto deduced(P&& p) {                                       \
      return from::shared_ptr(std::forward<P>(p));                     \
    }                                                                  \
    template <class P>                                                 \
    static auto deduced_weak(const P& p) {                             \
      return from::weak_ptr(p);                                        \
    }                                                                  \
    template <class T, class A>                                        \
    static auto allocate_raw(const A& a, auto... n) {                  \
      return from::allocate_shared_for_overwrite<T>(a, n...);          \
    }                                                                  \
    using less = from::owner_less<void>;                               \
    template <class P>                                                 \
    using less_of = from::owner_less<P>;                               \
  }

SPOLIA_TEST_FAMILY(standard_base, std);
SPOLIA_TEST_FAMILY(spolia_base, spolia);
#undef SPOLIA_TEST_FAMILY

struct standard_family : standard_base {
  template <class T>
  using atomic_shared = std::atomic<std::shared_ptr<T>>;
  template <class T>
  using atomic_weak = std::atomic<std::weak_ptr<T>>;
  /// Units that a location gave up are dropped at once.
  static void settle() {}
  /// The race detector finds fault with libstdc++ 12: github.com/google/sanitizers, issue 1558.
  static constexpr bool may_race = SPOLIA_TSAN != 0;
};

struct spolia_family : spolia_base {
  template <class T>
  using atomic_shared = spolia::atomic_shared_ptr<T>;
  template <class T>
  using atomic_weak = spolia::atomic_weak_ptr<T>;
  static void settle() { EXPECT_TRUE(counted::drain()); }
  static constexpr bool may_race = false;
};

using families = testing::Types<standard_family, spolia_family>;

}  // namespace spolia::test

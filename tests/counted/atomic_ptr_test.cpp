// SPDX-License-Identifier: Apache-2.0
// Atomic locations: what std::atomic<std::shared_ptr> and std::atomic<std::weak_ptr> do, ours do.

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "counted/families.hpp"

namespace {

using namespace spolia::test;

struct thing {
  explicit thing(int v = 7) : value(v) { ++alive; }
  virtual ~thing() { --alive; }
  int value;
  static inline std::atomic<int> alive = 0;
};
struct other_base {
  virtual ~other_base() = default;
  int filler = 11;
};
struct derived : other_base, thing {
  using thing::thing;
};

template <class F>
class atomic_pointers : public testing::Test {
 public:
  using shared = typename F::template shared<thing>;
  using weak = typename F::template weak<thing>;
  using location = typename F::template atomic_shared<thing>;
  using weak_location = typename F::template atomic_weak<thing>;

  static shared make(int v) { return F::template make<thing>(v); }

  ~atomic_pointers() override {
    F::settle();
    EXPECT_EQ(thing::alive, 0);
  }
};
TYPED_TEST_SUITE(atomic_pointers, families);

TYPED_TEST(atomic_pointers, types) {
  using L = typename TestFixture::location;
  using W = typename TestFixture::weak_location;
  static_assert(std::is_same_v<typename L::value_type, typename TestFixture::shared>);
  static_assert(std::is_same_v<typename W::value_type, typename TestFixture::weak>);
  static_assert(!std::is_copy_constructible_v<L> && !std::is_copy_assignable_v<L>);
  static_assert(!std::is_copy_constructible_v<W> && !std::is_copy_assignable_v<W>);
  static_assert(std::is_nothrow_default_constructible_v<L>);
  static_assert(std::is_convertible_v<L&, typename TestFixture::shared>);
  static_assert(std::is_same_v<decltype(L::is_always_lock_free), const bool>);
  static constinit L at_start;
  EXPECT_EQ(at_start.load(), nullptr);
  static constinit W weak_at_start;
  EXPECT_TRUE(weak_at_start.load().expired());
}

TYPED_TEST(atomic_pointers, loads_and_stores) {
  typename TestFixture::location a(TestFixture::make(1));
  EXPECT_EQ(a.load()->value, 1);
  a.store(TestFixture::make(2));
  EXPECT_EQ(a.load(std::memory_order_acquire)->value, 2);
  a = TestFixture::make(3);
  const typename TestFixture::shared p = a;
  EXPECT_EQ(p->value, 3);
  EXPECT_EQ(p.use_count(), 2);
  a.store(nullptr, std::memory_order_release);
  EXPECT_FALSE(a.load());
  TypeParam::settle();
  EXPECT_EQ(p.use_count(), 1);
  EXPECT_EQ(thing::alive, 1);
}

TYPED_TEST(atomic_pointers, exchange) {
  typename TestFixture::location a;
  EXPECT_EQ(a.exchange(TestFixture::make(1)), nullptr);
  typename TestFixture::shared old = a.exchange(TestFixture::make(2), std::memory_order_acq_rel);
  EXPECT_EQ(old->value, 1);
  TypeParam::settle();
  EXPECT_EQ(old.use_count(), 1);
  old = a.exchange(nullptr);
  EXPECT_EQ(old->value, 2);
}

TYPED_TEST(atomic_pointers, compare_exchange) {
  auto one = TestFixture::make(1);
  auto two = TestFixture::make(2);
  typename TestFixture::location a(one);
  auto expected = two;
  EXPECT_FALSE(a.compare_exchange_strong(expected, two));
  EXPECT_EQ(expected, one);
  EXPECT_TRUE(a.compare_exchange_strong(expected, two, std::memory_order_acq_rel));
  EXPECT_EQ(expected, one);
  EXPECT_EQ(a.load(), two);
  expected = nullptr;
  EXPECT_FALSE(
      a.compare_exchange_weak(expected, one, std::memory_order_release, std::memory_order_relaxed));
  EXPECT_EQ(expected, two);
  while (!a.compare_exchange_weak(expected, nullptr)) {
  }
  expected.reset();
  EXPECT_TRUE(a.compare_exchange_strong(expected, one));
  a.store(nullptr);
  TypeParam::settle();
  expected.reset();
  EXPECT_EQ(one.use_count(), 1);
  EXPECT_EQ(two.use_count(), 1);
}

/// Equal means: the same pointer and the same owner.
TYPED_TEST(atomic_pointers, owners_count_in_comparisons) {
  auto one = TestFixture::make(1);
  auto two = TestFixture::make(2);
  const typename TestFixture::shared owned_by_two(two, one.get());
  typename TestFixture::location a(one);
  auto expected = owned_by_two;
  EXPECT_FALSE(a.compare_exchange_strong(expected, two));
  EXPECT_FALSE(expected.owner_before(one) || one.owner_before(expected));
  a = owned_by_two;
  expected = owned_by_two;
  EXPECT_TRUE(a.compare_exchange_strong(expected, two));
}

/// Aliases, bases further inside, adopted pointers, nulls with an owner and the other way round.
TYPED_TEST(atomic_pointers, pointers_of_every_kind) {
  typename TestFixture::location a;
  typename TypeParam::template shared<derived> d = TypeParam::template make<derived>(4);
  a = d;
  EXPECT_EQ(a.load().get(), static_cast<thing*>(d.get()));
  EXPECT_EQ(a.load()->value, 4);
  a = typename TestFixture::shared(new thing(5));
  EXPECT_EQ(a.load()->value, 5);
  a = typename TestFixture::shared(new derived(6));
  EXPECT_EQ(a.load()->value, 6);
  a = typename TestFixture::shared(d, nullptr);
  EXPECT_EQ(a.load(), nullptr);
  EXPECT_FALSE(a.load().owner_before(d) || d.owner_before(a.load()));
  a = typename TestFixture::shared(typename TestFixture::shared(), d.get());
  EXPECT_EQ(a.load().get(), d.get());
  EXPECT_EQ(a.load().use_count(), 0);
  auto expected = a.load();
  EXPECT_TRUE(a.compare_exchange_strong(expected, TestFixture::make(1)));
  a.store(nullptr);
  TypeParam::settle();
  EXPECT_EQ(d.use_count(), 1);
}

TYPED_TEST(atomic_pointers, voids_and_arrays) {
  typename TypeParam::template atomic_shared<void> v(TestFixture::make(3));
  v = TypeParam::template make<int>(4);
  EXPECT_EQ(*static_cast<int*>(v.load().get()), 4);
  typename TypeParam::template atomic_shared<int[]> a(TypeParam::template make<int[]>(3UL));
  a.load()[1] = 5;
  EXPECT_EQ(a.load()[1], 5);
  typename TypeParam::template atomic_shared<const thing> c(TestFixture::make(6));
  EXPECT_EQ(c.load()->value, 6);
}

TYPED_TEST(atomic_pointers, weak_ones) {
  typename TestFixture::weak_location w;
  auto p = TestFixture::make(1);
  w = p;
  EXPECT_EQ(w.load().lock(), p);
  EXPECT_EQ(p.use_count(), 1);
  auto d = TypeParam::template make<derived>(2);
  typename TestFixture::weak expected = p;
  EXPECT_TRUE(w.compare_exchange_strong(expected, typename TestFixture::weak(d)));
  EXPECT_FALSE(w.compare_exchange_strong(expected, typename TestFixture::weak()));
  EXPECT_EQ(expected.lock(), d);
  d.reset();
  EXPECT_TRUE(w.load().expired()) << "weak units do not keep objects";
  EXPECT_EQ(thing::alive, 1);
  const typename TestFixture::weak old = w.exchange(typename TestFixture::weak(p));
  EXPECT_TRUE(old.expired());
  p.reset();
  EXPECT_TRUE(w.load().expired());
  EXPECT_EQ(thing::alive, 0);
}

TYPED_TEST(atomic_pointers, waiting) {
  if (TypeParam::may_race) GTEST_SKIP();
  auto first = TestFixture::make(1);
  typename TestFixture::location a(first);
  a.wait(nullptr);  // differs already
  std::thread waiter([&] {
    a.wait(first);
    EXPECT_EQ(a.load()->value, 2);
  });
  a.notify_one();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  a = TestFixture::make(2);
  a.notify_all();
  waiter.join();
}

TYPED_TEST(atomic_pointers, weak_ones_with_orders_and_waiting) {
  if (TypeParam::may_race) GTEST_SKIP();
  using pointer = typename TestFixture::weak;
  auto one = TestFixture::make(1);
  auto two = TestFixture::make(2);
  typename TestFixture::weak_location w{pointer(one)};
  static_assert(std::is_same_v<decltype(w.is_lock_free()), bool>);
  const pointer seen = w;
  EXPECT_EQ(seen.lock(), one);
  w.store(two, std::memory_order_release);
  EXPECT_EQ(w.load(std::memory_order_acquire).lock(), two);
  EXPECT_EQ(w.exchange(one, std::memory_order_acq_rel).lock(), two);
  pointer expected = two;
  EXPECT_FALSE(w.compare_exchange_strong(expected, two, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
  EXPECT_EQ(expected.lock(), one);
  while (!w.compare_exchange_weak(expected, two, std::memory_order_acq_rel)) {
  }
  w.wait(one);  // differs already
  std::thread waiter([&] {
    w.wait(two);
    EXPECT_EQ(w.load().lock(), one);
  });
  w.notify_one();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  w = one;
  w.notify_all();
  waiter.join();
}

/// What the standard has since C++23 (LWG 3893), and libstdc++ 12 lacks.
TEST(atomic_shared_ptr, takes_null_by_assignment) {
  spolia::atomic_shared_ptr<thing> a(spolia::make_shared<thing>(1));
  a = nullptr;
  EXPECT_EQ(a.load(), nullptr);
  EXPECT_TRUE(a.is_lock_free());
  EXPECT_TRUE(spolia::counted::drain());
  EXPECT_EQ(thing::alive, 0);
}

/// Many readers and writers; each sees whole objects only.
TYPED_TEST(atomic_pointers, threads) {
  if (TypeParam::may_race) GTEST_SKIP();
  typename TestFixture::location a(TestFixture::make(1));
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([&a, t] {
      for (int i = 1; i < 2000; ++i) {
        auto p = a.load();
        EXPECT_GT(p->value, 0);
        if (t == 0) a.store(TestFixture::make(i));
        if (t == 1) a.compare_exchange_weak(p, TestFixture::make(i));
        if (t == 2) p = a.exchange(TestFixture::make(i));
        EXPECT_GT(p->value, 0);
      }
    });
  }
  for (std::thread& t : all) t.join();
}

}  // namespace

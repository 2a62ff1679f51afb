// SPDX-License-Identifier: Apache-2.0
// Shared and weak pointers: what the standard library's do, ours do.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "counted/families.hpp"

namespace {

using namespace spolia::test;

/// Counts itself, and writes down the order in which objects end.
struct thing {
  explicit thing(int v = 7) : value(v) { ++alive; }
  thing(const thing& o) : value(o.value) { ++alive; }
  thing& operator=(const thing&) = default;
  virtual ~thing() {
    --alive;
    order.push_back(value);
  }
  int value;
  static inline int alive = 0;
  static inline std::vector<int> order;
};
struct other_base {
  virtual ~other_base() = default;
  int filler = 11;
};
struct derived : other_base, thing {  // thing is not at the beginning
  using thing::thing;
};

template <class Less>
concept transparent = requires { typename Less::is_transparent; };

template <class F>
class shared : public testing::Test {
 public:
  shared() {
    thing::alive = 0;
    thing::order.clear();
  }
  ~shared() override { EXPECT_EQ(thing::alive, 0); }
};
TYPED_TEST_SUITE(shared, families);

template <class F>
constexpr void check_types() {
  using P = typename F::template shared<thing>;
  using D = typename F::template shared<derived>;
  using W = typename F::template weak<thing>;
  static_assert(std::is_same_v<typename P::element_type, thing>);
  static_assert(std::is_same_v<typename P::weak_type, W>);
  static_assert(std::is_same_v<typename F::template shared<int[3]>::element_type, int>);
  static_assert(std::is_nothrow_default_constructible_v<P> &&
                std::is_nothrow_copy_constructible_v<P>);
  static_assert(std::is_nothrow_move_constructible_v<P> && std::is_nothrow_move_assignable_v<P>);
  static_assert(std::is_nothrow_copy_assignable_v<P> && std::is_nothrow_move_constructible_v<W>);
  static_assert(std::is_convertible_v<D, P> && !std::is_convertible_v<P, D>);
  static_assert(!std::is_constructible_v<P, int*> && !std::is_convertible_v<thing*, P>);
  static_assert(!std::is_constructible_v<P, typename F::template shared<const thing>>);
  static_assert(std::is_constructible_v<typename F::template shared<void>, int*>);
  static_assert(std::is_constructible_v<P, W> && !std::is_convertible_v<W, P>);
  static_assert(std::is_constructible_v<typename F::template shared<const int[]>,
                                        typename F::template shared<int[4]>>);
  static_assert(!std::is_constructible_v<typename F::template shared<int[3]>,
                                         typename F::template shared<int[4]>>);
  static_assert(!std::is_constructible_v<typename F::template shared<thing[]>, derived*>);
  static_assert(std::is_convertible_v<std::unique_ptr<derived>, P>);
  static_assert(!std::is_constructible_v<P, std::unique_ptr<int>>);
  static_assert(sizeof(P) == 2 * sizeof(void*) && sizeof(W) == 2 * sizeof(void*));
}

TYPED_TEST(shared, types) { check_types<TypeParam>(); }

TYPED_TEST(shared, empty_ones) {
  using P = typename TypeParam::template shared<thing>;
  static constinit P at_start;
  const P null = nullptr;
  EXPECT_FALSE(at_start);
  EXPECT_EQ(null, nullptr);
  EXPECT_EQ(null.use_count(), 0);
  EXPECT_EQ(null, at_start);
  const P with_owner(static_cast<thing*>(nullptr));
  EXPECT_FALSE(with_owner);
  EXPECT_EQ(with_owner.use_count(), 1);
}

TYPED_TEST(shared, counts_and_prompt_ends) {
  auto p = TypeParam::template make<thing>(1);
  EXPECT_EQ(p.use_count(), 1);
  {
    auto q = p;
    EXPECT_EQ(p.use_count(), 2);
    const auto r = std::move(q);
    EXPECT_FALSE(q);
    EXPECT_EQ(q.use_count(), 0);
    EXPECT_EQ(r.use_count(), 2);
  }
  EXPECT_EQ(p.use_count(), 1);
  const auto& same = p;
  p = same;
  EXPECT_EQ(p.use_count(), 1);
  p.reset(new thing(2));
  EXPECT_EQ(thing::order, std::vector<int>{1});
  p = nullptr;
  EXPECT_EQ(thing::order, (std::vector<int>{1, 2}));
}

TYPED_TEST(shared, conversions_keep_the_offset) {
  typename TypeParam::template shared<derived> d(new derived(5));
  typename TypeParam::template shared<thing> b = d;
  EXPECT_EQ(b->value, 5);
  EXPECT_EQ(b.get(), static_cast<thing*>(d.get()));
  EXPECT_NE(static_cast<void*>(b.get()), static_cast<void*>(d.get()));
  EXPECT_EQ(b.use_count(), 2);
  typename TypeParam::template shared<thing> moved = std::move(d);
  EXPECT_EQ(moved.use_count(), 2);
  EXPECT_FALSE(d);
  const typename TypeParam::template weak<derived> wd = TypeParam::template cast_static<derived>(b);
  const typename TypeParam::template weak<thing> wb = wd;
  EXPECT_EQ(wb.lock().get(), b.get());
}

TYPED_TEST(shared, deleters) {
  int calls = 0;
  auto count = [&calls](thing* t) {
    ++calls;
    delete t;
  };
  {
    typename TypeParam::template shared<thing> p(new derived(3), count);
    EXPECT_NE(TypeParam::template deleter<decltype(count)>(p), nullptr);
    EXPECT_EQ(TypeParam::template deleter<int>(p), nullptr);
    auto q = p;
    p.reset();
    EXPECT_EQ(calls, 0);
    q.reset(new thing(4), count);
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(calls, 2);
  int nulls = 0;
  {
    typename TypeParam::template shared<thing> p(nullptr, [&nulls](std::nullptr_t) { ++nulls; });
  }
  EXPECT_EQ(nulls, 1);
  EXPECT_EQ(TypeParam::template deleter<int>(TypeParam::template make<int>(1)), nullptr);
}

template <class T>
struct counting_allocator {
  using value_type = T;
  explicit counting_allocator(int* n) : balance(n) {}
  template <class U>
  counting_allocator(const counting_allocator<U>& o) : balance(o.balance) {}
  T* allocate(std::size_t n) {
    ++*balance;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) {
    --*balance;
    std::allocator<T>().deallocate(p, n);
  }
  template <class U>
  bool operator==(const counting_allocator<U>& o) const {
    return balance == o.balance;
  }
  int* balance;
};

TYPED_TEST(shared, allocators) {
  int balance = 0;
  const counting_allocator<int> a(&balance);
  {
    auto p = TypeParam::template allocate<thing>(a, 9);
    EXPECT_EQ(p->value, 9);
    auto array = TypeParam::template allocate<std::string[]>(a, 3UL, "x");
    EXPECT_EQ(array[2], "x");
    typename TypeParam::template shared<thing> q(new thing(1), std::default_delete<thing>(), a);
    EXPECT_EQ(balance, 3);
    typename TypeParam::template weak<thing> w = p;
    p.reset();
    EXPECT_EQ(balance, 3) << "the block stays while weak pointers do";
  }
  EXPECT_EQ(balance, 0);
}

TYPED_TEST(shared, aliases) {
  struct outer {
    thing inner{6};
    int n = 8;
  };
  auto o = TypeParam::template make<outer>();
  typename TypeParam::template shared<int> n(o, &o->n);
  EXPECT_EQ(n.use_count(), 2);
  EXPECT_FALSE(n.owner_before(o) || o.owner_before(n));
  typename TypeParam::template shared<thing> moved(std::move(o), &o->inner);
  EXPECT_FALSE(o);
  EXPECT_EQ(n.use_count(), 2);
  moved.reset();
  EXPECT_EQ(*n, 8);
  EXPECT_EQ(thing::alive, 1);
  typename TypeParam::template shared<int> unowned(typename TypeParam::template shared<int>(),
                                                   n.get());
  EXPECT_EQ(unowned.use_count(), 0);
  EXPECT_TRUE(unowned);
}

TYPED_TEST(shared, arrays) {
  auto a = TypeParam::template make<thing[]>(3UL);
  a[0].value = 0;
  a[1].value = 1;
  a[2].value = 2;
  a.reset();
  EXPECT_EQ(thing::order, (std::vector<int>{2, 1, 0}));
  auto b = TypeParam::template make<int[4]>();
  EXPECT_EQ(b[3], 0);
  const int two[2] = {4, 5};
  auto c = TypeParam::template make<int[][2]>(3UL, two);
  EXPECT_EQ(c[2][0], 4);
  EXPECT_EQ(c[2][1], 5);
  auto d = TypeParam::template make_raw<std::string[]>(2UL);
  EXPECT_EQ(d[1], "");
  *TypeParam::template make_raw<int>() = 1;
  typename TypeParam::template shared<thing[]> e(new thing[2]);
  e = nullptr;
  EXPECT_EQ(thing::alive, 0);
  typename TypeParam::template shared<const int[]> f = b;
  EXPECT_EQ(f.use_count(), 2);
}

struct alignas(64) wide {
  char c = 1;
};

TYPED_TEST(shared, alignment) {
  for (int i = 0; i < 20; ++i) {
    auto p = TypeParam::template make<wide>();
    auto a = TypeParam::template make<wide[]>(3UL);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.get()) % 64, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&a[1]) % 64, 0U);
  }
}

TYPED_TEST(shared, casts) {
  typename TypeParam::template shared<thing> b = TypeParam::template make<derived>(1);
  auto d = TypeParam::template cast_dynamic<derived>(b);
  ASSERT_TRUE(d);
  EXPECT_EQ(TypeParam::template cast_static<derived>(b), d);
  typename TypeParam::template shared<const thing> c = b;
  EXPECT_EQ(TypeParam::template cast_const<thing>(c), b);
  EXPECT_EQ(b.use_count(), 3);
  auto none = TypeParam::template cast_dynamic<derived>(TypeParam::template make<thing>(2));
  EXPECT_FALSE(none);
  EXPECT_EQ(none.use_count(), 0);
  auto moved = TypeParam::template cast_dynamic<derived>(std::move(b));
  EXPECT_FALSE(b);
  EXPECT_EQ(moved, d);
  auto bytes = TypeParam::template cast_reinterpret<char>(TypeParam::template make<int>(0));
  EXPECT_EQ(bytes.use_count(), 1);
}

TYPED_TEST(shared, from_unique) {
  auto u = std::make_unique<derived>(2);
  derived* const raw = u.get();
  typename TypeParam::template shared<thing> p = std::move(u);
  EXPECT_EQ(p.get(), raw);
  EXPECT_FALSE(u);
  p = std::make_unique<thing>(3);
  EXPECT_EQ(p->value, 3);
  p = std::unique_ptr<thing>();
  EXPECT_EQ(p.use_count(), 0);
  int calls = 0;
  auto deleter = [&calls](thing* t) {
    ++calls;
    delete t;
  };
  std::unique_ptr<thing, decltype(deleter)&> by_reference(new thing(4), deleter);
  p = std::move(by_reference);
  p.reset();
  EXPECT_EQ(calls, 1);
  typename TypeParam::template shared<int[]> a = std::make_unique<int[]>(3);
  EXPECT_EQ(a[2], 0);
}

TYPED_TEST(shared, weak_ones) {
  typename TypeParam::template weak<thing> w;
  EXPECT_TRUE(w.expired());
  EXPECT_FALSE(w.lock());
  {
    auto p = TypeParam::template make<thing>(1);
    w = p;
    auto w2 = w;
    EXPECT_EQ(w.use_count(), 1);
    EXPECT_EQ(w2.lock(), p);
    EXPECT_EQ((typename TypeParam::template shared<thing>(w)).use_count(), 2);
    EXPECT_FALSE(w.owner_before(p) || p.owner_before(w));
    w2.reset();
    w.swap(w2);
    EXPECT_TRUE(w.expired());
    w = std::move(w2);
  }
  EXPECT_TRUE(w.expired());
  EXPECT_EQ(w.lock(), nullptr);
  EXPECT_THROW((typename TypeParam::template shared<thing>(w)), std::bad_weak_ptr);
}

template <class F>
struct selfish : F::template self<selfish<F>> {
  ~selfish() { EXPECT_TRUE(this->weak_from_this().expired()); }
  int value = 3;
};

TYPED_TEST(shared, from_this) {
  using S = selfish<TypeParam>;
  S on_stack;
  EXPECT_THROW((void)on_stack.shared_from_this(), std::bad_weak_ptr);
  auto p = TypeParam::template make<S>();
  EXPECT_EQ(p->shared_from_this(), p);
  EXPECT_EQ(std::as_const(*p).shared_from_this(), p);
  EXPECT_EQ(p->weak_from_this().lock(), p);
  EXPECT_EQ(p.use_count(), 1);
  S copy = *p;
  EXPECT_TRUE(copy.weak_from_this().expired());
  typename TypeParam::template shared<S> taken(new S);
  EXPECT_EQ(taken->shared_from_this(), taken);
  typename TypeParam::template shared<S> unique = std::make_unique<S>();
  EXPECT_EQ(unique->shared_from_this(), unique);
  auto allocated = TypeParam::template allocate<S>(std::allocator<int>());
  EXPECT_EQ(allocated->shared_from_this(), allocated);
}

TYPED_TEST(shared, comparing_hashing_printing) {
  auto p = TypeParam::template make<thing>(1);
  auto q = TypeParam::template make<thing>(2);
  EXPECT_NE(p, q);
  EXPECT_EQ(p < q, p.get() < q.get());
  EXPECT_TRUE((p <=> q) != 0);
  EXPECT_TRUE(p > nullptr && nullptr < q);
  EXPECT_EQ(std::hash<decltype(p)>{}(p), std::hash<thing*>{}(p.get()));
  EXPECT_EQ((std::unordered_set{p, q, p}).size(), 2U);
  EXPECT_EQ((std::set{p, q, p}).size(), 2U);
  std::map<typename TypeParam::template weak<thing>, int, typename TypeParam::less> by_owner;
  by_owner[p] = 1;
  by_owner[q] = 2;
  EXPECT_EQ(by_owner.find(p)->second, 1);
  std::ostringstream a;
  std::ostringstream b;
  a << p;
  b << p.get();
  EXPECT_EQ(a.str(), b.str());
  using std::swap;
  swap(p, q);
  EXPECT_EQ(p->value, 2);
}

TYPED_TEST(shared, deduction_and_weak_conversions) {
  using P = typename TypeParam::template shared<thing>;
  using W = typename TypeParam::template weak<thing>;
  const P p = TypeParam::template make<thing>(1);
  W w = p;
  static_assert(std::is_same_v<decltype(TypeParam::deduced(w)), P>);
  static_assert(std::is_same_v<decltype(TypeParam::deduced_weak(p)), W>);
  static_assert(std::is_same_v<decltype(TypeParam::deduced(std::make_unique<thing>(2))), P>);
  EXPECT_EQ(TypeParam::deduced(w), p);
  EXPECT_EQ(TypeParam::deduced(std::make_unique<thing>(2)).use_count(), 1);
  EXPECT_EQ(TypeParam::deduced_weak(p).lock(), p);
  const auto d = TypeParam::template make<derived>(3);
  typename TypeParam::template weak<derived> wd(d);
  w = wd;
  EXPECT_EQ(w.lock(), d);
  w = std::move(wd);
  EXPECT_EQ(w.lock(), d);
  EXPECT_TRUE(wd.expired());
  w = p;
  W other = d;
  using std::swap;
  swap(w, other);
  EXPECT_TRUE(w.lock() == d && other.lock() == p);
  EXPECT_NE(w.owner_before(other), other.owner_before(w));
  EXPECT_EQ((typename TypeParam::template less_of<W>()(w, other)), w.owner_before(other));
  EXPECT_EQ((typename TypeParam::template less_of<P>()(p, P(d))), p.owner_before(d));
  EXPECT_EQ((typename TypeParam::template less_of<P>()(p, w)), p.owner_before(w));
  EXPECT_EQ((typename TypeParam::template less_of<W>()(p, w)), p.owner_before(w));
  static_assert(transparent<typename TypeParam::less>);
  static_assert(!transparent<typename TypeParam::template less_of<P>>);
  static_assert(!transparent<typename TypeParam::template less_of<W>>);
  EXPECT_TRUE(p <= p && p >= p && !(p < p) && (p <=> P(d)) != 0);
}

TYPED_TEST(shared, deleters_with_allocators_and_arrays) {
  using P = typename TypeParam::template shared<thing>;
  int balance = 0;
  int nulls = 0;
  const counting_allocator<int> a(&balance);
  {
    const P null(nullptr, [&nulls](std::nullptr_t) { ++nulls; }, a);
    P p = TypeParam::template make<thing>(1);
    p.reset(new thing(2), std::default_delete<thing>(), a);
    EXPECT_EQ(balance, 2);
    auto two = TypeParam::template allocate<int[2]>(a);
    EXPECT_EQ(two[0] + two[1], 0);
    auto raw = TypeParam::template allocate_raw<std::string[]>(a, 2UL);
    EXPECT_EQ(raw[1], "");
    *TypeParam::template allocate_raw<int>(a) = 1;
    EXPECT_EQ(balance, 4);
    EXPECT_EQ(TypeParam::template make<int[3]>(7)[2], 7);
  }
  EXPECT_EQ(nulls, 1);
  EXPECT_EQ(balance, 0);
}

TYPED_TEST(shared, casts_that_move) {
  auto d = TypeParam::template make<derived>(1);
  typename TypeParam::template shared<const thing> c =
      TypeParam::template cast_static<const thing>(std::move(d));
  EXPECT_FALSE(d);
  auto p = TypeParam::template cast_const<thing>(std::move(c));
  EXPECT_FALSE(c);
  auto bytes = TypeParam::template cast_reinterpret<char>(std::move(p));
  EXPECT_FALSE(p);
  EXPECT_EQ(bytes.use_count(), 1);
  auto other = TypeParam::template make<thing>(2);
  EXPECT_FALSE(TypeParam::template cast_dynamic<derived>(std::move(other)));
  EXPECT_TRUE(other) << "what was not cast stays";
}

struct incomplete;
template <class F>
struct holder {
  typename F::template shared<incomplete> p;
  typename F::template weak<incomplete> w;
};

TYPED_TEST(shared, odd_types) {
  EXPECT_FALSE(holder<TypeParam>().p);
  typename TypeParam::template shared<void> v = TypeParam::template make<thing>(1);
  v = typename TypeParam::template shared<void>(new thing(2));
  EXPECT_EQ(thing::order, std::vector<int>{1});
  typename TypeParam::template shared<const thing> c = TypeParam::template make<const thing>(3);
  EXPECT_EQ(c->value, 3);
}

/// A constructor that throws leaves nothing.
TYPED_TEST(shared, constructors_that_throw) {
  struct picky : thing {
    explicit picky(int& left) : thing(left) {
      if (--left < 0) throw left;
    }
  };
  int left = 0;
  EXPECT_THROW((void)TypeParam::template make<picky>(left), int);
  EXPECT_EQ(thing::alive, 0);
  static int copies;
  copies = 3;
  struct rare : thing {
    rare() = default;
    rare(const rare& o) : thing(o) {
      if (copies-- == 0) throw 1;
    }
  };
  EXPECT_THROW((void)TypeParam::template make<rare[]>(5UL, rare()), int);
  EXPECT_EQ(thing::alive, 0);
}

/// Destructors that look back at their pointers.
TYPED_TEST(shared, resets_within_destructors) {
  struct chain : thing {
    using thing::thing;
    ~chain() override {
      next.reset();
      EXPECT_TRUE(after.expired()) << "what we owned has ended when reset returns";
    }
    typename TypeParam::template shared<chain> next;
    typename TypeParam::template weak<chain> after;
  };
  auto head = TypeParam::template make<chain>(1);
  head->after = head->next = TypeParam::template make<chain>(2);
  head.reset();
  EXPECT_EQ(thing::order, (std::vector<int>{2, 1}));
}

}  // namespace

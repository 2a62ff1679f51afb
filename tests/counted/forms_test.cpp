// SPDX-License-Identifier: Apache-2.0
// Every form in which the standard lets a shared pointer begin: what compiles with the standard
// library's compiles with ours and does the same, and what must not take part in overload
// resolution takes none. What must not compile at all is in refused/.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "counted/families.hpp"
#include "support/soon.hpp"

// A handle as C libraries have them: this file never learns what it is.
struct handle;
namespace {
int storage[4];
int open_handles = 0;
int next_handle = 0;
handle* open_one() {
  ++open_handles;
  return reinterpret_cast<handle*>(&storage[next_handle++ % 4]);
}
int close_one(handle* h) {
  if (h != nullptr) --open_handles;
  return 0;
}

using namespace spolia::test;

struct closer {
  void operator()(handle* h) const noexcept { close_one(h); }
};

template <class F>
class forms : public testing::Test {
 public:
  ~forms() override { EXPECT_EQ(open_handles, 0); }
};
TYPED_TEST_SUITE(forms, families);

// ---- incomplete types

TYPED_TEST(forms, an_incomplete_type_with_a_deleter) {
  using P = typename TypeParam::template shared<handle>;
  handle* const raw = open_one();
  P p(raw, close_one);
  EXPECT_EQ(p.get(), raw);
  EXPECT_EQ(*TypeParam::template deleter<int (*)(handle*)>(p), close_one);
  P with_allocator(open_one(), closer{}, std::allocator<char>());
  EXPECT_EQ(open_handles, 2);
  with_allocator.reset(open_one(), [](handle* h) { close_one(h); });
  EXPECT_EQ(open_handles, 2);
  with_allocator.reset(open_one(), closer{}, std::allocator<int>());
  EXPECT_EQ(open_handles, 2);
  P null(static_cast<handle*>(nullptr), close_one);
  P null_constant(nullptr, close_one);
  EXPECT_FALSE(null || null_constant);
  EXPECT_EQ(null.use_count(), 1);
}

TYPED_TEST(forms, an_incomplete_type_from_unique_pointers) {
  using P = typename TypeParam::template shared<handle>;
  P p = std::unique_ptr<handle, int (*)(handle*)>(open_one(), close_one);
  p = std::unique_ptr<handle, closer>(open_one());
  EXPECT_EQ(open_handles, 1);
  closer by_reference;
  P q(std::unique_ptr<handle, closer&>(open_one(), by_reference));
  const closer constant;
  P r(std::unique_ptr<handle, const closer&>(open_one(), constant));
  typename TypeParam::template shared<void> v = std::unique_ptr<handle, closer>(open_one());
  EXPECT_EQ(open_handles, 4);
  auto deduced = TypeParam::deduced(std::unique_ptr<handle, closer>(open_one()));
  static_assert(std::is_same_v<decltype(deduced), P>);
}

TYPED_TEST(forms, an_incomplete_type_in_all_that_pointers_do) {
  using P = typename TypeParam::template shared<handle>;
  typename TypeParam::template weak<handle> w;
  std::map<P, int> ordered;
  std::unordered_set<P> hashed;
  {
    P p(open_one(), closer{});
    w = p;
    typename TypeParam::template shared<const handle> c = p;
    typename TypeParam::template shared<void> v = p;
    EXPECT_EQ(c, p);
    EXPECT_EQ(TypeParam::template cast_const<handle>(c), p);
    EXPECT_EQ(TypeParam::template cast_static<handle>(v), p);
    EXPECT_FALSE(p.owner_before(w) || w.owner_before(p));
    P alias(TypeParam::template make<int>(1), p.get());
    EXPECT_EQ(alias, p);
    ordered[p] = 1;
    hashed.insert(p);
    EXPECT_EQ(w.lock(), p);
    P moved = std::move(p);
    swap(moved, p);
    typename TypeParam::template atomic_shared<handle> place(p);
    typename TypeParam::template atomic_weak<handle> weak_place(w);
    EXPECT_EQ(place.load(), p);
    EXPECT_EQ(weak_place.load().lock(), p);
    place.store(P(open_one(), closer{}));
    P expected = p;
    EXPECT_FALSE(place.compare_exchange_strong(expected, p));
    EXPECT_NE(expected, p);
  }
  TypeParam::settle();
  EXPECT_EQ(open_handles, 1);
  ordered.clear();
  hashed.clear();
  EXPECT_TRUE(w.expired());
}

/// Of which a pointer is made before it is whole, and which knows itself.
struct late;
template <class F>
typename F::template shared<late> adopt(late* p, void (*end)(late*)) {
  return {p, end};
}
struct late : standard_family::self<late> {};

TEST(forms_of_the_standard, a_type_that_is_completed_later_knows_itself) {
  const auto p = adopt<standard_family>(new late, [](late* l) { delete l; });
  EXPECT_EQ(p->shared_from_this(), p);
}
struct our_late;
spolia::shared_ptr<our_late> adopt(our_late* p, void (*end)(our_late*)) { return {p, end}; }
struct our_late : spolia::enable_shared_from_this<our_late> {};
TEST(forms_of_spolia, a_type_that_is_completed_later_knows_itself) {
  const auto p = adopt(new our_late, [](our_late* l) { delete l; });
  EXPECT_EQ(p->shared_from_this(), p);
}

// ---- deleters

struct loud_end {
  loud_end() = default;
  loud_end(const loud_end&) = default;
  ~loud_end() noexcept(false) {}
  void operator()(int* p) const { delete p; }
};
struct unmovable {
  unmovable() = default;
  unmovable(const unmovable&) = delete;
  void operator()(int* p) const { delete p; }
};
struct counting {
  void operator()(int* p) {
    ++calls;
    delete p;
  }
  int calls = 0;
};

TYPED_TEST(forms, deleters_of_every_kind) {
  using P = typename TypeParam::template shared<int>;
  static_assert(std::is_constructible_v<P, int*, loud_end>);
  P p(new int(1), loud_end{});
  p.reset(new int(2), loud_end{}, std::allocator<int>());
  EXPECT_EQ(*p, 2);

  counting d;
  P(new int, std::ref(d)).reset();
  EXPECT_EQ(d.calls, 1);
  std::reference_wrapper<counting> wrapped(d);
  P(std::unique_ptr<int, counting&>(new int, d)).reset();
  EXPECT_EQ(d.calls, 2);
  P(std::unique_ptr<int, std::reference_wrapper<counting>>(new int, wrapped)).reset();
  EXPECT_EQ(d.calls, 3);
  P(std::unique_ptr<int, std::reference_wrapper<counting>&>(new int, wrapped)).reset();
  EXPECT_EQ(d.calls, 4);
  unmovable u;
  P(std::unique_ptr<int, unmovable&>(new int, u)).reset();
}

/// Its body does not compile with a nullptr_t.
TYPED_TEST(forms, deleters_that_are_generic) {
  using P = typename TypeParam::template shared<int>;
  int ended = 0;
  auto ends = [&ended](auto q) {
    ++ended;
    delete q;
  };
  P p(new int(1), ends);
  p.reset(new int(2), ends);
  p = P(new int(3), ends, std::allocator<int>());
  p.reset(new int(4), ends, std::allocator<int>());
  EXPECT_EQ(*p, 4);
  p = std::unique_ptr<int, decltype(ends)>(new int(5), ends);
  EXPECT_EQ(ended, 4);
  P q(p, p.get());
  P r(std::move(q), p.get());
  EXPECT_EQ(r, p);
  typename TypeParam::template shared<int[]> many(new int[2], [](auto a) { delete[] a; });
  many.reset(new int[3], [](auto a) { delete[] a; });
  static_assert(!std::is_constructible_v<P, long*, decltype(ends)>);
}

struct like_null {
  operator std::nullptr_t() const noexcept { return nullptr; }
};
/// Counts the calls for null, and what is null in each way that there is.
TYPED_TEST(forms, deleters_of_null_however_it_is_written) {
  using P = typename TypeParam::template shared<int>;
  int ended = 0;
  const auto ends = [&ended](int* p) { ended += p == nullptr ? 1 : 100; };
  const std::allocator<char> from;
  std::nullptr_t null = nullptr;
  const std::nullptr_t constant = nullptr;
  for (const P& p : {P(nullptr, ends), P(0, ends), P(NULL, ends), P({}, ends), P(null, ends),
                     P(constant, ends), P(std::move(constant), ends), P(like_null(), ends)}) {
    EXPECT_EQ(p.use_count(), 1);
    EXPECT_FALSE(p);
  }
  EXPECT_EQ(ended, 8);
  for (const P& p :
       {P(nullptr, ends, from), P(0, ends, from), P(NULL, ends, from), P({}, ends, from),
        P(null, ends, from), P(constant, ends, from), P(like_null(), ends, from)}) {
    EXPECT_EQ(p.use_count(), 1);
  }
  EXPECT_EQ(ended, 15);
}

/// By the standard's words, std::ref(r.get_deleter()), a wrapper is copied; the library of g++ 12
/// refers to it.
TEST(forms_of_spolia, a_reference_to_a_reference_wrapper_becomes_a_copy_of_it) {
  counting d;
  counting other;
  std::reference_wrapper<counting> wrapped(d);
  spolia::shared_ptr<int> p(
      std::unique_ptr<int, std::reference_wrapper<counting>&>(new int, wrapped));
  EXPECT_NE(spolia::get_deleter<std::reference_wrapper<counting>>(p), nullptr);
  wrapped = other;
  p.reset();
  EXPECT_EQ(d.calls, 1);
  EXPECT_EQ(other.calls, 0);
}

// ---- unique pointers whose pointer is a class

struct object : standard_family::self<object>, spolia::enable_shared_from_this<object> {
  int value = 7;
  static inline int alive = 0;
  object() { ++alive; }
  ~object() { --alive; }
};

/// What the standard asks of such a pointer, and the conversion that shared_ptr needs.
struct bare_pointer {
  bare_pointer(std::nullptr_t = nullptr) noexcept {}
  explicit bare_pointer(object* o) noexcept : at(o) {}
  operator object*() const noexcept { return at; }
  [[maybe_unused]] friend bool operator==(bare_pointer a, bare_pointer b) noexcept {
    return a.at == b.at;
  }
  [[maybe_unused]] friend bool operator==(bare_pointer a, std::nullptr_t) noexcept {
    return a.at == nullptr;
  }
  object* at = nullptr;
};
struct arrow_pointer : bare_pointer {
  using bare_pointer::bare_pointer;
  object* operator->() const noexcept { return at; }
};
struct full_pointer : arrow_pointer {
  using arrow_pointer::arrow_pointer;
  using element_type = object;
};
template <class P>
struct ends_class_pointer {
  using pointer = P;
  void operator()(P p) const { delete p.at; }
};

template <class F, class P, class T = object>
void adopt_class_pointer() {
  using owner = std::unique_ptr<object, ends_class_pointer<P>>;
  typename F::template shared<T> p = owner(P(new object));
  EXPECT_EQ(static_cast<const object*>(p.get())->value, 7);
  EXPECT_EQ(static_cast<typename F::template self<object>*>(
                const_cast<object*>(static_cast<const object*>(p.get())))
                ->weak_from_this()
                .use_count(),
            1);
  p = owner(P(new object));
  EXPECT_EQ(object::alive, 1);
  p = owner(P(nullptr));
  EXPECT_EQ(p.use_count(), 0);
  EXPECT_EQ(object::alive, 0);
}

TYPED_TEST(forms, unique_pointers_whose_pointer_is_a_class) {
  adopt_class_pointer<TypeParam, arrow_pointer>();
  adopt_class_pointer<TypeParam, full_pointer>();
  adopt_class_pointer<TypeParam, full_pointer, const object>();
  adopt_class_pointer<TypeParam, full_pointer, void>();
}
/// As the standard has it: the conversion is enough.
TEST(forms_of_spolia, unique_pointers_whose_pointer_has_only_the_conversion) {
  adopt_class_pointer<spolia_family, bare_pointer>();
  adopt_class_pointer<spolia_family, bare_pointer, const object>();
}

// ---- what takes part in overload resolution

struct base {};
struct derived : base {};

template <class F>
constexpr void check_arrays_and_conversions() {
  using std::is_constructible_v;
  using A = typename F::template shared<int[]>;
  using C = typename F::template shared<const int[]>;
  using N = typename F::template shared<int[3]>;
  using P = typename F::template shared<int>;
  static_assert(is_constructible_v<A, int*> && is_constructible_v<N, int*> &&
                is_constructible_v<C, int*>);
  static_assert(!is_constructible_v<A, int(*)[]> && !is_constructible_v<A, int(*)[3]> &&
                !is_constructible_v<N, int(*)[]> && !is_constructible_v<N, int(*)[3]>);
  static_assert(!is_constructible_v<A, const int*> && !is_constructible_v<A, void*> &&
                !is_constructible_v<A, long*> && !is_constructible_v<P, long*>);
  static_assert(is_constructible_v<A, int*, std::default_delete<int[]>> &&
                !is_constructible_v<A, int(*)[], std::default_delete<int[]>>);
  static_assert(is_constructible_v<C, A> && is_constructible_v<A, N> && !is_constructible_v<N, A> &&
                !is_constructible_v<A, C> && !is_constructible_v<P, A>);
  using V = typename F::template shared<volatile int[]>;
  using CV = typename F::template shared<const volatile int[]>;
  static_assert(is_constructible_v<C, N> && is_constructible_v<V, N> && is_constructible_v<CV, N> &&
                is_constructible_v<V, A> && is_constructible_v<CV, C> &&
                is_constructible_v<CV, V> && !is_constructible_v<C, V> &&
                !is_constructible_v<A, typename F::template shared<const int[3]>>);
  static_assert(is_constructible_v<A, std::unique_ptr<int[]>> &&
                !is_constructible_v<P, std::unique_ptr<int[]>> &&
                !is_constructible_v<A, std::unique_ptr<int>>);
  using B = typename F::template shared<base>;
  using D = typename F::template shared<derived>;
  static_assert(std::is_convertible_v<D, B> && !is_constructible_v<D, B> &&
                !is_constructible_v<typename F::template shared<base[]>, derived*>);
  static_assert(std::is_convertible_v<std::unique_ptr<derived>, B> &&
                !is_constructible_v<D, std::unique_ptr<base>>);
}

template <class F>
constexpr void check_deleters() {
  using std::is_constructible_v;
  using P = typename F::template shared<int>;
  static_assert(is_constructible_v<P, int*, counting> &&
                is_constructible_v<P, int*, counting, std::allocator<int>> &&
                is_constructible_v<P, std::nullptr_t, std::default_delete<int>> &&
                !is_constructible_v<P, long*, std::default_delete<long>> &&
                !is_constructible_v<P, int, counting> && !is_constructible_v<P, long, counting> &&
                !is_constructible_v<P, int, counting, std::allocator<int>>);
  static_assert(!is_constructible_v<P, std::unique_ptr<int, unmovable>> &&
                !std::is_assignable_v<P&, std::unique_ptr<int, unmovable>> &&
                is_constructible_v<P, std::unique_ptr<int, unmovable&>> &&
                std::is_assignable_v<P&, std::unique_ptr<int, counting>>);
  static_assert(!is_constructible_v<P, std::unique_ptr<int>&> &&
                !is_constructible_v<P, const std::unique_ptr<int>>);
}
/// Of a deleter that is made in the place of the parameter, and would have to go on from there.
template <class P>
concept takes_unmovable_in_place = requires(int* p) { P(p, unmovable{}); };

/// In the standard, but an error in the constructor's body with the library of g++ 12.
constexpr void check_deleters_as_specified() {
  using std::is_constructible_v;
  using P = spolia::shared_ptr<int>;
  struct of_nothing {};
  struct of_long {
    void operator()(long*) const {}
  };
  static_assert(!takes_unmovable_in_place<P> && !is_constructible_v<P, int*, unmovable> &&
                !is_constructible_v<P, int*, of_nothing> && !is_constructible_v<P, int*, of_long> &&
                !is_constructible_v<P, std::nullptr_t, of_nothing> &&
                !is_constructible_v<P, std::nullptr_t&, of_nothing> &&
                !is_constructible_v<P, const std::nullptr_t&, of_nothing> &&
                !is_constructible_v<P, std::nullptr_t, unmovable> &&
                !is_constructible_v<P, std::nullptr_t, of_nothing, std::allocator<int>> &&
                !is_constructible_v<P, int*, unmovable, std::allocator<int>>);
  static_assert(!is_constructible_v<spolia::shared_ptr<void>, void*> &&
                !is_constructible_v<spolia::shared_ptr<const void>, const void*> &&
                is_constructible_v<spolia::shared_ptr<void>, int*>);
}

TYPED_TEST(forms, that_take_no_part) {
  check_arrays_and_conversions<TypeParam>();
  check_deleters<TypeParam>();
  check_deleters_as_specified();
}
// ---- functions for code that calls no members

template <class Place, class P>
void use_functions(P one, P two) {
  Place place(one);
  EXPECT_EQ(atomic_is_lock_free(&place), place.is_lock_free());
  EXPECT_EQ(atomic_load(&place), one);
  EXPECT_EQ(atomic_load_explicit(&place, std::memory_order_acquire), one);
  atomic_store(&place, two);
  EXPECT_EQ(atomic_exchange(&place, one), two);
  atomic_store_explicit(&place, two, std::memory_order_release);
  EXPECT_EQ(atomic_exchange_explicit(&place, one, std::memory_order_acq_rel), two);
  P expected = two;
  EXPECT_FALSE(atomic_compare_exchange_strong(&place, &expected, two));
  EXPECT_EQ(expected, one);
  EXPECT_TRUE(atomic_compare_exchange_strong(&place, &expected, two));
  while (!atomic_compare_exchange_weak(&place, &(expected = two), one)) continue;
  constexpr auto order = std::memory_order_acquire;
  EXPECT_TRUE(atomic_compare_exchange_strong_explicit(&place, &expected, two,
                                                      std::memory_order_acq_rel, order) ||
              expected == one);
  expected = place.load();
  while (!atomic_compare_exchange_weak_explicit(&place, &expected, one, std::memory_order_acq_rel,
                                                order)) {
    continue;
  }
  EXPECT_EQ(atomic_load(&place), one);
  atomic_notify_one(&place);
  atomic_notify_all(&place);
  atomic_wait(&place, two);  // it holds another one, so they return
  atomic_wait_explicit(&place, two, order);
  atomic_store(&place, nullptr);
  EXPECT_EQ(atomic_load(&place), nullptr);
}

TYPED_TEST(forms, functions_for_locations) {
  if (TypeParam::may_race) GTEST_SKIP() << "the standard library's";
  using place = typename TypeParam::template atomic_shared<int>;
  use_functions<place>(TypeParam::template make<int>(1), TypeParam::template make<int>(2));
  typename TypeParam::template shared<int> p = TypeParam::template make<int>(3);
  typename TypeParam::template atomic_weak<int> weak_place(p);
  EXPECT_EQ(atomic_load(&weak_place).lock(), p);
  atomic_store(&weak_place, typename TypeParam::template weak<int>());
  EXPECT_TRUE(atomic_load(&weak_place).expired());
}
TEST(forms_of_spolia, functions_for_locations_of_thin_pointers) {
  use_functions<spolia::atomic_thin_ptr<int>>(spolia::make_thin<int>(1), spolia::make_thin<int>(2));
}

/// A thread waits until `place` no longer holds `one`, and is told so by `notify`. Without that it
/// would sleep on: the call of the member at the end is for the join where the test fails.
template <class Place, class P, class Wait, class Notify>
void wake_a_waiter(Place& place, const P& one, const P& two, Wait wait, Notify notify) {
  place.store(one);
  std::atomic<bool> woken{false};
  std::thread waiter([&] {
    wait(&place, one);
    EXPECT_EQ(atomic_load(&place), two) << "the wait ended early";
    woken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(woken);
  atomic_store(&place, two);
  notify(&place);
  EXPECT_TRUE(soon([&] { return woken.load(); })) << "nothing has woken the thread that waits";
  place.notify_all();
  waiter.join();
}
template <class Place, class P>
void wake_waiters(const P& one, const P& two) {
  Place place;
  const auto wait = [](const Place* at, const P& old) { atomic_wait(at, old); };
  const auto wait_explicit = [](const Place* at, const P& old) {
    atomic_wait_explicit(at, old, std::memory_order_acquire);
  };
  wake_a_waiter(place, one, two, wait, [](Place* at) { atomic_notify_one(at); });
  wake_a_waiter(place, one, two, wait_explicit, [](Place* at) { atomic_notify_all(at); });
}

TYPED_TEST(forms, functions_that_wait_and_wake) {
  if (TypeParam::may_race) GTEST_SKIP() << "the standard library's";
  wake_waiters<typename TypeParam::template atomic_shared<int>>(TypeParam::template make<int>(1),
                                                                TypeParam::template make<int>(2));
}
TEST(forms_of_spolia, functions_that_wait_and_wake_about_thin_pointers) {
  wake_waiters<spolia::atomic_thin_ptr<int>>(spolia::make_thin<int>(1), spolia::make_thin<int>(2));
}

// ---- nothing is looked for by the types that a type is made of

struct never_whole;
template <class T>
struct bomb {
  T whole;  // an error wherever this type is completed
};
using dud = bomb<never_whole>*;

TEST(forms_of_spolia, complete_no_type_that_they_need_not_know) {
  const auto p = spolia::make_shared<dud>(nullptr);
  const auto q = spolia::allocate_shared<dud>(std::allocator<int>(), nullptr);
  const auto many = spolia::make_shared<dud[]>(3);
  const auto few = spolia::make_shared_for_overwrite<dud[3]>();
  const spolia::shared_ptr<dud> r(new dud(nullptr));
  const spolia::shared_ptr<dud> s(new dud(nullptr), std::default_delete<dud>());
  // Through members: for an operator the language itself would look there.
  const dud* const all[] = {p.get(), q.get(), many.get() + 2, r.get(), s.get()};
  for (const dud* const one : all) EXPECT_TRUE(*one == nullptr);
  EXPECT_TRUE(few.get() != nullptr);
  spolia::atomic_shared_ptr<dud> place(p);
  place.wait(q);
  place.notify_all();
  place.store(q);
  const spolia::private_ptr<dud> here(place);
  EXPECT_TRUE(here.get() == q.get());
  const auto thin = spolia::make_thin<dud>(nullptr);
  spolia::atomic_thin_ptr<dud> thin_place(thin);
  thin_place.notify_one();
  const spolia::private_thin_ptr<dud> there(thin_place);
  EXPECT_TRUE(there.get() == thin.get());
  const spolia::weak_ptr<dud> w(p);
  EXPECT_TRUE(w.lock().get() == p.get());
}

/// Not one of our pointers, though it has a base or a template argument of our namespace, and a
/// member by the name of one of theirs.
struct door : spolia::enable_shared_from_this<door> {
  bool lock() const { return number > 0; }
  int number = 0;
};
template <class P>
struct lockable_holder {
  bool lock() const { return held != nullptr; }
  P held;
  int number = 0;
};

TEST(forms_of_spolia, leave_the_swapping_of_users_types_alone) {
  using std::swap;
  door a;
  door b;
  b.number = 3;
  swap(a, b);
  EXPECT_EQ(a.number, 3);
  std::vector<lockable_holder<spolia::shared_ptr<int>>> some(5);
  for (int i = 0; i < 5; ++i) some[static_cast<std::size_t>(i)].number = 5 - i;
  std::sort(some.begin(), some.end(), [](auto& x, auto& y) { return x.number < y.number; });
  EXPECT_EQ(some.front().number, 1);
  spolia::weak_ptr<int> w;
  const auto p = spolia::make_shared<int>(1);
  spolia::weak_ptr<int> v(p);
  swap(w, v);
  EXPECT_EQ(w.lock(), p);
}

/// Derived from a pointer, with more to it, and with a member by the name of one of its base's.
template <class P>
struct numbered : P {
  numbered() = default;
  numbered(P of, int n) : P(std::move(of)), number(n) {}
  int get() const { return number; }
  int number = 0;
};

template <class P>
void swap_what_derives_from(P of) {
  using std::swap;
  numbered<P> a(std::move(of), 1);
  numbered<P> b;
  swap(a, b);
  EXPECT_EQ(a.number, 0);
  EXPECT_EQ(b.number, 1);
  std::ranges::swap(a, b);
  EXPECT_EQ(a.number, 1);
  P plain;
  swap(static_cast<P&>(a), plain);
  EXPECT_EQ(a.number, 1);
  if constexpr (requires { a == b; }) {
    EXPECT_TRUE(a == b && a == nullptr && (a <=> nullptr) == 0 && (a <=> b) == 0);
    EXPECT_TRUE(plain != a && a < plain && plain > nullptr);
    std::ostringstream out;
    out << a << plain;
    std::ostringstream expected;
    expected << static_cast<P&>(a).get() << plain.get();
    EXPECT_EQ(out.str(), expected.str());
  }
}

TYPED_TEST(forms, what_derives_from_pointers_is_swapped_whole_and_compared_as_they_are) {
  const auto p = TypeParam::template make<int>(1);
  swap_what_derives_from(p);
  swap_what_derives_from(typename TypeParam::template weak<int>(p));
}
TEST(forms_of_spolia, what_derives_from_pointers_is_swapped_whole_and_compared_as_they_are) {
  swap_what_derives_from(spolia::private_ptr<int>(spolia::make_shared<int>(1)));
  swap_what_derives_from(spolia::make_thin<int>(1));
  swap_what_derives_from(spolia::private_thin_ptr<int>(spolia::make_thin<int>(1)));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// What the standard says about the two faces that a compiler can check.

#include <gtest/gtest.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>
#include <spolia/standard.hpp>

namespace {

struct node : spolia::hazard_pointer_obj_base<node> {
  int value = 0;
};
struct item : spolia::rcu_obj_base<item> {
  int value = 0;
};
using hazards = spolia::hazard_pointer;

// [saferecl.hp.holder]: move-only, and nothing of it throws but make_hazard_pointer.
static_assert(std::is_nothrow_default_constructible_v<hazards>);
static_assert(std::is_nothrow_move_constructible_v<hazards>);
static_assert(std::is_nothrow_move_assignable_v<hazards>);
static_assert(!std::is_copy_constructible_v<hazards> && !std::is_copy_assignable_v<hazards>);
static_assert(std::is_nothrow_destructible_v<hazards> && std::is_nothrow_swappable_v<hazards>);
static_assert(!std::is_constructible_v<hazards, std::nullptr_t>);

template <class Atomic>
constexpr bool reads_from() {
  return requires(hazards& h, const hazards& c, node*& p, const node* k, const Atomic& source) {
    { c.empty() } noexcept -> std::same_as<bool>;
    { h.protect(source) } noexcept -> std::same_as<node*>;
    { h.try_protect(p, source) } noexcept -> std::same_as<bool>;
    { h.reset_protection(k) } noexcept -> std::same_as<void>;
    { h.reset_protection(nullptr) } noexcept -> std::same_as<void>;
    { h.reset_protection() } noexcept -> std::same_as<void>;
    { h.swap(h) } noexcept -> std::same_as<void>;
  };
}
static_assert(reads_from<std::atomic<node*>>());
static_assert(reads_from<spolia::atomic<node*>>());

static_assert(std::same_as<decltype(spolia::make_hazard_pointer()), hazards>);
static_assert(!noexcept(spolia::make_hazard_pointer()));
static_assert(requires(hazards& h, std::span<hazards> all) {
  { spolia::swap(h, h) } noexcept -> std::same_as<void>;
  { spolia::make_hazard_pointer_batch(all) } -> std::same_as<void>;
  { spolia::clear_hazard_pointer_batch(all) } noexcept -> std::same_as<void>;
});
static_assert(!noexcept(spolia::make_hazard_pointer_batch(std::span<hazards>())));

// [saferecl.hp.base], [saferecl.rcu.base]
template <class Base>
constexpr bool only_for_deriving() {
  return !std::is_default_constructible_v<Base> && !std::is_copy_constructible_v<Base> &&
         !std::is_move_constructible_v<Base> && !std::is_copy_assignable_v<Base> &&
         !std::is_move_assignable_v<Base> && !std::is_destructible_v<Base>;
}
static_assert(only_for_deriving<spolia::hazard_pointer_obj_base<node>>());
static_assert(only_for_deriving<spolia::rcu_obj_base<item>>());
static_assert(std::is_copy_constructible_v<node> && std::is_copy_assignable_v<node>);
static_assert(std::is_nothrow_move_constructible_v<node> &&
              std::is_nothrow_move_assignable_v<node>);

struct retires {
  template <class T>
  static constexpr bool with_default = requires(T& t) {
    { t.retire() } noexcept -> std::same_as<void>;
    { t.retire(std::default_delete<T>()) } noexcept -> std::same_as<void>;
  };
};
static_assert(retires::with_default<node> && retires::with_default<item>);
static_assert(requires(item& i, spolia::rcu_domain& d) {
  { i.retire(std::default_delete<item>(), d) } noexcept -> std::same_as<void>;
});

// An rcu_obj_base is trivially copyable if its deleter is.
static_assert(std::is_trivially_copyable_v<item>);
static_assert(std::is_trivially_copyable_v<spolia::rcu_obj_base<item>>);
struct remembering_deleter {
  remembering_deleter() = default;
  remembering_deleter(const remembering_deleter&) {}
  remembering_deleter& operator=(const remembering_deleter&) = default;
  template <class T>
  void operator()(T* p) const {
    delete p;
  }
};
struct other_item : spolia::rcu_obj_base<other_item, remembering_deleter> {};
static_assert(!std::is_trivially_copyable_v<other_item>);

// A stateless deleter takes no room.
static_assert(sizeof(spolia::rcu_obj_base<item>) == 4 * sizeof(void*));
static_assert(sizeof(spolia::hazard_pointer_obj_base<node>) == 4 * sizeof(void*));
static_assert(sizeof(hazards) == sizeof(void*));

// The type may be incomplete until a member is used; and which types are protectable?
struct incomplete;
struct names_it : spolia::hazard_pointer_obj_base<names_it> {
  std::atomic<incomplete*>* later = nullptr;
};
struct derived_further : node {};
struct twice_a : spolia::hazard_pointer_obj_base<twice_a> {};
struct twice : twice_a, spolia::hazard_pointer_obj_base<twice> {};
struct hidden : private spolia::hazard_pointer_obj_base<hidden> {};
struct shared_base : virtual spolia::hazard_pointer_obj_base<shared_base> {};
struct plain_type {};
static_assert(spolia::hazard_protectable<node> && spolia::hazard_protectable<names_it>);
static_assert(!spolia::hazard_protectable<derived_further>, "it is its base that is protectable");
static_assert(!spolia::hazard_protectable<twice> && !spolia::hazard_protectable<hidden>);
static_assert(!spolia::hazard_protectable<shared_base> && !spolia::hazard_protectable<plain_type>);
static_assert(!spolia::hazard_protectable<item> && !spolia::hazard_protectable<int>);
struct rcu_twice : item, spolia::rcu_obj_base<rcu_twice> {};
struct rcu_hidden : private spolia::rcu_obj_base<rcu_hidden> {};
struct rcu_shared : virtual spolia::rcu_obj_base<rcu_shared> {};
static_assert(spolia::rcu_protectable<item> && !spolia::rcu_protectable<node>);
static_assert(!spolia::rcu_protectable<rcu_twice> && !spolia::rcu_protectable<rcu_hidden>);
static_assert(!spolia::rcu_protectable<rcu_shared>);
/// Both at once is fine.
struct both : spolia::hazard_pointer_obj_base<both>, spolia::rcu_obj_base<both> {};
static_assert(spolia::hazard_protectable<both> && spolia::rcu_protectable<both>);

// [saferecl.rcu.domain]
using domain = spolia::rcu_domain;
static_assert(!std::is_copy_constructible_v<domain> && !std::is_copy_assignable_v<domain>);
static_assert(!std::is_move_constructible_v<domain> && !std::is_move_assignable_v<domain>);
static_assert(requires(domain& d) {
  { d.lock() } noexcept -> std::same_as<void>;
  { d.try_lock() } noexcept -> std::same_as<bool>;
  { d.unlock() } noexcept -> std::same_as<void>;
  { spolia::rcu_default_domain() } noexcept -> std::same_as<domain&>;
  { spolia::rcu_synchronize() } noexcept -> std::same_as<void>;
  { spolia::rcu_synchronize(d) } noexcept -> std::same_as<void>;
  { spolia::rcu_barrier() } noexcept -> std::same_as<void>;
  { spolia::rcu_barrier(d) } noexcept -> std::same_as<void>;
});
static_assert(requires(int* p, void (*end)(int*), domain& d) {
  { spolia::rcu_retire(p) } -> std::same_as<void>;
  { spolia::rcu_retire(p, end) } -> std::same_as<void>;
  { spolia::rcu_retire(p, end, d) } -> std::same_as<void>;
  { spolia::rcu_retire(p, std::default_delete<int>(), d) } -> std::same_as<void>;
});
static_assert(!noexcept(spolia::rcu_retire(static_cast<int*>(nullptr))));

// spolia::standard is whatever the standard library has, and ours elsewhere.
static_assert(spolia::standard::hazard_pointers_are_std ||
              std::same_as<spolia::standard::hazard_pointer, spolia::hazard_pointer>);
static_assert(spolia::standard::rcu_is_std ||
              std::same_as<spolia::standard::rcu_domain, spolia::rcu_domain>);

/// Its names are lookups of its own: nothing of the bases may catch them.
int object() { return 1; }
int end() { return 2; }
struct place {
  int links = 3;
};
struct with_short_names : spolia::hazard_pointer_obj_base<with_short_names>,
                          spolia::rcu_obj_base<with_short_names> {
  int sum() const { return object() + end() + place().links; }
};

TEST(standard_signatures, the_bases_bring_no_names_along) {
  EXPECT_EQ(with_short_names().sum(), 6);
}

TEST(standard_signatures, a_domain_is_lockable) {
  domain& d = spolia::rcu_default_domain();
  EXPECT_EQ(&d, &spolia::rcu_default_domain());
  const std::scoped_lock one(d);
  std::unique_lock two(d, std::try_to_lock);
  EXPECT_TRUE(two.owns_lock());
}

}  // namespace

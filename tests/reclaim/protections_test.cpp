// SPDX-License-Identifier: Apache-2.0
/// \file What guards read: pointers together with their protections, over every scheme.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/map/detail/marked_ptr.hpp>
#include <spolia/reclaim.hpp>

#include "reclaim/contract.hpp"
#include "support/all_domains.hpp"
#include "support/ledger.hpp"

namespace {

using namespace spolia;        // NOLINT: a test of all of it
using namespace spolia::test;  // NOLINT

template <class Domain>
struct chained : Domain::header {
  chained(ledger& book, std::uint64_t v) : value(book, v) {}
  test::tracked value;
  atomic<chained*> next{nullptr};
};

template <class Domain>
inline constexpr bool in_slots = protects_in_slots<typename Domain::scheme_type>;

template <class Domain>
class protections : public testing::Test {
 public:
  using node_type = chained<Domain>;

  /// first -> second -> third
  void SetUp() override {
    node_type* below = nullptr;
    for (std::uint64_t v = 3; v >= 1; --v) {
      node_type* const n = d.template make<node_type>(book, v);
      n->next.store_relaxed(below);
      below = n;
    }
    head.store_relaxed(below);
  }
  void TearDown() override {
    for (node_type* n = head.load_relaxed(); n != nullptr;) {
      node_type* const after = n->next.load_relaxed();
      d.destroy(n);
      n = after;
    }
  }

  ledger book;
  Domain d{eager<Domain>()};
  atomic<node_type*> head{nullptr};
};
TYPED_TEST_SUITE(protections, first_domains<15>, domain_names);

/// It is read as a pointer is, by any scheme, and is no pointer.
TYPED_TEST(protections, compare_and_are_read_as_pointers) {
  using node = typename TestFixture::node_type;
  auto guard = this->d.enter();
  auto [first, second, none, seven] = guard.read([&](auto& phase) {
    auto a = phase.protect(this->head);
    auto b = phase.protect(a->next);
    typename std::remove_reference_t<decltype(phase)>::template protected_ptr<node*> c;
    return phase.keep(std::move(a), std::move(b), std::move(c), 7);
  });
  using held = decltype(first);
  static_assert(std::is_same_v<held, typename TypeParam::template protected_ptr<node*>>);
  static_assert(!std::is_convertible_v<held, node*> && !std::is_convertible_v<held, const void*> &&
                !std::is_convertible_v<held, bool> && !std::is_constructible_v<held, node*>);
  static_assert(!std::is_copy_constructible_v<held> && !std::is_copy_assignable_v<held> &&
                std::is_nothrow_move_constructible_v<held> &&
                std::is_nothrow_move_assignable_v<held> && std::is_default_constructible_v<held>);
  static_assert(in_slots<TypeParam> ||
                (sizeof(held) == sizeof(node*) && std::is_trivially_destructible_v<held>));
  EXPECT_EQ(seven, 7);
  EXPECT_TRUE(first);
  EXPECT_FALSE(none);
  EXPECT_TRUE(none == nullptr && nullptr == none && first != nullptr);
  EXPECT_TRUE(first != second && first == this->head.load_relaxed());
  const node* const raw = first.get();
  EXPECT_TRUE(first == raw && raw == first && second != raw);
  EXPECT_EQ(first->value.read(), 1U);
  EXPECT_EQ((*second).value.read(), 2U);
}

TYPED_TEST(protections, are_moved_on) {
  auto guard = this->d.enter();
  auto prev = hold(guard, this->head);
  auto cur = hold(guard, prev->next);
  std::uint64_t sum = prev->value.read();
  while (cur != nullptr) {
    sum += cur->value.read();
    prev = std::move(cur);
    EXPECT_EQ(cur, nullptr) << "what was moved from is null";
    cur = hold(guard, prev->next);
  }
  EXPECT_EQ(sum, 6U);
  auto& same = prev;
  prev = std::move(same);
  EXPECT_EQ(prev->value.read(), 3U);
  prev = nullptr;
  EXPECT_FALSE(prev);
}

/// A container's iterators are compared, too, where the comparisons of protections are found.
TYPED_TEST(protections, lie_in_containers) {
  using node = typename TestFixture::node_type;
  auto guard = this->d.enter();
  std::vector<typename TypeParam::template protected_ptr<node*>> all;
  all.push_back(hold(guard, this->head));
  all.push_back(hold(guard, all.front()->next));
  const node* const first = all.front().get();
  std::rotate(all.begin(), all.begin() + 1, all.end());
  EXPECT_EQ(std::find(all.begin(), all.end(), first) - all.begin(), 1);
  std::uint64_t sum = 0;
  for (const auto& p : all) sum = 10 * sum + p->value.read();
  EXPECT_EQ(sum, 21U);
}

/// Each protection holds its own block, whichever ends first.
TYPED_TEST(protections, hold_their_blocks_while_others_come_and_go) {
  using node = typename TestFixture::node_type;
  {
    auto guard = this->d.enter();
    auto first = hold(guard, this->head);
    auto second = hold(guard, first->next);
    auto third = hold(guard, second->next);
    this->head.store_release(nullptr);
    for (node* n : {first.get(), second.get(), third.get()}) retire_tracked(guard, n);
    second = nullptr;
    atomic<node*> other(this->d.template make<node>(this->book, 9U));
    {
      [[maybe_unused]] auto more = hold(guard, other);
      [[maybe_unused]] auto still_more = hold(guard, other);
    }
    for (int i = 0; i < 3; ++i) second = hold(guard, other);
    retire_tracked(guard, other.exchange_acq_rel(nullptr));
    for (int i = 0; i < 50; ++i) {
      retire_tracked(guard, this->d.template make<node>(this->book, 0U));
    }
    EXPECT_EQ(first->value.read() + third->value.read(), 4U);
    EXPECT_EQ(second->value.read(), 9U);
  }
}

/// A list that one thread changes: it marks a node's link, and takes the node out then.
template <class Domain>
class marked_list {
  struct node : Domain::header {
    node(ledger& book, std::uint64_t v) : value(book, v) {}
    test::tracked value;
    atomic<detail::map::marked_ptr<node>> next;
  };
  using link = detail::map::marked_ptr<node>;

 public:
  marked_list(Domain& d, ledger& book) : d_(d), book_(book) {}
  marked_list(const marked_list&) = delete;
  marked_list& operator=(const marked_list&) = delete;
  ~marked_list() {
    while (node* const n = head_.load_relaxed().get()) {
      head_.store_relaxed(n->next.load_relaxed());
      d_.destroy(n);
    }
  }

  void push(std::uint64_t v) {
    node* const n = d_.template make<node>(book_, v);
    n->next.store_relaxed(head_.load_relaxed());
    // release → the acquires in protect(): the node arrives constructed.
    head_.store_release(link(n));
  }

  /// Takes out the node behind so many others.
  void erase(unsigned behind) {
    auto guard = d_.enter();
    atomic<link>* before = &head_;
    for (; behind > 0; --behind) before = &before->load_relaxed().get()->next;
    node* const n = before->load_relaxed().get();
    const link after = n->next.load_relaxed();
    // release → the acquires in protect(): a walk that finds no mark is in time, since the node is
    // taken out, and retired, after this.
    n->next.store_release(after.with_mark());
    before->store_release(after);
    retire_tracked(guard, n);
  }

  /// Two nodes at a time, from the head on; returns how many.
  std::uint64_t walk() {
    auto guard = d_.enter();
    return guard.read([&](auto& phase) {
      for (;;) {
        std::uint64_t nodes = 0;
        if (walk_on(phase, nodes)) return nodes;
      }
    });
  }

 private:
  /// False: it stood on a node that was taken out.
  template <class Phase>
  bool walk_on(Phase& phase, std::uint64_t& nodes) {
    typename Phase::template protected_ptr<link> prev;
    for (auto cur = phase.protect(head_); cur != nullptr; ++nodes) {
      auto next = phase.protect(cur->next);
      if (next.get().marked()) return false;
      const std::uint64_t here = cur->value.read();
      if (prev != nullptr && prev->value.read() <= here) std::abort();
      prev = std::move(cur);
      cur = std::move(next);
    }
    return true;
  }

  Domain& d_;
  ledger& book_;
  atomic<link> head_;
};

template <class Domain>
class raced_protections : public testing::Test {};
TYPED_TEST_SUITE(raced_protections, raced_domains, domain_names);

TYPED_TEST(raced_protections, walk_by_two_pointers_while_nodes_are_taken_out) {
  ledger book;
  {
    TypeParam d(eager<TypeParam>());
    marked_list<TypeParam> list(d, book);
    std::uint64_t made = 0;
    for (int i = 0; i < 6; ++i) list.push(++made);
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> walked{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 2; ++t) {
      readers.emplace_back([&] {
        while (!over.load(std::memory_order_relaxed)) {
          walked.fetch_add(list.walk(), std::memory_order_relaxed);
        }
      });
    }
    // At most so many operations: schemes may keep a writer back while readers read.
    for (int i = 0; i < 20'000 || walked.load(std::memory_order_relaxed) == 0; ++i) {
      list.erase(static_cast<unsigned>(i) % 5);
      list.push(++made);
    }
    over.store(true, std::memory_order_relaxed);
    for (std::thread& t : readers) t.join();
    EXPECT_GT(walked.load(), 0U);
  }
  book.expect_empty();
}

template <class Scheme>
class slotted : public testing::Test {
 public:
  using domain_type = domain<Scheme, batch>;
  struct node_type : domain_type::header {
    atomic<node_type*> next{nullptr};
  };
  using held_type = typename domain_type::template protected_ptr<node_type*>;

  void TearDown() override {
    d.destroy(head.load_relaxed()->next.load_relaxed());
    d.destroy(head.load_relaxed());
  }

  domain_type d;
  atomic<node_type*> head{[this] {
    node_type* const first = d.template make<node_type>();
    first->next.store_relaxed(d.template make<node_type>());
    return first;
  }()};
};
using slotted_schemes =
    testing::Types<hazard_pointers, hazard_eras, wait_free_eras, neutralization_plus>;
TYPED_TEST_SUITE(slotted, slotted_schemes);

TYPED_TEST(slotted, a_guard_has_eight_slots_and_says_when_there_is_none_left) {
  auto guard = this->d.enter();
  std::vector<typename TestFixture::held_type> held;
  for (unsigned i = 0; i < guard_slots; ++i) held.push_back(hold(guard, this->head));
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      static_cast<void>(hold(guard, this->head));
      FAIL() << "a ninth slot";
    } catch (const std::length_error& e) {
      EXPECT_STREQ(e.what(), "a guard protects 8 blocks at one time: end a protection before");
    }
    EXPECT_THROW(static_cast<void>(guard.announce(held[0].get())), std::length_error);
  }
  auto further = this->d.enter();
  EXPECT_NE(hold(further, this->head), nullptr) << "a further guard has slots of its own";
  held[3] = nullptr;
  held[5] = hold(guard, this->head);
  held[3] = hold(guard, this->head);
  EXPECT_THROW(static_cast<void>(hold(guard, this->head)), std::length_error);
}

/// A protection that ends after its guard gives back nothing that another guard has.
TYPED_TEST(slotted, a_protection_may_end_after_its_guard) {
  typename TestFixture::held_type late;
  for (int i = 0; i < 3; ++i) {
    auto guard = this->d.enter();
    late = hold(guard, this->head);
    auto second = hold(guard, late->next);
    late = nullptr;
    late = hold(guard, this->head);
    EXPECT_NE(second.get(), late.get());
    if (i == 1) auto moved = std::move(guard);
  }
  auto guard = this->d.enter();
  auto first = hold(guard, this->head);
  late = nullptr;
  std::array<decltype(first), guard_slots - 1> rest;
  for (auto& p : rest) p = hold(guard, this->head);
  EXPECT_THROW(static_cast<void>(hold(guard, this->head)), std::length_error)
      << "a slot of this guard was given back by the late protection";
}

#if SPOLIA_CHECKS
const char* heard_of_protections = nullptr;
void hear_of_protections(const char* what, std::uint32_t) { heard_of_protections = what; }

/// What is reported while f runs, or "".
template <class F>
std::string_view reported(F&& f) {
  heard_of_protections = "";
  const auto before = core::set_misuse_handler(&hear_of_protections);
  f();
  core::set_misuse_handler(before);
  return heard_of_protections;
}

constexpr std::string_view lost = "a pointer is read from a block that is no longer protected";

template <class Scheme>
class pointer_slotted : public slotted<Scheme> {};
using pointer_slotted_schemes = testing::Types<hazard_pointers, hazard_eras, wait_free_eras>;
TYPED_TEST_SUITE(pointer_slotted, pointer_slotted_schemes);

TYPED_TEST(pointer_slotted, a_link_in_a_block_that_is_not_protected_any_more_is_reported) {
  auto guard = this->d.enter();
  auto* const first = guard.protect(this->head).get();
  EXPECT_EQ(reported([&] { static_cast<void>(guard.protect(first->next)); }), lost);
  auto again = guard.protect(this->head);
  EXPECT_EQ(reported([&] { static_cast<void>(guard.protect(first->next)); }), "")
      << "it is protected again";
  auto second = guard.protect(again->next);
  auto* const gone = again.get();
  again = std::move(second);
  const auto linked = [] { return true; };
  EXPECT_EQ(reported([&] { static_cast<void>(guard.step(gone->next, again, linked)); }), lost);
}

TYPED_TEST(pointer_slotted, a_step_from_a_block_that_is_no_longer_linked_leads_nowhere) {
  auto guard = this->d.enter();
  auto at = guard.protect(this->head);
  if constexpr (std::is_same_v<TypeParam, hazard_pointers>) {  // others ask if the era has changed
    EXPECT_FALSE(guard.step(at->next, at, [] { return false; }));
    EXPECT_EQ(at, nullptr);
    at = guard.protect(this->head);
  }
  EXPECT_TRUE(guard.step(at->next, at, [] { return true; }));
  EXPECT_NE(at, nullptr);
}

TYPED_TEST(pointer_slotted, another_guard_of_the_thread_protects_as_well) {
  auto outer = this->d.enter();
  auto* const first = outer.protect(this->head).get();
  auto inner = this->d.enter();
  {
    const auto here = inner.protect(this->head);
    EXPECT_EQ(reported([&] { static_cast<void>(outer.protect(first->next)); }), "");
  }
  auto* const again = outer.protect(this->head).get();
  EXPECT_EQ(reported([&] { static_cast<void>(outer.protect(again->next)); }), lost);
}

TYPED_TEST(slotted, a_protection_that_is_used_after_its_guard_is_reported) {
  typename TestFixture::held_type late;
  {
    auto guard = this->d.enter();
    late = hold(guard, this->head);
    EXPECT_EQ(reported([&] { static_cast<void>(late.get()); }), "");
  }
  EXPECT_EQ(reported([&] { static_cast<void>(late.get()); }),
            "a protection is used after its guard has ended");
}
#endif

}  // namespace

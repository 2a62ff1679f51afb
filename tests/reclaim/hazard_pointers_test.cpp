// SPDX-License-Identifier: Apache-2.0
// Hazard pointers: what slots protect, what they do not, and how much can wait.

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <spolia/reclaim.hpp>

#include "reclaim/stack_and_queue.hpp"
#include "support/faults.hpp"
#include "support/ledger.hpp"
#include "support/parked_thread.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using spolia::detail::reclaim::numbered;

using namespace spolia;
using namespace spolia::test;

using domain_type = domain<hazard_pointers, batch>;
using amortized_domain = domain<hazard_pointers, amortized>;

struct node : domain_type::header {
  explicit node(ledger& book, std::uint64_t v = 0) : value(book, v) {}
  tracked value;
};

domain_type::options scan_at(std::uint32_t n) {
  domain_type::options o;
  o.scheme.scan_at = n;
  return o;
}

void retire(domain_type::guard& guard, node* n) {
  n->value.note_retired();
  guard.retire(n);
}

/// Retires so many fresh blocks that a scan must have happened after the first one.
void retire_many(domain_type& d, ledger& book, int count) {
  for (int i = 0; i < count; ++i) {
    node* const fresh = d.make<node>(book);
    auto guard = d.enter();
    retire(guard, fresh);
  }
}

TEST(hazard_pointers, a_named_block_stays_and_goes_when_the_guard_does) {
  ledger book;
  domain_type d(scan_at(1));
  node* const n = d.make<node>(book, 7U);
  atomic<node*> source(n);
  {
    auto reader = d.enter();
    const auto seen = reader.protect(source);
    {
      auto writer = d.enter();
      source.store_release(nullptr);
      retire(writer, n);
    }
    retire_many(d, book, 100);
    EXPECT_EQ(seen->value.read(), 7U);
    EXPECT_GT(book.destroyed(), 0);
    EXPECT_LE(d.stats().garbage(), d.garbage_bound(1).value());
  }
  retire_many(d, book, 100);
  EXPECT_TRUE(d.drain());
  book.expect_empty();
}

TEST(hazard_pointers, naming_another_block_gives_the_first_one_up) {
  ledger book;
  ledger book_of_first;
  domain_type d(scan_at(1));
  node* const first = d.make<node>(book_of_first, 1U);
  node* const second = d.make<node>(book, 2U);
  atomic<node*> source(first);
  auto guard = d.enter();
  numbered::protect(guard, source, 0);
  source.store_release(second);
  retire(guard, first);
  numbered::protect(guard, source, 0);
  source.store_release(nullptr);
  retire(guard, second);
  retire_many(d, book, 64);
  EXPECT_EQ(second->value.read(), 2U);
  book_of_first.expect_empty();
}

TEST(hazard_pointers, all_eight_slots_of_a_sleeping_thread_protect_and_nothing_else_waits) {
  ledger book;
  domain_type d(scan_at(32));
  std::array<atomic<node*>, guard_slots> sources;
  for (auto& s : sources) s.store_relaxed(d.make<node>(book, 5U));
  std::uint64_t sum = 0;
  parked_thread reader([&](parking_spot& spot) {
    auto guard = d.enter();
    std::array<domain_type::protected_ptr<node*>, guard_slots> seen;
    for (unsigned i = 0; i < guard_slots; ++i) seen[i] = guard.protect(sources[i]);
    spot.park();
    for (const auto& n : seen) sum += n->value.read();
  });
  for (auto& s : sources) {
    auto guard = d.enter();
    retire(guard, s.exchange_acq_rel(nullptr));
  }
  const std::uint64_t bound = d.garbage_bound(2).value();
  EXPECT_EQ(bound, 2 * 32U);
  for (int i = 0; i < 5000; ++i) {
    retire_many(d, book, 1);
    ASSERT_LE(d.stats().garbage(), bound);
  }
  EXPECT_FALSE(d.drain());
  EXPECT_EQ(d.stats().garbage(), guard_slots);
  reader.release();
  EXPECT_EQ(sum, 5U * guard_slots);
  EXPECT_TRUE(d.drain());
  book.expect_empty();
}

TEST(hazard_pointers, a_scan_frees_half_of_what_it_looks_at) {
  ledger book;
  domain_type d(scan_at(100));
  retire_many(d, book, 10000);
  EXPECT_LE(d.stats().epochs, 10000U / 50U);
  EXPECT_GE(d.stats().epochs, 10000U / 100U);
}

TEST(hazard_pointers, nested_guards_have_slots_of_their_own) {
  ledger book;
  domain_type d(scan_at(1));
  std::array<atomic<node*>, 4> sources;
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i].store_relaxed(d.make<node>(book, i));
  auto outer = d.enter();
  const auto in_outer = outer.protect(sources[0]);
  std::optional<domain_type::guard> inner(d.enter());
  auto in_inner = inner->protect(sources[1]);
  {
    auto innermost = d.enter();
    EXPECT_NE(innermost.protect(sources[2]), nullptr);
  }
  for (auto& s : sources) retire(outer, s.load_relaxed());
  retire_many(d, book, 200);
  EXPECT_EQ(in_outer->value.read(), 0U);
  EXPECT_EQ(in_inner->value.read(), 1U);
  // The third row is kept for later guards, and so counts: three rows of eight, twice.
  EXPECT_EQ(d.garbage_bound(1), 48U);
  EXPECT_LE(d.stats().garbage(), 48U);
  in_inner = nullptr;
  inner.reset();
  EXPECT_EQ(in_outer->value.read(), 0U);
}

TEST(hazard_pointers, guards_may_end_in_any_order_and_move) {
  ledger book;
  domain_type d(scan_at(1));
  std::deque<atomic<node*>> sources;
  for (std::uint64_t i = 0; i < 6; ++i) sources.emplace_back(d.make<node>(book, i));
  std::vector<domain_type::guard> guards;  // grows by moving them
  std::vector<domain_type::protected_ptr<node*>> seen;
  for (auto& s : sources) {
    guards.push_back(d.enter());
    seen.push_back(guards.back().protect(s));
  }
  for (auto& s : sources) retire(guards[0], s.exchange_acq_rel(nullptr));
  std::swap(guards[0], guards[5]);
  guards[2] = std::move(guards[5]);  // ends the third; the first one takes its place
  guards.pop_back();
  guards.pop_back();
  retire_many(d, book, 300);
  for (const std::size_t i : {0U, 1U, 3U, 5U}) EXPECT_EQ(seen[i]->value.read(), i);
  seen.clear();
  guards.clear();
  EXPECT_TRUE(d.drain());
  book.expect_empty();
}

TEST(hazard_pointers, marks_do_not_make_another_block) {
  struct marked {
    std::uintptr_t bits = 0;
    const void* address() const noexcept {
      return reinterpret_cast<const void*>(bits & ~std::uintptr_t{1});
    }
  };
  ledger book;
  domain_type d(scan_at(1));
  node* const n = d.make<node>(book, 9U);
  atomic<marked> source(marked{reinterpret_cast<std::uintptr_t>(n) | 1U});
  auto guard = d.enter();
  const auto seen = guard.protect(source);
  EXPECT_EQ(seen.get().address(), n);
  retire(guard, n);
  retire_many(d, book, 100);
  EXPECT_EQ(n->value.read(), 9U);
}

TEST(hazard_pointers, announce_protects_what_a_later_look_finds_linked) {
  ledger book;
  domain_type d(scan_at(1));
  node* const n = d.make<node>(book, 4U);
  atomic<node*> source(n);
  auto guard = d.enter();
  const auto named = guard.announce(n);
  ASSERT_EQ(source.load_acquire(), n);
  source.store_release(nullptr);
  retire(guard, n);
  retire_many(d, book, 100);
  EXPECT_EQ(named->value.read(), 4U);
}

TEST(hazard_pointers, objects_without_a_header_are_known_by_their_own_address) {
  ledger book;
  domain_type d(scan_at(1));
  auto* const object = new tracked(book, 3U);
  atomic<tracked*> source(object);
  auto guard = d.enter();
  const auto seen = guard.protect(source);
  source.store_release(nullptr);
  object->note_retired();
  guard.retire(object);
  retire_many(d, book, 100);
  EXPECT_EQ(seen->read(), 3U);
}

struct other_base {
  long other = 7;
};
struct of_two_bases : tracked, other_base {
  using tracked::tracked;
};
struct block_of_two_bases : domain_type::header, of_two_bases {
  using of_two_bases::of_two_bases;
};

/// Readers that know the object by another of its addresses.
TEST(hazard_pointers, a_pointer_to_a_part_protects_the_whole) {
  ledger book;
  ledger others;
  domain_type d(scan_at(1));
  auto* const object = new of_two_bases(book, 3U);
  auto* const block = d.make<block_of_two_bases>(book, 4U);
  atomic<other_base*> source(object);
  atomic<long*> member(&block->other);
  auto guard = d.enter();
  const auto seen = guard.protect(source);
  const auto seen_member = guard.protect(member);
  ASSERT_NE(static_cast<void*>(seen.get()), static_cast<void*>(object));
  source.store_release(nullptr);
  member.store_release(nullptr);
  object->note_retired();
  guard.retire(object);
  block->note_retired();
  guard.retire(block);
  retire_many(d, others, 100);
  EXPECT_EQ(book.destroyed(), 0);
  EXPECT_EQ(seen->other + *seen_member, 14);
  EXPECT_GT(others.destroyed(), 0);
}

TEST(hazard_pointers, blocks_of_an_ended_thread_are_taken_over) {
  ledger book;
  domain_type d(scan_at(1000));
  std::thread([&] { retire_many(d, book, 500); }).join();
  EXPECT_EQ(book.limbo(), 500);
  EXPECT_TRUE(d.drain());
  book.expect_empty();
}

/// With 99 blocks of ours and 99 of a thread that has ended: guards until these are taken over.
void let_one_end_beside(domain_type& d, ledger& book) {
  retire_many(d, book, 99);
  std::thread([&] { retire_many(d, book, 99); }).join();
  ASSERT_EQ(book.limbo(), 198);
}

TEST(hazard_pointers, what_was_adopted_is_scanned_before_the_thread_may_fall_asleep) {
  int guards = 0;
  {
    ledger book;
    domain_type d(scan_at(100));
    let_one_end_beside(d, book);
    for (; book.limbo() == 198 && guards < 100000; ++guards) auto guard = d.enter();
    ASSERT_EQ(book.limbo(), 0);
  }
  ledger book;
  domain_type d(scan_at(100));
  let_one_end_beside(d, book);
  // If the scan came only with the next guard, we would have the other one's blocks by now...
  for (int i = 0; i + 1 < guards; ++i) auto guard = d.enter();
  // ... and it, or the next thread with its number, room for as many again.
  std::thread([&] { retire_many(d, book, 99); }).join();
  EXPECT_LE(d.stats().garbage(), d.garbage_bound(2).value());
}

TEST(hazard_pointers, threads_that_come_and_go_leave_no_more_than_the_bound) {
  ledger book;
  domain_type d(scan_at(64));
  constexpr unsigned alive = 4;
  churn_threads({.threads = alive, .share = 0.5}, [&](stress_thread& self) {
    retire_many(d, book, static_cast<int>(self.random().below(200)));
  });
  EXPECT_LE(static_cast<std::uint64_t>(book.peak_limbo()), d.garbage_bound(alive + 2).value());
  EXPECT_TRUE(d.drain());
  book.expect_empty();
}

/// Retires its successor when it ends.
template <class Domain>
struct chained : Domain::header {
  chained(Domain& d, ledger& b) : of(d), book(b), value(b) {}
  ~chained() {
    if (next == nullptr) return;
    auto guard = of.enter();
    next->value.note_retired();
    guard.retire(next);
  }
  Domain& of;
  ledger& book;
  tracked value;
  chained* next = nullptr;
};

template <class Domain>
void retire_a_chain(Domain& d, ledger& book) {
  chained<Domain>* head = nullptr;
  for (int i = 0; i < tries(20000); ++i) {
    auto* const fresh = d.template make<chained<Domain>>(d, book);
    fresh->next = head;
    head = fresh;
  }
  {
    auto guard = d.enter();
    head->value.note_retired();
    guard.retire(head);
  }
  while (!d.drain()) {
  }
  book.expect_empty();
}

TEST(hazard_pointers, deleters_may_open_guards_and_retire) {
  ledger book;
  domain_type all_at_once(scan_at(1));
  retire_a_chain(all_at_once, book);
  amortized_domain::options o;
  o.scheme.scan_at = 1;
  amortized_domain spread(o);
  retire_a_chain(spread, book);
}

/// A scan makes blocks safe exactly when there are so many of them, so here the pace of freeing can
/// be seen. `tracked` tells how many have ended.
struct paced : amortized_domain::header {
  explicit paced(ledger& book) : value(book) {}
  tracked value;
};

void operations(amortized_domain& d, ledger& book, int count, bool retiring) {
  for (int i = 0; i < count; ++i) {
    auto guard = d.enter();
    if (!retiring) continue;
    paced* const fresh = d.make<paced>(book);
    fresh->value.note_retired();
    guard.retire(fresh);
  }
}

TEST(amortized_release, frees_as_much_as_is_retired_and_a_quarter_of_a_block_for_an_operation) {
  ledger book;
  amortized_domain::options o;
  o.scheme.scan_at = 100;
  o.release.every = 16;
  o.free_within_ms = 0;  // the pace by operations is the question
  amortized_domain d(o);
  operations(d, book, 99, true);
  EXPECT_EQ(book.destroyed(), 0);
  operations(d, book, 1, true);
  EXPECT_EQ(book.destroyed(), 16) << "the first step comes at once";
  operations(d, book, 15, true);
  EXPECT_EQ(book.destroyed(), 16);
  operations(d, book, 1, true);
  EXPECT_EQ(book.destroyed(), 32) << "as many were retired";
  operations(d, book, 1024 - 116 - 1, false);
  EXPECT_EQ(book.destroyed(), 32);
  operations(d, book, 1, false);
  EXPECT_EQ(book.destroyed(), 48) << "the domain looks around at each 1024th operation";
  operations(d, book, 1, false);
  EXPECT_EQ(book.destroyed(), 64) << "and each that follows pays for 64 of them";
  operations(d, book, 3, false);
  EXPECT_EQ(book.destroyed(), 100);
  operations(d, book, 84, true);
  EXPECT_EQ(book.destroyed(), 116) << "these find 100 blocks and free the first of them";
  EXPECT_TRUE(d.drain());
  operations(d, book, 100, true);  // the block that was looked ahead at is gone
  EXPECT_EQ(book.destroyed(), 200 + 16);
}

/// Retires another block when it ends, in a guard of its own.
struct parent : amortized_domain::header {
  explicit parent(amortized_domain& d) : of(d) {}
  ~parent() {
    auto guard = of.enter();
    guard.retire(of.make<childless>());
  }
  struct childless : amortized_domain::header {};
  amortized_domain& of;
};

TEST(amortized_release, what_deleters_retire_is_paid_for_too) {
  amortized_domain::options o;
  o.scheme.scan_at = 100;
  o.release.every = 16;
  amortized_domain d(o);
  for (int i = 0; i < 20'000; ++i) {
    auto guard = d.enter();
    guard.retire(d.make<parent>(d));
  }
  EXPECT_LT(d.garbage(), 1000U);
}

TEST(hazard_pointers, a_scan_without_memory_takes_longer_and_no_less) {
  ledger book;
  domain_type d(scan_at(1));
  constexpr std::size_t nested = 20;  // 160 names, more than find room without memory
  std::vector<domain_type::guard> guards;
  std::vector<node*> named;
  for (std::size_t i = 0; i < nested; ++i) {
    guards.push_back(d.enter());
    for (unsigned slot = 0; slot < guard_slots; ++slot) {
      named.push_back(d.make<node>(book, named.size()));
      numbered::announce(guards.back(), named.back(), slot);
    }
  }
  std::vector<node*> others;
  for (int i = 0; i < 3000; ++i) others.push_back(d.make<node>(book));
  std::uint64_t attempts = 0;
  {
    const std::uint64_t before = thread_allocations();
    fail_after nothing_left(1, failing::from_then_on);
    for (node* n : named) retire(guards[0], n);
    for (node* n : others) retire(guards[0], n);
    attempts = thread_allocations() - before;
  }
  EXPECT_GT(attempts, 0U) << "no scan wanted memory: the test is too small";
  EXPECT_GT(book.destroyed(), 2000);
  EXPECT_LE(d.stats().garbage(), d.garbage_bound(1).value());
  for (std::size_t i = 0; i < named.size(); ++i) ASSERT_EQ(named[i]->value.read(), i);
  guards.clear();
  EXPECT_TRUE(d.drain());
  book.expect_empty();
}

TEST(hazard_pointers, a_guard_that_finds_no_memory_for_its_slots_changes_nothing) {
  domain_type d;
  const auto outer = d.enter();
  EXPECT_EQ(for_each_allocation_failure([&] { const auto inner = d.enter(); }), 1U);
  EXPECT_NO_THROW({ const auto inner = d.enter(); });
}

TEST(hazard_pointers, options_are_checked) {
  EXPECT_THROW(domain_type d(scan_at(0)), std::invalid_argument);
  EXPECT_THROW(domain_type d(scan_at((1U << 30U) + 1)), std::invalid_argument);
}

#if SPOLIA_CHECKS
const char* heard = nullptr;
void hear(const char* what, std::uint32_t) { heard = what; }

TEST(hazard_pointers, a_slot_that_does_not_exist_is_reported) {
  const auto before = core::set_misuse_handler(&hear);
  domain_type d;
  auto guard = d.enter();
  numbered::announce(guard, static_cast<node*>(nullptr), guard_slots);
  core::set_misuse_handler(before);
  EXPECT_STREQ(heard, "hazard_pointers: a guard has slots 0 to 7 only");
}
#endif

TEST(hazard_pointers, stack_under_stress) {
  stress_container<treiber_stack, domain_type>(scan_at(8), 4);
}
TEST(hazard_pointers, queue_under_stress) {
  stress_container<michael_scott_queue, domain_type>(scan_at(8), 4);
}
TEST(hazard_pointers, queue_under_stress_with_amortized_release) {
  amortized_domain::options o;
  o.scheme.scan_at = 64;
  stress_container<michael_scott_queue, amortized_domain>(o, 3);
}

}  // namespace

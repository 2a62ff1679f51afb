// SPDX-License-Identifier: Apache-2.0
// The era schemes: when the clock moves, what an era protects and what it does not, and how much a
// stalled thread can hold up.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include <spolia/reclaim.hpp>

#include "reclaim/stack_and_queue.hpp"
#include "support/elsewhere.hpp"
#include "support/faults.hpp"
#include "support/ledger.hpp"
#include "support/parked_thread.hpp"
#include "support/stress.hpp"

namespace {

using spolia::detail::reclaim::numbered;

using namespace spolia;
using namespace spolia::test;

template <class Scheme>
using batched = domain<Scheme, batch>;

template <class Scheme>
struct node_of : batched<Scheme>::header {
  explicit node_of(ledger& book, std::uint64_t v = 0) : value(book, v) {}
  tracked value;
  atomic<node_of*> next{nullptr};
};

template <class Scheme>
typename batched<Scheme>::options numbers(std::uint32_t scan_at, std::uint32_t advance_every) {
  typename batched<Scheme>::options o;
  o.scheme.scan_at = scan_at;
  o.scheme.advance_every = advance_every;
  if constexpr (requires { o.scheme.attempts; }) o.scheme.attempts = 0;
  o.free_within_ms = 0;  // these tests are about numbers, whatever the time
  return o;
}

template <class Guard, class Node>
void retire(Guard& g, Node* n) {
  n->value.note_retired();
  g.retire(n);
}

/// Makes and retires.
template <class Scheme>
void churn(domain<Scheme, batch>& d, ledger& book, int count) {
  for (int i = 0; i < count; ++i) {
    auto* const fresh = d.template make<node_of<Scheme>>(book);
    auto g = d.enter();
    retire(g, fresh);
  }
}

/// Enough for a scan of all slots and intervals of these tests to pay.
constexpr int many = 256;

/// Blocks of one thread that wait for their dates and for its scan, whatever others do.
std::uint64_t in_lists(const era_options& o) { return o.advance_every + o.scan_at; }

template <class Scheme>
class eras : public testing::Test {
 protected:
  ledger book_;
};
using schemes = testing::Types<hazard_eras, intervals, wait_free_eras>;
TYPED_TEST_SUITE(eras, schemes);

TYPED_TEST(eras, an_era_ends_at_every_so_many_retirements) {
  batched<TypeParam> d(numbers<TypeParam>(1000, 10));
  churn(d, this->book_, 9);
  EXPECT_EQ(d.stats().epochs, 0U);
  churn(d, this->book_, 1);
  EXPECT_EQ(d.stats().epochs, 1U);
  churn(d, this->book_, 95);
  EXPECT_EQ(d.stats().epochs, 10U);
}

TYPED_TEST(eras, a_thread_scans_when_it_has_enough) {
  batched<TypeParam> d(numbers<TypeParam>(many, 8));
  parked_thread idle([&](parking_spot& spot) {
    {
      auto g = d.enter();
    }
    spot.park();
  });
  churn(d, this->book_, many - 1);
  EXPECT_EQ(this->book_.limbo(), many - 1) << "the idle thread has begun nothing since";
  churn(d, this->book_, 1);
  EXPECT_LE(this->book_.limbo(), 8) << "no thread but this one is there whose era holds them";
  idle.release();
}

/// Those of which each thread says when it began.
template <class Scheme>
class attended_eras : public eras<Scheme> {};
using attended_schemes = testing::Types<hazard_eras, intervals>;
TYPED_TEST_SUITE(attended_eras, attended_schemes);

TYPED_TEST(attended_eras, handfuls_go_without_a_scan_while_all_threads_go_on) {
  batched<TypeParam> d(numbers<TypeParam>(1U << 20U, 8));
  for (int i = 0; i < 100; ++i) {
    on_another_thread([&] { churn(d, this->book_, 10); });
    churn(d, this->book_, 10);
    ASSERT_LE(this->book_.limbo(), 100) << "each has begun anew since";
  }
}

/// Too few blocks are retired after it for a scan to look at what was pinned once more.
TYPED_TEST(attended_eras, what_a_stalled_reader_pinned_goes_when_it_goes_on) {
  constexpr int pinned = 5000;
  batched<TypeParam> d(numbers<TypeParam>(many, 8));
  std::vector<node_of<TypeParam>*> old;
  for (int i = 0; i < pinned; ++i) old.push_back(d.template make<node_of<TypeParam>>(this->book_));
  atomic<node_of<TypeParam>*> source(old[0]);
  std::atomic<bool> inside{false};
  std::atomic<bool> goes_on{false};
  std::atomic<int> wanted{0};
  std::atomic<int> operations{0};  // too few for the reader to look after others' blocks
  std::thread reader([&] {
    {
      auto g = d.enter();
      [[maybe_unused]] const auto first = g.protect(source);
      inside.store(true);
      while (!goes_on.load()) std::this_thread::yield();
    }
    while (wanted.load() >= 0) {
      for (; operations.load() < wanted.load(); operations.fetch_add(1)) auto g = d.enter();
      std::this_thread::yield();
    }
  });
  while (!inside.load()) std::this_thread::yield();
  for (auto* n : old) {
    auto g = d.enter();
    retire(g, n);
  }
  EXPECT_EQ(this->book_.limbo(), pinned);
  goes_on.store(true);
  for (int era = 1; era <= 10; ++era) {
    churn(d, this->book_, 8);
    wanted.store(2 * era);
    while (operations.load() != 2 * era) std::this_thread::yield();
  }
  EXPECT_LE(this->book_.limbo(), 32);
  wanted.store(-1);
  reader.join();
}

TYPED_TEST(eras, a_reader_keeps_what_was_alive_and_nothing_made_later) {
  ledger& book = this->book_;
  ledger book_of_old;
  const auto o = numbers<TypeParam>(many, 8);
  batched<TypeParam> d(o);
  using node = node_of<TypeParam>;
  constexpr std::uint64_t alive = 3000;
  std::vector<node*> old;
  for (std::uint64_t i = 0; i < alive; ++i) old.push_back(d.template make<node>(book_of_old, i));
  atomic<node*> source(old[0]);
  churn(d, book, 500);
  parked_thread reader([&](parking_spot& spot) {
    auto g = d.enter();
    const auto seen = g.protect(source);
    spot.park();
    EXPECT_EQ(seen->value.read(), 0U);
  });
  source.store_release(nullptr);
  for (node* n : old) {
    auto g = d.enter();
    retire(g, n);
    churn(d, book, 5);
    ASSERT_LE(d.garbage(), alive + 2 * in_lists(o.scheme));
  }
  EXPECT_EQ(book_of_old.limbo(), static_cast<std::int64_t>(alive)) << "each lived in its era";
  EXPECT_LE(static_cast<std::uint64_t>(book.limbo()), 2 * in_lists(o.scheme));
  EXPECT_FALSE(d.drain());
  EXPECT_LE(book.limbo(), 8) << "made before its era had ended";
  reader.release();
  EXPECT_TRUE(d.drain());
  book_of_old.expect_empty();
}

TYPED_TEST(eras, what_was_pinned_goes_in_passing_when_the_reader_does) {
  ledger& book = this->book_;
  batched<TypeParam> d(numbers<TypeParam>(many, 8));
  using node = node_of<TypeParam>;
  std::vector<node*> old;
  for (int i = 0; i < 1000; ++i) old.push_back(d.template make<node>(book));
  atomic<node*> source(old[0]);
  {
    parked_thread reader([&](parking_spot& spot) {
      auto g = d.enter();
      [[maybe_unused]] const auto first = g.protect(source);
      spot.park();
    });
    for (node* n : old) {
      auto g = d.enter();
      retire(g, n);
    }
    churn(d, book, 1000);
    EXPECT_GE(book.limbo(), 1000);
  }
  churn(d, book, 1000 + 2 * many);  // as many as were pinned, and a scan
  EXPECT_LE(book.limbo(), many + 8);
}

TYPED_TEST(eras, a_block_made_without_the_domain_is_as_old_as_the_world) {
  ledger& book = this->book_;
  batched<TypeParam> d(numbers<TypeParam>(1, 1));
  using node = node_of<TypeParam>;
  auto* const object = new tracked(book, 3U);
  auto* const own = new node(book, 4U);
  atomic<tracked*> source(object);
  atomic<node*> own_source(own);
  {
    auto g = d.enter();
    const auto seen = g.protect(source);
    const auto own_seen = g.protect(own_source);
    churn(d, book, 50);  // eras end
    object->note_retired();
    g.retire(object);
    own->value.note_retired();
    g.retire(own, [](node* n) { delete n; });
    churn(d, book, 200);
    EXPECT_EQ(seen->read(), 3U);
    EXPECT_EQ(own_seen->value.read(), 4U);
  }
  EXPECT_TRUE(d.drain());
  book.expect_empty();
}

TYPED_TEST(eras, a_copy_has_a_life_of_its_own) {
  batched<TypeParam> d(numbers<TypeParam>(1, 1));
  struct copied : batched<TypeParam>::header {};
  auto* const first = d.template make<copied>();
  auto* const second = new copied(*first);
  EXPECT_EQ(second->stamp.birth.read(), 0U);
  *second = *first;
  EXPECT_EQ(second->stamp.birth.read(), 0U);
  EXPECT_GT(first->stamp.birth.read(), 0U);
  d.destroy(first);
  delete second;
}

TYPED_TEST(eras, a_step_wants_a_look_once_the_clock_has_moved) {
  ledger& book = this->book_;
  batched<TypeParam> d(numbers<TypeParam>(1, 1));
  using node = node_of<TypeParam>;
  node* const last = d.template make<node>(book, 2U);
  node* const first = d.template make<node>(book, 1U);
  first->next.store_relaxed(last);
  atomic<node*> root(first);
  int looks = 0;
  const auto linked = [&] {
    ++looks;
    return true;
  };
  node* to = nullptr;
  for (int round = 1; round <= 2; ++round) {
    looks = 0;
    auto g = d.enter();
    node* const at = numbered::protect(g, root, 0);
    for (unsigned slot = 1; slot < guard_slots; ++slot) {
      EXPECT_TRUE(numbered::step(g, at->next, to, slot, linked));
      EXPECT_EQ(to, last);
    }
    EXPECT_EQ(looks, 0) << "the clock stands still";
    churn(d, book, 1);
    EXPECT_TRUE(numbered::step(g, at->next, to, 1, linked));
    EXPECT_EQ(looks, 1) << "the clock has moved";
    EXPECT_TRUE(numbered::step(g, at->next, to, 1, linked));
    EXPECT_TRUE(numbered::step(g, at->next, to, 0, linked));
    EXPECT_EQ(looks, 3) << "this guard may stand in several places";
    EXPECT_FALSE(numbered::step(g, at->next, to, 1, [] { return false; }));
  }
  {
    looks = 0;
    auto g = d.enter();
    node* const at = numbered::protect(g, root, 0);
    numbered::announce(g, last, 1);
    EXPECT_TRUE(numbered::step(g, at->next, to, 2, linked));
    EXPECT_EQ(looks, 1) << "what was announced need not be linked";
  }
  d.destroy(first);
  d.destroy(last);
}

TYPED_TEST(eras, announce_protects_what_a_later_look_finds_linked) {
  ledger& book = this->book_;
  batched<TypeParam> d(numbers<TypeParam>(1, 1));
  using node = node_of<TypeParam>;
  auto g = d.enter();
  churn(d, book, 10);
  node* const n = d.template make<node>(book, 4U);
  atomic<node*> source(n);
  const auto named = g.announce(n);
  ASSERT_EQ(source.load_acquire(), n);
  source.store_release(nullptr);
  retire(g, n);
  churn(d, book, 100);
  EXPECT_EQ(named->value.read(), 4U);
}

TYPED_TEST(eras, blocks_of_an_ended_thread_are_taken_over_with_their_dates) {
  ledger& book = this->book_;
  batched<TypeParam> d(numbers<TypeParam>(1000, 64));
  parked_thread idle([&](parking_spot& spot) {  // so that handfuls wait for a scan
    {
      auto g = d.enter();
    }
    spot.park();
  });
  std::thread([&] { churn(d, book, 500); }).join();
  EXPECT_EQ(book.limbo(), 500);
  for (int i = 0; i < 100'000 && book.limbo() == 500; ++i) auto g = d.enter();
  churn(d, book, 600);
  EXPECT_LT(book.limbo(), 500) << "they count for the next scan of the thread that has them";
  idle.release();
  EXPECT_TRUE(d.drain());
  book.expect_empty();
}

/// So many threads inside guards, each in an era of its own, in all their slots.
template <class Domain, class Node>
class crowd {
 public:
  crowd(Domain& d, std::vector<Node*>& blocks) {
    for (Node* n : blocks) {
      threads_.push_back(std::make_unique<parked_thread>([&d, n](parking_spot& spot) {
        atomic<Node*> source(n);
        auto g = d.enter();
        for (unsigned slot = 0; slot < guard_slots; ++slot) numbered::protect(g, source, slot);
        spot.park();
        EXPECT_EQ(n->value.read(), 5U);
      }));
      auto g = d.enter();
      g.retire(new int(0));  // ends the era
    }
  }

 private:
  std::vector<std::unique_ptr<parked_thread>> threads_;
};

TYPED_TEST(eras, a_scan_without_memory_takes_longer_and_no_less) {
  ledger& book = this->book_;
  using node = node_of<TypeParam>;
  batched<TypeParam> d(numbers<TypeParam>(1, 1));
  std::vector<node*> blocks;
  for (int i = 0; i < 80; ++i) blocks.push_back(d.template make<node>(book, 5U));
  crowd<batched<TypeParam>, node> readers(d, blocks);
  // No reader keeps what is made now: the eras of all of them are over.
  std::uint64_t attempts = 0;
  std::vector<node*> young;
  for (int i = 0; i < 3000; ++i) young.push_back(d.template make<node>(book));
  {
    const std::uint64_t before = thread_allocations();
    fail_after nothing_left(1, failing::from_then_on);
    for (auto* const some : {&blocks, &young}) {
      for (node* n : *some) {
        auto g = d.enter();
        retire(g, n);
      }
    }
    attempts = thread_allocations() - before;
  }
  EXPECT_GT(attempts, 0U) << "no scan wanted memory: the test is too small";
  EXPECT_GT(book.destroyed(), 1500);
  for (node* n : blocks) ASSERT_EQ(n->value.read(), 5U);
}

TYPED_TEST(eras, options_are_checked) {
  EXPECT_THROW(batched<TypeParam>(numbers<TypeParam>(0, 1)), std::invalid_argument);
  EXPECT_THROW(batched<TypeParam>(numbers<TypeParam>((1U << 30U) + 1, 1)), std::invalid_argument);
  EXPECT_THROW(batched<TypeParam>(numbers<TypeParam>(1, 0)), std::invalid_argument);
  EXPECT_THROW(batched<TypeParam>(numbers<TypeParam>(1, (1U << 30U) + 1)), std::invalid_argument);
}

TYPED_TEST(eras, stack_under_stress) {
  stress_container<treiber_stack, batched<TypeParam>>(numbers<TypeParam>(8, 2), 4);
}
TYPED_TEST(eras, queue_under_stress) {
  stress_container<michael_scott_queue, batched<TypeParam>>(numbers<TypeParam>(8, 1), 4);
}

TEST(era_bags, what_is_pinned_waits_until_as_many_others_were_looked_at) {
  domain<hazard_eras> d;
  using block = domain<hazard_eras>::header;
  std::vector<std::unique_ptr<block>> blocks;
  detail::reclaim::era_bags bags;
  const auto put = [&](int count) {
    for (int i = 0; i < count; ++i) {
      blocks.push_back(std::make_unique<block>());
      bags.put(blocks.back().get());
    }
    bags.date(1);
  };
  const auto scanned = [&](bool all, bool frees) {
    limbo bag = bags.for_scan(all);
    const std::size_t count = bag.count();
    if (!frees) bags.pinned().append(bag);
    bag.forget();
    return count;
  };
  put(100);
  EXPECT_EQ(scanned(false, false), 100U);
  for (const std::size_t expected : {40U, 40U, 140U, 40U}) {
    put(40);
    EXPECT_EQ(scanned(false, expected == 40U), expected);
  }
  EXPECT_EQ(bags.count(), 140U);
  EXPECT_EQ(scanned(true, true), 140U);
  bags.lists([](limbo& each) { each.forget(); });
}

TEST(hazard_eras, a_slot_that_moves_on_gives_up_its_era) {
  ledger book;
  using domain_type = domain<hazard_eras, batch>;
  struct node : domain_type::header {
    explicit node(ledger& b) : value(b) {}
    tracked value;
  };
  domain_type::options o;
  o.scheme.scan_at = 1;
  o.scheme.advance_every = 1;
  domain_type d(o);
  atomic<node*> source(d.make<node>(book));
  auto g = d.enter();
  node* const first = numbered::protect(g, source, 0);
  source.store_release(nullptr);
  first->value.note_retired();
  g.retire(first);
  for (int i = 0; i < 64; ++i) g.retire(d.make<node>(book));
  EXPECT_EQ(book.made() - book.destroyed(), book.live());
  EXPECT_GE(book.limbo(), 1);
  numbered::protect(g, source, 0);  // a later era
  for (int i = 0; i < 64; ++i) g.retire(d.make<node>(book));
  EXPECT_EQ(book.limbo(), 0);
}

TEST(hazard_eras, a_guard_that_finds_no_memory_for_its_slots_changes_nothing) {
  domain<hazard_eras> d;
  const auto outer = d.enter();
  EXPECT_EQ(for_each_allocation_failure([&] { const auto inner = d.enter(); }), 1U);
  EXPECT_NO_THROW({ const auto inner = d.enter(); });
}

/// A thread's part of wait-free eras, with a request that is pending.
class era_request : public testing::Test {
 protected:
  std::uint64_t kept() const {
    std::uint64_t sum = 0;
    request_.for_each_answer([&](const detail::reclaim::era_answer& a) {
      sum += a.kept.load_relaxed();
      return true;
    });
    return sum;
  }

  int object_ = 5;
  atomic<int*> source_{&object_};
  detail::reclaim::era_clock clock_;
  detail::reclaim::era_rows rows_;
  detail::reclaim::era_request request_;
  std::uint64_t asked_ = request_.ask(rows_, source_);
  const std::uint32_t me_ = threads::number();
};

TEST_F(era_request, is_answered_once_and_the_answer_keeps_its_era) {
  clock_.end();
  EXPECT_FALSE(request_.answered(asked_));
  EXPECT_TRUE(request_.help(me_, clock_));
  ASSERT_TRUE(request_.answered(asked_));
  EXPECT_FALSE(request_.take_back(asked_));
  EXPECT_EQ(request_.answer().value.load_relaxed(), reinterpret_cast<std::uintptr_t>(&object_));
  EXPECT_EQ(request_.answer().era.load_relaxed(), 2U);
  clock_.end();
  EXPECT_TRUE(request_.help(me_, clock_)) << "it has its answer";
  EXPECT_EQ(kept(), 2U);
}

TEST_F(era_request, that_is_taken_back_is_not_answered) {
  EXPECT_TRUE(request_.take_back(asked_));
  EXPECT_TRUE(request_.help(me_, clock_));
  EXPECT_EQ(kept(), 0U);
  EXPECT_TRUE(request_.unsettled());
  request_.settle();
  EXPECT_FALSE(request_.unsettled());
  EXPECT_NE(request_.ask(rows_, source_), asked_) << "each request has a number of its own";
}

TEST_F(era_request, waits_when_a_helper_has_no_memory) {
  EXPECT_EQ(for_each_allocation_failure([&] {
              if (!request_.help(me_, clock_)) throw std::bad_alloc();
            }),
            1U);
  EXPECT_TRUE(request_.answered(asked_));
}

TEST_F(era_request, keeps_its_answer_when_the_helper_vanishes_in_a_fork) {
  request_.help(me_, clock_);
  request_.forget_helper(me_);
  EXPECT_EQ(kept(), 1U);
  EXPECT_TRUE(request_.forget()) << "the asking thread has vanished, too";
  EXPECT_EQ(kept(), 0U);
  EXPECT_FALSE(request_.forget());
}

TEST_F(era_request, announces_what_its_threads_slots_hold) {
  request_.take_back(asked_);
  EXPECT_EQ(request_.floor(), detail::reclaim::no_era) << "the slots were empty";
  detail::reclaim::row_count count;
  detail::reclaim::era_row& row = rows_.take(count);
  row.at[3].store_relaxed(7);
  row.at[5].store_relaxed(4);
  request_.take_back(request_.ask(rows_, source_));
  EXPECT_EQ(request_.floor(), 4U);
  EXPECT_EQ(request_.ceiling(), 7U);
  row.at[3].store_relaxed(9);
  row.at[5].store_relaxed(8);
  request_.take_back(request_.ask(rows_, source_));
  EXPECT_EQ(request_.floor(), 4U) << "helpers of the first may still read";
  EXPECT_EQ(request_.ceiling(), 9U);
  request_.settle();
  EXPECT_EQ(request_.floor(), detail::reclaim::no_era);
  detail::reclaim::era_rows::give_back(row, ~0U);
}

#if SPOLIA_CHECKS
const char* heard = nullptr;
void hear(const char* what, std::uint32_t) { heard = what; }

TEST(hazard_eras, a_slot_that_does_not_exist_is_reported) {
  const auto before = core::set_misuse_handler(&hear);
  domain<hazard_eras> d;
  auto guard = d.enter();
  numbered::announce(guard, static_cast<int*>(nullptr), guard_slots);
  core::set_misuse_handler(before);
  EXPECT_STREQ(heard, "eras: a guard has slots 0 to 7 only");
}
#endif

}  // namespace

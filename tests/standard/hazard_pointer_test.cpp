// SPDX-License-Identifier: Apache-2.0
// Hazard pointers, clause by clause of [saferecl.hp], on the process's own domain.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/hazard_pointer.hpp>

#include "support/ledger.hpp"
#include "support/parked_thread.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia::test;
using spolia::hazard_pointer;
using spolia::make_hazard_pointer;

struct node : spolia::hazard_pointer_obj_base<node> {
  explicit node(ledger& book, std::uint64_t v = 0) : value(book, v) {}
  tracked value;
};

void retire(node* n) {
  n->value.note_retired();
  n->retire();
}

class hazard_pointer_test : public testing::Test {
 protected:
  ~hazard_pointer_test() override {
    EXPECT_TRUE(spolia::hazard_pointer_clean_up());
    book_.expect_empty();
  }

  /// Is `n` reclaimed, now that everything is that can be?
  bool reclaimed_after_clean_up(std::int64_t left) {
    spolia::hazard_pointer_clean_up();
    return book_.live() == left;
  }

  ledger book_;
};

TEST_F(hazard_pointer_test, an_empty_one_owns_nothing_and_a_made_one_does) {
  hazard_pointer h;
  EXPECT_TRUE(h.empty());
  h = make_hazard_pointer();
  EXPECT_FALSE(h.empty());
  hazard_pointer other(std::move(h));
  EXPECT_TRUE(h.empty());
  EXPECT_FALSE(other.empty());
  hazard_pointer& same = other;
  other = std::move(same);
  EXPECT_FALSE(other.empty()) << "moving to itself has no effect";
  swap(h, other);
  EXPECT_FALSE(h.empty());
  EXPECT_TRUE(other.empty());
}

TEST_F(hazard_pointer_test, protect_returns_what_stands_there_and_keeps_it) {
  std::atomic<node*> source(new node(book_, 7));
  hazard_pointer h = make_hazard_pointer();
  node* const n = h.protect(source);
  EXPECT_EQ(n, source.load());
  retire(source.exchange(nullptr));
  EXPECT_TRUE(reclaimed_after_clean_up(1));
  EXPECT_EQ(n->value.read(), 7U);
  h.reset_protection();
  EXPECT_TRUE(reclaimed_after_clean_up(0));
  EXPECT_EQ(h.protect(source), nullptr);
}

TEST_F(hazard_pointer_test, our_own_atomics_are_sources_too) {
  spolia::atomic<node*> source(new node(book_, 7));
  hazard_pointer h = make_hazard_pointer();
  node* n = h.protect(source);
  EXPECT_TRUE(h.try_protect(n, source));
  retire(source.exchange_acq_rel(nullptr));
  EXPECT_TRUE(reclaimed_after_clean_up(1));
}

TEST_F(hazard_pointer_test, try_protect_hands_out_the_new_value_when_it_fails) {
  auto* const old = new node(book_, 1);
  auto* const fresh = new node(book_, 2);
  std::atomic<node*> source(fresh);
  hazard_pointer h = make_hazard_pointer();
  node* p = old;
  EXPECT_FALSE(h.try_protect(p, source));
  EXPECT_EQ(p, fresh);
  retire(old);
  EXPECT_TRUE(reclaimed_after_clean_up(1)) << "a failed attempt protects nothing";
  EXPECT_TRUE(h.try_protect(p, source));
  retire(source.exchange(nullptr));
  EXPECT_TRUE(reclaimed_after_clean_up(1));
  EXPECT_EQ(p->value.read(), 2U);
  EXPECT_FALSE(h.try_protect(p, source));
  EXPECT_EQ(p, nullptr);
  EXPECT_TRUE(h.try_protect(p, source)) << "null stands there";
  EXPECT_TRUE(reclaimed_after_clean_up(0));
}

TEST_F(hazard_pointer_test, reset_protection_begins_an_epoch_and_ends_the_one_before) {
  auto* const first = new node(book_, 1);
  auto* const second = new node(book_, 2);
  hazard_pointer h = make_hazard_pointer();
  h.reset_protection(first);
  h.reset_protection(second);
  retire(first);
  retire(second);
  EXPECT_TRUE(reclaimed_after_clean_up(1));
  EXPECT_EQ(second->value.read(), 2U);
  h.reset_protection(static_cast<node*>(nullptr));
  EXPECT_TRUE(reclaimed_after_clean_up(0));
}

TEST_F(hazard_pointer_test, swap_ends_no_epoch) {
  auto* const first = new node(book_, 1);
  auto* const second = new node(book_, 2);
  hazard_pointer a = make_hazard_pointer();
  hazard_pointer b = make_hazard_pointer();
  a.reset_protection(first);
  b.reset_protection(second);
  retire(first);
  retire(second);
  a.swap(b);
  EXPECT_TRUE(reclaimed_after_clean_up(2));
  a = hazard_pointer();
  EXPECT_TRUE(reclaimed_after_clean_up(1));
  EXPECT_EQ(first->value.read(), 1U) << "b has it now";
}

TEST_F(hazard_pointer_test, assignment_ends_the_epoch_of_what_is_lost) {
  auto* const first = new node(book_, 1);
  hazard_pointer a = make_hazard_pointer();
  a.reset_protection(first);
  retire(first);
  a = make_hazard_pointer();
  EXPECT_TRUE(reclaimed_after_clean_up(0));
}

TEST_F(hazard_pointer_test, a_new_one_protects_nothing_that_its_slot_named_before) {
  for (int i = 0; i < 40; ++i) {
    std::vector<hazard_pointer> all(20);
    spolia::make_hazard_pointer_batch(all);
    std::vector<node*> nodes;
    for (auto& h : all) {
      nodes.push_back(new node(book_));
      h.reset_protection(nodes.back());
    }
    spolia::clear_hazard_pointer_batch(all);
    spolia::make_hazard_pointer_batch(all);
    for (node* n : nodes) retire(n);
    EXPECT_TRUE(reclaimed_after_clean_up(0));
  }
}

TEST_F(hazard_pointer_test, a_batch_fills_what_is_empty_and_leaves_the_rest) {
  std::array<hazard_pointer, 20> all;
  auto* const n = new node(book_, 5);
  all[3] = make_hazard_pointer();
  all[3].reset_protection(n);
  retire(n);
  spolia::make_hazard_pointer_batch(all);
  for (const auto& h : all) EXPECT_FALSE(h.empty());
  EXPECT_TRUE(reclaimed_after_clean_up(1));
  spolia::clear_hazard_pointer_batch(all);
  for (const auto& h : all) EXPECT_TRUE(h.empty());
  EXPECT_TRUE(reclaimed_after_clean_up(0));
  spolia::make_hazard_pointer_batch({});
}

TEST_F(hazard_pointer_test, many_at_one_time) {
  std::vector<hazard_pointer> all(1000);
  spolia::make_hazard_pointer_batch(all);
  std::vector<node*> nodes;
  for (auto& h : all) {
    nodes.push_back(new node(book_, nodes.size()));
    h.reset_protection(nodes.back());
  }
  for (node* n : nodes) retire(n);
  EXPECT_TRUE(reclaimed_after_clean_up(1000));
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i]->value.read(), i);
  all.clear();
  EXPECT_TRUE(reclaimed_after_clean_up(0));
}

/// Has a state, and is only assignable, as the standard asks.
struct counting_deleter {
  counting_deleter() = default;
  explicit counting_deleter(int* n) : count(n) {}
  counting_deleter(const counting_deleter&) = delete;
  counting_deleter(counting_deleter&&) = default;
  counting_deleter& operator=(counting_deleter&&) = default;
  template <class T>
  void operator()(T* p) noexcept {
    delete p;
    ++*count;  // its own object is gone by now
  }
  int* count = nullptr;
};
struct counted : spolia::hazard_pointer_obj_base<counted, counting_deleter> {
  int value = 1;
};

TEST_F(hazard_pointer_test, the_deleter_is_called_once_with_the_object) {
  int count = 0;
  (new counted)->retire(counting_deleter(&count));
  EXPECT_TRUE(spolia::hazard_pointer_clean_up());
  EXPECT_EQ(count, 1);
}

struct with_function
    : spolia::hazard_pointer_obj_base<with_function, std::function<void(with_function*)>> {
  std::string name = "a name long enough to be allocated";
};

TEST_F(hazard_pointer_test, the_deleter_may_be_any_function_object) {
  std::string seen;
  (new with_function)->retire([&](with_function* w) {
    seen = w->name;
    delete w;
  });
  EXPECT_TRUE(spolia::hazard_pointer_clean_up());
  EXPECT_EQ(seen, "a name long enough to be allocated");
}

/// The base is not at the object's address.
struct front {
  virtual ~front() = default;
  int ahead = 1;
};
struct offset_node : front, spolia::hazard_pointer_obj_base<offset_node> {
  explicit offset_node(ledger& book) : value(book, 9) {}
  tracked value;
};

TEST_F(hazard_pointer_test, an_object_is_known_by_its_own_address) {
  std::atomic<offset_node*> source(new offset_node(book_));
  hazard_pointer h = make_hazard_pointer();
  offset_node* const n = h.protect(source);
  source.exchange(nullptr)->retire();
  EXPECT_TRUE(reclaimed_after_clean_up(1));
  EXPECT_EQ(n->value.read(), 9U);
}

TEST_F(hazard_pointer_test, a_copy_of_a_retired_object_can_be_retired_too) {
  auto* const original = new node(book_, 3);
  hazard_pointer h = make_hazard_pointer();
  h.reset_protection(original);
  retire(original);
  auto* const copy = new node(*original);
  *copy = *original;
  retire(copy);
  EXPECT_TRUE(reclaimed_after_clean_up(1));
}

/// A deleter that retires, and uses hazard pointers itself.
struct parent : spolia::hazard_pointer_obj_base<parent> {
  parent(ledger& b, int generations) : book(b), left(generations), value(b) {}
  ~parent() {
    hazard_pointer h = make_hazard_pointer();
    std::atomic<parent*> child(left > 0 ? new parent(book, left - 1) : nullptr);
    if (parent* const c = h.protect(child)) c->retire();
  }
  ledger& book;
  int left;
  tracked value;
};

TEST_F(hazard_pointer_test, deleters_may_retire_and_protect) {
  for (int i = 0; i < 2000; ++i) (new parent(book_, 5))->retire();
  while (!spolia::hazard_pointer_clean_up()) continue;
  EXPECT_EQ(book_.made(), 6 * 2000);
}

TEST_F(hazard_pointer_test, a_stalled_reader_keeps_no_more_than_it_protects) {
  std::atomic<node*> source(new node(book_, 3));
  parked_thread reader([&](parking_spot& spot) {
    hazard_pointer h = make_hazard_pointer();
    node* const n = h.protect(source);
    spot.park();
    EXPECT_EQ(n->value.read(), 3U);
  });
  retire(source.exchange(nullptr));
  const auto bound = static_cast<std::int64_t>(spolia::hazard_pointer_garbage_bound(16));
  for (int i = 0; i < 50'000; ++i) {
    retire(new node(book_));
    ASSERT_LE(book_.limbo(), bound);
  }
  EXPECT_TRUE(reclaimed_after_clean_up(1));
  reader.release();
  EXPECT_TRUE(reclaimed_after_clean_up(0));
}

/// Retires many when it ends.
struct crowded : spolia::hazard_pointer_obj_base<crowded> {
  static constexpr int many = 20'000;
  explicit crowded(ledger& b) : book(b) {}
  ~crowded() {
    for (int i = 0; i < many; ++i) {
      auto* const n = new node(book);
      n->value.note_retired();
      n->retire();
    }
    EXPECT_GE(book.limbo(), many - 1) << "they wait for the thread's next call";
  }
  ledger& book;
};

TEST_F(hazard_pointer_test, what_a_deleter_retires_is_beyond_the_bound_until_the_next_call) {
  EXPECT_TRUE(spolia::hazard_pointer_clean_up());
  const auto bound = static_cast<std::int64_t>(spolia::hazard_pointer_garbage_bound(1));
  ASSERT_LT(bound, crowded::many - 1);
  ledger others;
  (new crowded(book_))->retire();
  while (book_.made() == 0) retire(new node(others));  // until one of the calls runs it
  EXPECT_EQ(book_.made(), crowded::many);
  retire(new node(others));
  EXPECT_LE(book_.limbo(), bound);
  EXPECT_TRUE(spolia::hazard_pointer_clean_up());
  others.expect_empty();
}

TEST_F(hazard_pointer_test, readers_and_writers_at_once) {
  constexpr std::size_t places = 4;
  std::array<std::atomic<node*>, places> source;
  for (auto& s : source) s = new node(book_, 1);
  run_stress({.threads = 6, .share = 0.1}, [&](stress_thread& self) {
    hazard_pointer kept = make_hazard_pointer();
    for (std::uint64_t i = 0; self.running(); ++i) {
      auto& s = source[i % places];
      if (self.index() % 3 == 0) {
        retire(s.exchange(new node(book_, i + 1)));
      } else if (i % 2 == 0) {
        EXPECT_GT(kept.protect(s)->value.read(), 0U);
      } else {
        hazard_pointer h = make_hazard_pointer();
        EXPECT_GT(h.protect(s)->value.read(), 0U);
        h.swap(kept);
      }
      self.jitter();
    }
  });
  for (auto& s : source) retire(s.exchange(nullptr));
}

/// Each object retires the next one when it ends.
struct link_of_chain : spolia::hazard_pointer_obj_base<link_of_chain> {
  explicit link_of_chain(link_of_chain* n) : next(n) {}
  ~link_of_chain() {
    if (next != nullptr) next->retire();
  }
  link_of_chain* next;
};

TEST_F(hazard_pointer_test, a_chain_that_retires_itself_goes_in_one_clean_up) {
  link_of_chain* first = nullptr;
  for (int i = 0; i < 100'000; ++i) first = new link_of_chain(first);
  first->retire();
  EXPECT_TRUE(spolia::hazard_pointer_clean_up());
  EXPECT_EQ(spolia::hazard_pointer_garbage(), 0U);
  while (!spolia::hazard_pointer_clean_up()) continue;  // so that the chain goes in any case
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Version lists while each of a thread's allocations fails in turn, once or from then on until the
// thread has ended. A list allocates nothing; what is around it does: versions, guards, scans. What
// was appended is linked unless no snapshot needs it, an append that was given up leaves nothing,
// what is cut off is freed once, and the next operation works.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <spolia/reclaim.hpp>
#include <spolia/snapshot.hpp>
#include <spolia/version/list_pdl.hpp>
#include <spolia/version/list_ssl.hpp>
#include <spolia/version/list_tree.hpp>
#include <spolia/version/scan_board.hpp>

#include "support/elsewhere.hpp"
#include "support/faults.hpp"
#include "support/ledger.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using stamps = std::vector<std::uint64_t>;
using time_type = basic_timeline<logical_clock, stamping::on_update>;

/// A version with a value that was allocated before it could be appended.
struct content : region_domain::header, spolia::tracked {
  std::unique_ptr<spolia::test::tracked> value;
};

using pdl = pdl_list<content>;
using tree = tree_list<content>;
using ssl = ssl_list<content>;

/// A version that is to come after x, if there is one. Throws std::bad_alloc.
template <class List>
typename List::node* made_behind(typename List::node* x, region_domain& nodes, ledger& book,
                                 std::uint64_t value) {
  auto* const y = nodes.make<typename List::node>();
  if (x != nullptr) List::aim(x, y);
  try {
    y->value = std::make_unique<spolia::test::tracked>(book, value);
  } catch (const std::bad_alloc&) {
    nodes.destroy(y);
    throw;
  }
  return y;
}

/// Expects that nothing is allocated by this thread while it lives.
class allocates_nothing {
 public:
  allocates_nothing() : before_(thread_allocations()) {}
  allocates_nothing(const allocates_nothing&) = delete;
  allocates_nothing& operator=(const allocates_nothing&) = delete;
  ~allocates_nothing() { EXPECT_EQ(thread_allocations(), before_); }

 private:
  const std::uint64_t before_;
};

/// How versions are cut off that no snapshot needs: lists that remove one version at a time.
template <class List>
class cutting {
  using node = typename List::node;
  using guard = region_domain::guard;

 public:
  cutting(region_domain&, time_type& time) : time_(time) { ended_.reserve(10000); }

  void note_ended(node* x) { ended_.push_back(x); }

  /// Throws std::bad_alloc, and then nothing has changed.
  void cut(List& list, guard& g) {
    scan_times found;
    time_.scan(found);
    const allocates_nothing from_here;
    std::erase_if(ended_, [&](node* x) {
      const std::uint64_t until = x->until.read();
      const auto seen = std::ranges::lower_bound(found.times, x->since.load_relaxed());
      const bool needed = until > found.known || (seen != found.times.end() && *seen < until);
      if (!needed) remove(list, x, g);
      return !needed;
    });
  }

 private:
  static void remove(pdl& from, pdl::node* x, guard& g) {
    from.remove(x);
    g.retire(x);
  }
  static void remove(tree& from, tree::node* x, guard& g) {
    from.remove(x, [&](tree::node* gone) { g.retire(gone); });
  }

  time_type& time_;
  std::vector<node*> ended_;
};

/// The list that is compacted, with the scans that all agree about.
template <>
class cutting<ssl> {
 public:
  cutting(region_domain& nodes, time_type& time) : time_(time), board_(nodes) {}

  void note_ended(ssl::node*) {}
  void cut(ssl& list, region_domain::guard& g) {
    board_.renew(g, [this](scan_times& found) { time_.scan(found); });
    const allocates_nothing from_here;
    board_.compact(
        list, [this](ssl::node* head) { time_.settle(*head); },
        [&](ssl::node* gone) { g.retire(gone); });
  }

 private:
  time_type& time_;
  scan_board<region_domain> board_;
};

template <class List>
void destroy_linked(List& list, region_domain& nodes) {
  list.for_each([&](auto* x) {
    nodes.destroy(x);
    return true;
  });
  list.release();
}

/// A list, and what it must hold. One thread at a time.
template <class List>
class world {
  using node = typename List::node;

 public:
  explicit world(ledger& book) : book_(book), cuts_(nodes_, time_) {
    appended_.reserve(10000);
    held_.reserve(100);
    occupied_.reserve(1000);
    node* const first = made_behind<List>(nullptr, nodes_, book_, 0);
    first->since.store_relaxed(time_.stamp());
    appended_.push_back(first->since.load_relaxed());
    static_cast<void>(list_.begin(first));
  }
  ~world() {
    destroy_linked(list_, nodes_);
    for (node* x : occupied_) nodes_.destroy(x);
  }

  /// Twice if memory was missing; false if it was missing again.
  template <class F>
  bool tried_twice(F&& f) {
    return try_twice(f, [this] { occupy(); });
  }

  void append() {
    auto here = nodes_.enter();
    node* const x = list_.head();
    node* const y = made_behind<List>(x, nodes_, book_, appended_.size());
    const allocates_nothing from_here;
    ASSERT_TRUE(list_.try_append(x, y));
    y->since.store_relaxed(time_.stamp());
    x->until.write(y->since.load_relaxed());
    appended_.push_back(y->since.load_relaxed());
    cuts_.note_ended(x);
  }
  void cut() {
    auto here = nodes_.enter();
    cuts_.cut(list_, here);
  }
  void hold() { held_.emplace_back(time_, "held"); }
  void let_go(std::size_t n) {
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  /// Appends, cuts, and snapshots that come and go. Memory may be missing.
  void live(unsigned changes) {
    for (unsigned i = 0; i < changes; ++i) {
      tried_twice([&] { append(); });
      if (i % 4 == 1) tried_twice([&] { hold(); });
      if (i % 3 == 2) tried_twice([&] { cut(); });
      if (i % 12 == 11 && !held_.empty()) let_go(1);
    }
  }

  /// What the snapshots see is there, in order, and nothing that was never appended.
  void expect_sound() {
    auto here = nodes_.enter();
    node* const head = list_.head();
    EXPECT_EQ(head->since.load_relaxed(), appended_.back());
    for (const snapshot& s : held_) expect_seen(head, s.timestamp());
    std::uint64_t newer = no_stamp;
    list_.for_each([&](const node* x) {
      const std::uint64_t since = x->since.load_relaxed();
      EXPECT_LT(since, newer);
      EXPECT_TRUE(std::ranges::binary_search(appended_, since));
      newer = since;
      return true;
    });
  }
  /// Memory is there: it works, and what no snapshot needs goes.
  void expect_works() {
    on_another_thread([this] {
      expect_sound();
      live(20);
      cut();
      expect_sound();
      const std::size_t needed = held_.size() + 1;  // at most: some see the same
      EXPECT_LT(list_.length(), (std::same_as<List, tree> ? 2 : 1) * needed + 1);
      let_go(held_.size());
      append();
      cut();
      EXPECT_EQ(list_.length(), 1U);
    });
    EXPECT_TRUE(nodes_.drain());
    EXPECT_EQ(book_.live(), 1);
  }

 private:
  /// The block of a version that was given up, so that the next one does not come to lie there and
  /// hide that something still names it.
  void occupy() {
    try {
      occupied_.push_back(nodes_.template make<node>());
    } catch (const std::bad_alloc&) {
    }
  }
  void expect_seen(node* head, std::uint64_t t) {
    const auto after = std::ranges::upper_bound(appended_, t);
    const node* const x = List::find(head, t);
    ASSERT_NE(x, nullptr);
    EXPECT_EQ(x->since.load_relaxed(), *(after - 1));
    EXPECT_EQ(x->value->read(), static_cast<std::uint64_t>(after - 1 - appended_.begin()));
  }

  ledger& book_;
  region_domain nodes_;
  time_type time_;
  List list_;
  cutting<List> cuts_;
  stamps appended_;
  std::vector<snapshot> held_;
  std::vector<node*> occupied_;
};

/// A list of many threads, whose values count its versions.
template <class List>
class crowd {
  using node = typename List::node;

 public:
  static constexpr unsigned threads = 4;

  explicit crowd(ledger& book) : book_(book) {
    node* const first = made_behind<List>(nullptr, nodes_, book_, 0);
    first->since.store_relaxed(time_.stamp());
    static_cast<void>(list_.begin(first));
    const unsigned cuts = std::same_as<List, ssl> ? 1 : threads;
    for (unsigned i = 0; i < cuts; ++i) cuts_.emplace_back(nodes_, time_);
  }
  ~crowd() { destroy_linked(list_, nodes_); }

  void live(stress_thread& self) {
    cutting<List>& mine = cuts_[self.index() % cuts_.size()];
    while (self.running()) {
      const auto how = self.random().chance(1, 2) ? failing::once : failing::from_then_on;
      const fail_after fault(1 + self.random().below(12), how);
      try {
        const snapshot then(time_);
        const std::uint64_t seen = value_at(then);
        append(mine);
        if (self.random().chance(1, 4)) cut(mine);
        EXPECT_EQ(value_at(then), seen);
      } catch (const std::bad_alloc&) {
        EXPECT_TRUE(fault.fired());
      }
    }
  }

  void expect_works() {
    for (cutting<List>& some : cuts_) append(some);
    for (cutting<List>& some : cuts_) cut(some);
    EXPECT_EQ(list_.length(), 1U);
    EXPECT_EQ(list_.head()->value->read(), appended_.load());
    EXPECT_TRUE(nodes_.drain());
    EXPECT_EQ(book_.live(), 1);
  }

 private:
  std::uint64_t value_at(const snapshot& then) {
    auto here = nodes_.enter();
    return List::find(settled_head(), then.timestamp())->value->read();
  }
  node* settled_head() {
    node* const head = list_.head();
    time_.settle(*head);
    return head;
  }
  void append(cutting<List>& mine) {
    auto here = nodes_.enter();
    node* const x = settled_head();
    node* const y = made_behind<List>(x, nodes_, book_, x->value->read() + 1);
    const allocates_nothing from_here;
    if (!list_.try_append(x, y)) return nodes_.destroy(y);
    time_.settle(*y);
    x->until.write(y->since.load_relaxed());
    mine.note_ended(x);
    ++appended_;
  }
  void cut(cutting<List>& mine) {
    auto here = nodes_.enter();
    mine.cut(list_, here);
  }

  ledger& book_;
  region_domain nodes_;
  time_type time_;
  List list_;
  std::deque<cutting<List>> cuts_;
  std::atomic<std::uint64_t> appended_{0};
};

template <class List>
class version_list_errors : public testing::Test {
 protected:
  ~version_list_errors() override { book.expect_empty(); }

  /// In a world of its own for each allocation of f: f(world) on a new thread, where it fails. The
  /// thread's plan stays until it has ended. Returns how many failed.
  template <class F>
  std::uint64_t failures_of(failing how, F&& f) {
    bool all_seen = false;
    for (std::uint64_t n = 1;; ++n) {
      const std::int64_t before = live_allocations();
      {
        world<List> w(book);
        std::optional<fail_after> fault;
        on_another_thread([&] {
          fault.emplace(n, how);
          f(w);
          all_seen = !fault->fired();
        });
        w.expect_works();
      }
      // At first the process has things to make that stay.
      EXPECT_TRUE(n == 1 || live_allocations() == before);
      if (all_seen || testing::Test::HasFailure()) return n - 1;
    }
  }

  ledger book;
};
using all_lists = testing::Types<pdl, ssl, tree>;
struct list_names {
  template <class List>
  static std::string GetName(int) {
    return std::same_as<List, pdl> ? "pdl" : std::same_as<List, ssl> ? "ssl" : "tree";
  }
};
TYPED_TEST_SUITE(version_list_errors, all_lists, list_names);

TYPED_TEST(version_list_errors, memory_that_is_missing_once_changes_nothing) {
  EXPECT_GE(this->failures_of(failing::once, [](auto& w) { w.live(40); }), 100U);
}

TYPED_TEST(version_list_errors, memory_that_is_missing_from_then_on_changes_nothing) {
  EXPECT_GE(this->failures_of(failing::from_then_on, [](auto& w) { w.live(40); }), 100U);
}

/// Threads that append and cut, and are without memory now and then.
TYPED_TEST(version_list_errors, memory_that_is_missing_to_some_threads) {
  crowd<TypeParam> c(this->book);
  run_stress({.threads = crowd<TypeParam>::threads, .share = 0.5},
             [&](stress_thread& self) { c.live(self); });
  c.expect_works();
}

}  // namespace

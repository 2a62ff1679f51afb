// SPDX-License-Identifier: Apache-2.0
// Version lists under the model checker: removals of neighbours, appends and searches; compactions
// with scans that follow each other.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <spolia/base/census.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/version/list_pdl.hpp>
#include <spolia/version/list_ssl.hpp>
#include <spolia/version/scan_board.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class List>
struct versions {
  using node = typename List::node;

  explicit versions(std::uint64_t linked) : list(&nodes[0]) {
    for (std::uint64_t i = 0; i < nodes.size(); ++i) nodes[i].since.store_relaxed(i + 1);
    for (std::uint64_t i = 1; i < linked; ++i) append(i);
  }
  bool append(std::uint64_t i) { return list.try_append(&nodes[i - 1], &nodes[i]); }
  void remove(std::uint64_t i) {
    List::remove(&nodes[i]);
    gone[i].store_relaxed(true);
  }
  /// Nothing that was removed is linked, and all else is: L - R.
  void expect_exact(std::uint64_t appended) {
    std::uint64_t removed = 0;
    for (std::uint64_t i = 0; i < nodes.size(); ++i) removed += gone[i].load_relaxed() ? 1 : 0;
    list.for_each([&](const node* x) {
      model::check(!gone[static_cast<std::size_t>(x - nodes.data())].load_relaxed(),
                   "a removed version is linked");
      return true;
    });
    model::check(list.length() == appended - removed, "L - R versions are linked");
  }

  std::array<node, 5> nodes;
  std::array<atomic<bool>, 5> gone{};
  List list;
};

using pdl = versions<pdl_list<tracked>>;

void two_neighbours_go(model::scenario& run) {
  auto v = std::make_shared<pdl>(4);
  run.thread([=] { v->remove(1); });
  run.thread([=] { v->remove(2); });
  run.finally([=] { v->expect_exact(4); });
}

void three_neighbours_go(model::scenario& run) {
  auto v = std::make_shared<pdl>(5);
  run.thread([=] { v->remove(1); });
  run.thread([=] { v->remove(2); });
  run.thread([=] { v->remove(3); });
  run.finally([=] { v->expect_exact(5); });
}

/// The oldest has no version to its left.
void the_oldest_two_go(model::scenario& run) {
  auto v = std::make_shared<pdl>(3);
  run.thread([=] { v->remove(0); });
  run.thread([=] { v->remove(1); });
  run.finally([=] { v->expect_exact(3); });
}

/// One thread appends twice and removes what it has overwritten; another helps the first append on,
/// or removes the neighbour.
void appends_against_removals(model::scenario& run) {
  auto v = std::make_shared<pdl>(3);
  run.thread([=] {
    v->append(3);
    v->remove(2);
  });
  run.thread([=] {
    v->remove(1);
    if (v->list.head() == &v->nodes[3] && v->append(4)) v->remove(3);
  });
  run.finally([=] { v->expect_exact(v->list.head() == &v->nodes[4] ? 5 : 4); });
}

/// What a search finds was current at that time, whatever is removed meanwhile.
void a_search_meets_removals(model::scenario& run) {
  auto v = std::make_shared<pdl>(4);
  run.thread([=] { v->remove(1); });
  run.thread([=] { v->remove(2); });
  run.thread([=] {
    model::check(v->list.find(v->list.head(), 1) == &v->nodes[0], "the needed version is found");
  });
  run.finally([=] { v->expect_exact(4); });
}

TEST(version_pdl_model, what_is_removed_stays_removed) {
  expect_clean(two_neighbours_go, at_most(3));
  expect_clean(three_neighbours_go, at_most_in_order(2));
  expect_clean(the_oldest_two_go, at_most(3));
  expect_clean(appends_against_removals, at_most(2));
  expect_clean(a_search_meets_removals, at_most(1));
}
TEST(version_pdl_model, marks_must_meet) {
  expect_found(two_neighbours_go, "pdl.weak_mark", at_most(3), "a removed version is linked");
}
TEST(version_pdl_model, the_ends_must_be_looked_at_again) {
  expect_found(three_neighbours_go, "pdl.no_second_look", at_most_in_order(2),
               "a removed version is linked");
}

/// Versions that are freed: with a domain, whose readers and removers hold guards.
using short_domain = domain<token, batch>;
struct owned_base : short_domain::header, tracked {
  ~owned_base() { whole.write(false); }
  plain<bool> whole{true};
};

template <class List>
struct owned {
  using node = typename List::node;

  explicit owned(std::uint64_t n) : d({.scheme = {.tick_every = 1, .patience = 1}}), list(make(1)) {
    board.emplace(d);
    newest = list.head();
    for (std::uint64_t i = 2; i <= n; ++i) append(make(i));
  }
  node* make(std::uint64_t stamp) {
    node* const x = d.template make<node>();
    x->since.store_relaxed(stamp);
    return x;
  }
  void append(node* x) {
    list.try_append(newest, x);
    newest = x;
  }
  void look(std::uint64_t t) {
    auto guard = d.enter();
    node* const x = List::find(list.head(), t);
    model::check(x != nullptr && x->whole.read(), "a version was looked at after its end");
  }
  void run_on(int operations) {
    for (int n = 0; n < operations; ++n) auto guard = d.enter();
  }
  /// In `finally`: the domain hears of the end of each thread that uses it, and outlives that.
  void clear() {
    board.reset();
    for (node* x = list.release(); x != nullptr;) {
      node* const older = x->left.load_relaxed();
      if constexpr (requires { List::is_unlinked(x); }) {
        model::check(!List::is_unlinked(x), "a retired version is linked");
      }
      d.destroy(x);
      x = older;
    }
  }

  short_domain d;
  List list;
  std::optional<scan_board<short_domain>> board;
  node* newest;
};

using owned_pdl = owned<pdl_list<owned_base>>;

/// A search walks over the version that is removed and freed.
void a_search_meets_a_free(model::scenario& run) {
  auto v = std::make_shared<owned_pdl>(3);
  auto* const middle = v->newest->left.load_relaxed();
  run.thread([=] { v->look(1); });
  run.thread([=] {
    {
      auto guard = v->d.enter();
      pdl_list<owned_base>::remove(middle);
      guard.retire(middle);
    }
    v->run_on(4);
  });
  run.finally([=] { v->clear(); });
}

TEST(version_pdl_model, what_is_removed_may_be_retired) {
  expect_clean(a_search_meets_a_free, at_most(2));
}

using owned_ssl = owned<ssl_list<owned_base>>;

/// Scans of this world: what each look finds was laid down before.
struct compactions : owned_ssl {
  compactions(std::uint64_t n, std::vector<scan_times> s) : owned_ssl(n), looks(std::move(s)) {}

  void install(std::size_t i) {
    auto guard = d.enter();
    board->renew(guard, [&](scan_times& fresh) { fresh = looks[i]; });
  }
  void compact() {
    auto guard = d.enter();
    board->compact(list, [](node*) {}, [&](node* x) { guard.retire(x); });
  }

  std::vector<scan_times> looks;
};

/// One thread compacts four versions by the first scan or by the second, which the other installs.
void compact_by_two_scans(model::scenario& run, std::vector<scan_times> scans) {
  auto v = std::make_shared<compactions>(4, std::move(scans));
  v->install(0);
  run.thread([=] { v->compact(); });
  run.thread([=] {
    v->install(1);
    v->compact();
  });
  run.finally([=] { v->clear(); });
}

/// The first scan needs version 3 and the second does not. Cut off by one and linked again by the
/// other, it would be freed while it is linked.
void two_scans_that_follow(model::scenario& run) { compact_by_two_scans(run, {{4, {3}}, {4, {}}}); }

/// The second scan finds an announcement that is not confirmed, below what the first knew.
void a_scan_that_does_not_follow(model::scenario& run) {
  compact_by_two_scans(run, {{3, {}}, {4, {1, 2}}});
}

/// The clock stands still between two scans. One thread has read the older scan, the other the
/// newer one and the head; then a version is appended, and the first thread begins there.
void a_head_between_two_scans(model::scenario& run) {
  auto v = std::make_shared<compactions>(3, std::vector<scan_times>{{4, {2}}, {4, {}}});
  v->install(0);
  auto* const fourth = v->make(4);
  run.thread([=] { v->compact(); });
  run.thread([=] {
    v->install(1);
    v->compact();
  });
  run.thread([=] { v->list.try_append(v->list.head(), fourth); });
  run.finally([=] { v->clear(); });
}

model::options at_random(std::uint64_t executions) {
  model::options how = at_most_in_order(-1);
  how.how = model::options::mode::pct;
  how.pct_depth = 4;
  how.executions = executions;
  return how;
}

/// One thread cuts two versions off, and flags them; the other has one of them from the tracker.
void a_flag_is_believed(model::scenario& run) {
  using list = ssl_list<owned_base>;
  auto v = std::make_shared<compactions>(4, std::vector<scan_times>{{4, {1}}});
  v->install(0);
  auto* const third = v->newest->left.load_relaxed();
  auto* const second = third->left.load_relaxed();
  run.thread([=] {
    static constexpr list::flagged_only flags_only{};
    auto guard = v->d.enter();
    v->board->compact(v->list, [](list::node*) {}, flags_only);
  });
  run.thread([=] {
    auto guard = v->d.enter();
    if (!list::is_unlinked(third)) return;
    v->list.for_each([&](const list::node* x) {
      model::check(x != third, "a version was met that had been cut off");
      return true;
    });
  });
  run.finally([=] {
    v->clear();
    v->d.destroy(second);
    v->d.destroy(third);
  });
}

TEST(version_ssl_model, what_is_flagged_is_cut_off) {
  expect_clean(a_flag_is_believed, at_most_in_order(2));
  expect_clean(a_flag_is_believed, at_most(2));
}
TEST(version_ssl_model, flags_must_tell_of_the_cut) {
  expect_found(a_flag_is_believed, "ssl.flagged_relaxed", at_most(2),
               "a version was met that had been cut off");
}

TEST(version_ssl_model, scans_that_follow_agree) {
  expect_clean(two_scans_that_follow, at_most_in_order(2));
  expect_clean(a_scan_that_does_not_follow, at_most_in_order(2));
  expect_clean(a_head_between_two_scans, at_most_in_order(1));
  EXPECT_TRUE(model::explore(at_random(20000), a_head_between_two_scans).ok);
}
TEST(version_ssl_model, scans_must_follow) {
  expect_found(a_scan_that_does_not_follow, "board.no_filter", at_most_in_order(2),
               "a retired version is linked");
}
TEST(version_ssl_model, the_head_must_belong_to_the_scan) {
  expect_found(a_head_between_two_scans, "board.head_by_itself", at_random(200000),
               "a retired version is linked");
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// TreeDL under the model checker: removals that wait for each other, jobs, and what they free.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include <spolia/reclaim/domain.hpp>
#include <spolia/version/list_tree.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// Versions 0, 1, ..., whose depths are 1, 3, 2, 5, 4, 5, 3, 7.
struct versions {
  using list_type = tree_list<tracked>;
  using node = list_type::node;

  explicit versions(std::size_t linked) : list(&nodes[0]) {
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].since.store_relaxed(i + 1);
    for (std::size_t i = 1; i < linked; ++i) append(i);
  }
  bool append(std::size_t i) { return list.try_append(&nodes[i - 1], &nodes[i]); }
  void remove(std::size_t i) {
    list_type::remove(&nodes[i], [&](node* x) {
      const auto n = static_cast<std::size_t>(x - nodes.data());
      model::check(!gone[n].exchange_relaxed(true), "a version was given away twice");
      if (looks_at_jobs) expect_unnamed(x);
    });
  }
  /// No thread can learn its name from a job any more.
  void expect_unnamed(const node* x) {
    for (const node& n : nodes) {
      if (&n == x) continue;
      model::check(n.left_job.load_relaxed() != x && n.right_job.load_relaxed() != x,
                   "a job names a version that was given away");
    }
  }
  /// What was given away is not linked, and each removed version that is linked has two deeper
  /// neighbours: none was forgotten.
  void expect_settled() {
    std::vector<const node*> linked;
    list.for_each([&](const node* x) {
      linked.insert(linked.begin(), x);
      return true;
    });
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < linked.size(); ++i) {
      const node* const x = linked[i];
      model::check(!gone[static_cast<std::size_t>(x - nodes.data())].load_relaxed(),
                   "a removed version is linked");
      if (x->state.load_relaxed() == removal::none) {
        ++wanted;
        continue;
      }
      const node* const older = i == 0 ? nullptr : linked[i - 1];
      const std::uint64_t depth = list_type::depth(x);
      model::check(list_type::depth(older) > depth && list_type::depth(linked[i + 1]) > depth,
                   "a removed version was forgotten");
      model::check(x->left.load_relaxed() == older && linked[i + 1]->left.load_relaxed() == x,
                   "links agree");
    }
    model::check(linked.size() < 2 * wanted, "fewer than 2 (L - R) are linked");
  }

  bool looks_at_jobs = false;
  std::array<node, 8> nodes;
  std::array<atomic<bool>, 8> gone{};
  list_type list;
};

/// One thread for each of the versions that are to go.
template <std::size_t Linked, std::size_t... Goes>
void removals(model::scenario& run) {
  auto v = std::make_shared<versions>(Linked);
  (run.thread([=] { v->remove(Goes); }), ...);
  run.finally([=] { v->expect_settled(); });
}

/// Two threads come to take out one version, when the one between its neighbours has gone.
void two_jobs(model::scenario& run) {
  auto v = std::make_shared<versions>(5);
  v->looks_at_jobs = true;
  v->remove(1);
  run.thread([=] { v->remove(3); });
  run.thread([=] { v->remove(2); });
  run.finally([=] { v->expect_settled(); });
}

/// One has been removed and waits for its neighbours.
void one_waits(model::scenario& run) {
  auto v = std::make_shared<versions>(5);
  v->remove(2);  // between two deeper ones
  run.thread([=] { v->remove(1); });
  run.thread([=] { v->remove(3); });
  run.finally([=] { v->expect_settled(); });
}

void appends_against_removals(model::scenario& run) {
  auto v = std::make_shared<versions>(3);
  run.thread([=] {
    v->append(3);
    v->remove(2);
  });
  run.thread([=] {
    v->remove(1);
    if (v->list.head() == &v->nodes[3] && v->append(4)) v->remove(3);
  });
  run.finally([=] { v->expect_settled(); });
}

void a_search_meets_removals(model::scenario& run) {
  auto v = std::make_shared<versions>(4);
  run.thread([=] { v->remove(1); });
  run.thread([=] { v->remove(2); });
  run.thread([=] {
    model::check(v->list.find(v->list.head(), 1) == &v->nodes[0], "the needed version is found");
  });
  run.finally([=] { v->expect_settled(); });
}

TEST(version_treedl_model, what_is_removed_stays_removed) {
  expect_clean(removals<4, 1, 2>, at_most(3));              // a leaf and the one above it
  expect_clean(removals<5, 2, 3>, at_most(3));              // one below the other, on the right
  expect_clean(removals<3, 0, 1>, at_most(3));              // the oldest two
  expect_clean(removals<5, 1, 2, 3>, at_most_in_order(2));  // one with two below it
  expect_clean(removals<6, 2, 3, 4>, at_most_in_order(2));
}
TEST(version_treedl_model, who_waits_is_seen_to) {
  expect_clean(one_waits, at_most(3));
  expect_clean(appends_against_removals, at_most(2));
  expect_clean(a_search_meets_removals, at_most(1));
}
TEST(version_treedl_model, neighbours_must_be_seen_to) {
  expect_found(one_waits, "treedl.forgets_neighbours", at_most(3), "forgotten");
}
TEST(version_treedl_model, freezing_and_looking_must_meet) {
  expect_found(removals<4, 1, 2>, "treedl.weak_freeze", at_most(3), "forgotten");
}
TEST(version_treedl_model, both_sides_must_be_frozen) {
  expect_found(removals<5, 1, 2, 3>, "treedl.no_freeze", at_most_in_order(2),
               "a removed version is linked");
}
TEST(version_treedl_model, the_link_of_who_has_the_job_is_the_last) {
  expect_found(removals<5, 1, 2, 3>, "treedl.wrong_order", at_most_in_order(2), "forgotten");
}
TEST(version_treedl_model, both_ends_must_be_joined) {
  expect_found(appends_against_removals, "treedl.one_end", at_most(2), "forgotten");
}
TEST(version_treedl_model, who_puts_up_a_job_holds) {
  expect_clean(two_jobs, at_most_in_order(2));
  expect_found(two_jobs, "treedl.unheld", at_most_in_order(4), "a job names");
}

/// Versions that are freed, and must be whole while they are looked at.
using short_domain = domain<token, batch>;
struct owned_base : short_domain::header, tracked {
  ~owned_base() { whole.write(false); }
  plain<bool> whole{true};
};

struct owned {
  using list_type = tree_list<owned_base>;
  using node = list_type::node;

  explicit owned(std::uint64_t n)
      : d({.scheme = {.tick_every = 1, .patience = 1}}), list(make(1)), at{list.head()} {
    for (std::uint64_t i = 2; i <= n; ++i) {
      at.push_back(make(i));
      list.try_append(at[i - 2], at[i - 1]);
    }
  }
  node* make(std::uint64_t stamp) {
    node* const x = d.make<node>();
    x->since.store_relaxed(stamp);
    return x;
  }
  void look(std::uint64_t t) {
    auto guard = d.enter();
    node* const x = list_type::find(list.head(), t);
    model::check(x != nullptr && x->whole.read(), "a version was looked at after its end");
  }
  void remove(std::size_t i) {
    auto guard = d.enter();
    list_type::remove(at[i], [&](node* x) { guard.retire(x); });
  }
  void run_on(int operations) {
    for (int n = 0; n < operations; ++n) auto guard = d.enter();
  }
  void clear() {
    for (node* x = list.release(); x != nullptr;) {
      node* const older = x->left.load_relaxed();
      d.destroy(x);
      x = older;
    }
  }

  short_domain d;
  list_type list;
  std::vector<node*> at;
};

void a_search_meets_a_free(model::scenario& run) {
  auto v = std::make_shared<owned>(3);
  run.thread([=] { v->look(1); });
  run.thread([=] {
    v->remove(1);
    v->run_on(4);
  });
  run.finally([=] { v->clear(); });
}

/// A version with one deeper neighbour, which is removed as well: a job is put up for it, found by
/// the other, taken down; and then it is freed.
void a_job_meets_a_free(model::scenario& run) {
  auto v = std::make_shared<owned>(4);
  run.thread([=] {
    v->remove(2);
    v->run_on(4);
  });
  run.thread([=] { v->remove(1); });
  run.finally([=] { v->clear(); });
}

/// Two threads put up jobs for one version; a third removes the neighbour that carries them.
void two_jobs_meet_a_free(model::scenario& run) {
  auto v = std::make_shared<owned>(5);
  v->remove(2);  // waits for 1 or 3
  run.thread([=] {
    v->remove(3);
    v->run_on(4);
  });
  run.thread([=] { v->remove(1); });
  run.finally([=] { v->clear(); });
}

TEST(version_treedl_model, what_is_given_away_may_be_retired) {
  expect_clean(a_search_meets_a_free, at_most(1));
  expect_clean(a_job_meets_a_free, at_most_in_order(2));
  expect_clean(two_jobs_meet_a_free, at_most_in_order(2));
}

}  // namespace

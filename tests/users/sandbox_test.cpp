// SPDX-License-Identifier: Apache-2.0
// A sandbox that a program puts on after it has used the library: everything goes on, and garbage
// is freed.

#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <thread>

#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>

#include "support/all_domains.hpp"
#include "support/elsewhere.hpp"
#include "support/ledger.hpp"
#include "support/sandbox.hpp"

namespace {

using namespace spolia;
using spolia::test::ledger;
using spolia::test::refuse;
using spolia::test::status_of_child;
using spolia::test::tracked;

/// In a child: body() before the sandbox is put on, and after that in two threads at once; in the
/// end, last().
template <class Body, class Last>
void stands_a_sandbox(int error, Body body, Last last) {
  const int status = status_of_child([&] {
    body();
    if (!refuse({SYS_membarrier}, error)) _exit(77);
    for (int round = 0; round < 2; ++round) {
      std::thread other([&] { body(); });
      body();
      other.join();
    }
    last();
  });
  if (status == 77 << 8) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

/// What lives as long as its child does.
template <class Domain>
struct shared_blocks {
  struct block : Domain::header {
    explicit block(ledger& book) : value(book, 1) {}
    tracked value;
  };
  ledger book;
  Domain home;

  void retire_some() {
    for (int i = 0; i < 500; ++i) {
      block* const fresh = home.template make<block>(book);
      auto g = home.enter();
      g.retire(fresh);
    }
  }
};

template <class Domain>
class sandboxed_scheme : public testing::Test {};
TYPED_TEST_SUITE(sandboxed_scheme, spolia::test::few_domains, spolia::test::domain_names);

TYPED_TEST(sandboxed_scheme, goes_on_and_frees) {
  shared_blocks<TypeParam> shared;
  stands_a_sandbox(
      EPERM, [&] { shared.retire_some(); },
      [&] {
        if (!TypeParam::info().reclaims || spolia::test::needs_every_thread<TypeParam>) return;
        EXPECT_TRUE(shared.home.drain());
        EXPECT_EQ(shared.book.live(), 0);
      });
}

class sandboxed : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(errors, sandboxed, testing::Values(EPERM, ENOSYS));

struct shared_things {
  abtree<int, int> map;
  atomic_shared_ptr<tracked> location;
  ledger book;

  void use() {
    for (int i = 0; i < 300; ++i) {
      map.insert_or_assign(i % 10, i);
      map.erase(i % 7);
      location.store(make_shared<tracked>(book, 1U));
      const std::scoped_lock region(rcu_default_domain());
      rcu_retire(new tracked(book, 1U));
    }
    rcu_synchronize();
  }
};

TEST_P(sandboxed, maps_pointers_and_the_standard_faces_go_on) {
  shared_things shared;
  stands_a_sandbox(
      GetParam(), [&] { shared.use(); },
      [&] {
        shared.location.store(nullptr);
        rcu_barrier();
        EXPECT_TRUE(counted::drain());
        EXPECT_TRUE(shared.map.domain().drain());
        EXPECT_EQ(shared.book.live(), 0);
      });
}

}  // namespace

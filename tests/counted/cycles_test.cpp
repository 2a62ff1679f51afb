// SPDX-License-Identifier: Apache-2.0
// Cycles among objects that name their children: found and ended where nothing leads to them from
// outside, and left alone where anything does.

#include <gtest/gtest.h>

#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spolia/memory.hpp>

#include "support/faults.hpp"
#include "support/ledger.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct person : traced<person> {
  explicit person(ledger& book) : value(book, 1) {}
  template <class F>
  void each_child(F&& f) {
    f(friend_of);
    f(boss);
    for (shared_ptr<person>& p : others) f(p);
  }

  tracked value;
  shared_ptr<person> friend_of;
  atomic_shared_ptr<person> boss;
  std::vector<shared_ptr<person>> others;
  shared_ptr<person> secret;  // not named
};

struct link : traced<link> {
  explicit link(ledger& book) : value(book, 1) {}
  template <class F>
  void each_child(F&& f) {
    f(next);
    f(owned);
  }

  tracked value;
  atomic_thin_ptr<link> next;
  thin_ptr<link> owned;
};

class counted_cycles : public testing::Test {
 public:
  ~counted_cycles() override {
    counted::end_cycles();
    EXPECT_EQ(counted::find_cycles().objects, 0U);
    book.expect_empty();
  }
  shared_ptr<person> make() { return make_shared<person>(book); }

  /// Two that know each other, the one by a location.
  shared_ptr<person> make_pair() {
    auto a = make();
    a->friend_of = make();
    a->friend_of->boss = a;
    return a;
  }

  ledger book;
};

TEST_F(counted_cycles, are_found_with_their_types_and_ended) {
  make_pair();
  {
    auto self = make_thin<link>(book);
    self->next = self;
    auto ring = make_thin<link>(book);
    ring->owned = make_thin<link>(book);
    ring->owned->owned = ring;
  }
  EXPECT_EQ(book.live(), 5);
  const counted::cycle_report r = counted::find_cycles();
  EXPECT_EQ(r.objects, 5U);
  EXPECT_EQ(r.bytes, 2 * sizeof(person) + 3 * sizeof(link));
  ASSERT_EQ(r.types.size(), 2U);
  EXPECT_NE(r.types[0].first.find("link"), std::string::npos);
  EXPECT_EQ(r.types[0].second, 3U);
  EXPECT_NE(r.types[1].first.find("person"), std::string::npos);
  EXPECT_EQ(r.types[1].second, 2U);
  EXPECT_EQ(book.live(), 5) << "finding changes nothing";
  EXPECT_EQ(counted::end_cycles().objects, 5U);
  EXPECT_EQ(book.live(), 0);
}

TEST_F(counted_cycles, held_from_outside_are_left_alone) {
  const auto held = [&](const char* by) {
    EXPECT_EQ(counted::end_cycles().objects, 0U) << by;
    EXPECT_EQ(book.live(), 2) << by;
  };
  {
    const auto kept = make_pair();
    held("a plain pointer");
  }
  counted::end_cycles();
  {
    const atomic_shared_ptr<person> kept(make_pair()->friend_of);
    held("a location");
    const private_ptr<person> at(kept);
    const private_ptr<person> next(at->boss);
    held("a private pointer and a location");
  }
  counted::end_cycles();
  {
    atomic_shared_ptr<person> kept(make_pair());
    const private_ptr<person> at(kept.load()->friend_of->boss);
    kept = nullptr;
    held("a private pointer");
  }
  counted::end_cycles();
  {
    auto holder = make();
    holder->secret = make_pair();
    EXPECT_EQ(counted::end_cycles().objects, 0U) << "an object that does not name it";
  }
  counted::end_cycles();
  EXPECT_EQ(book.live(), 0);
}

TEST_F(counted_cycles, with_all_that_only_they_lead_to) {
  auto in_use = make();
  {
    auto a = make_pair();
    for (int i = 0; i < 10; ++i) a->others.push_back(make());
    a->others.push_back(a);
    a->others.push_back(in_use);
    a->others[3]->secret = make();
  }
  EXPECT_EQ(counted::end_cycles().objects, 12U);
  EXPECT_EQ(book.live(), 1) << "also what is not named, and not what is in use";
  EXPECT_EQ(in_use.use_count(), 1);
}

TEST_F(counted_cycles, through_aliases_and_weak_pointers) {
  const auto count_of = [](const shared_ptr<person>& p) { return p.use_count(); };
  weak_ptr<person> w;
  {
    const auto a = make();
    a->boss = shared_ptr<person>(a, nullptr);  // a null that owns: an alias in the location
    w = a;
    EXPECT_GE(count_of(a), 2);
  }
  EXPECT_FALSE(w.expired());
  EXPECT_EQ(counted::end_cycles().objects, 1U);
  EXPECT_TRUE(w.expired());
}

TEST_F(counted_cycles, what_a_private_pointer_to_an_alias_holds_stays) {
  auto a = make();
  auto b = make();
  a->boss = shared_ptr<person>(b, a.get());  // owns b, and points elsewhere
  b->friend_of = a;
  {
    const private_ptr<person> at(a->boss);
    a.reset();
    b.reset();
    EXPECT_EQ(counted::find_cycles().objects, 0U);
  }
  EXPECT_EQ(counted::end_cycles().objects, 2U);
}

TEST_F(counted_cycles, only_of_objects_whose_end_is_known) {
  person outside(book);
  const shared_ptr<person> p(&outside, [](person*) {});
  outside.friend_of = p;
  EXPECT_EQ(counted::find_cycles().objects, 0U);
  outside.friend_of.reset();
  shared_ptr<person> q(new person(book));
  q->friend_of = q;
  q.reset();
  EXPECT_EQ(counted::end_cycles().objects, 1U);
}

TEST_F(counted_cycles, long_rings) {
  constexpr int many = 20000;
  {
    const auto first = make_thin<link>(book);
    thin_ptr<link> last = first;
    for (int i = 1; i < many; ++i) {
      last->owned = make_thin<link>(book);
      last = last->owned;
    }
    last->next = first;
  }
  EXPECT_EQ(counted::end_cycles().objects, static_cast<std::size_t>(many));
  EXPECT_EQ(book.live(), 0);
}

/// The search looks through a hundred locations that lead to one object, one after the other, and
/// has none of its units at hand meanwhile: see count_cache.hpp.
TEST_F(counted_cycles, of_many_that_lead_to_one) {
  std::thread([] {}).join();  // from now on the process may have several threads
  {
    const auto middle = make();
    for (int i = 0; i < 100; ++i) {
      middle->others.push_back(make());
      middle->others.back()->boss = middle;
    }
    auto thin = make_thin<link>(book);
    thin->next = thin;
    for (int i = 0; i < 100; ++i) {
      auto one_more = make_thin<link>(book);
      one_more->next = thin;
      one_more->owned = thin->owned;
      thin->owned = one_more;
    }
  }
  EXPECT_EQ(counted::find_cycles().objects, 202U);
  EXPECT_EQ(counted::end_cycles().objects, 202U);
  EXPECT_EQ(book.live(), 0);
}

TEST_F(counted_cycles, failing_allocations) {
  make_pair();
  for_each_allocation_failure([&] { counted::end_cycles(); });
  EXPECT_EQ(book.live(), 0);
}

TEST_F(counted_cycles, objects_of_many_threads) {
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto p = make_pair();
        if (i % 2 == 0) p->friend_of.reset();
      }
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(counted::end_cycles().objects, 4U * 500);
}

/// A thread that was sent away while it named an alias may name it when that is gone: names are not
/// confirmed. Here one names what lies in no memory.
TEST_F(counted_cycles, what_is_named_need_not_be_alive) {
  make_pair();
  void* const nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  std::binary_semaphore named{0};
  std::binary_semaphore done{0};
  std::thread other([&] {
    counted::detail::slot& its = counted::detail::here().pins.passing();
    its.store_relaxed(reinterpret_cast<counted::detail::word>(nothing) |
                      counted::detail::tag_alias);
    named.release();
    done.acquire();
    counted::detail::clear_name(its);
  });
  named.acquire();
  EXPECT_EQ(counted::find_cycles().objects, 2U);
  done.release();
  other.join();
  munmap(nothing, 4096);
}

TEST_F(counted_cycles, in_a_forked_child) {
  make_pair();
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) make();
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(120);
      _exit(counted::end_cycles().objects == 2 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

}  // namespace

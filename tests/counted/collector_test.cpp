// SPDX-License-Identifier: Apache-2.0
// What is not the standard's: private pointers, deferred ends, drain, long and wide structures,
// threads that come and go.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <semaphore>
#include <set>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spolia/memory.hpp>

#include "nodes.hpp"
#include "support/one_processor.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using node = booked_node<shared_family>;
using counted_ends = nodes_end<shared_family>;
using private_node = private_ptr<node>;

TEST_F(counted_ends, a_private_pointer_holds_its_object) {
  atomic_shared_ptr<node> head(make(1));
  {
    private_node n(head);
    head = make(2);
    EXPECT_FALSE(counted::drain());
    EXPECT_EQ(n->key(), 1);
    EXPECT_EQ(book.live(), 2);
    const private_node copy = n;
    n = head;
    EXPECT_EQ(n->key(), 2);
    EXPECT_FALSE(counted::drain());
    EXPECT_EQ(copy->key(), 1);
  }
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(book.live(), 1);
}

/// By each of the pins that are found at once, and by one that is not.
TEST_F(counted_ends, a_private_pointer_holds_nothing_for_one_that_ended_before) {
  const atomic_shared_ptr<node> other(make(3));
  for (std::size_t others = 0; others < 5; ++others) {
    std::vector<private_node> pins;
    for (std::size_t i = 0; i < others; ++i) pins.emplace_back(other);
    atomic_shared_ptr<node> head(make(1));
    head.load()->next = make(2);
    {
      private_node n(head);
      n = n->next;
      EXPECT_EQ(n->key(), 2);
    }
    const private_node m(other);
    head = nullptr;
    EXPECT_TRUE(counted::drain()) << "beside " << others;
    EXPECT_EQ(book.live(), 1);
    EXPECT_EQ(m->key(), 3);
  }
}

TEST_F(counted_ends, who_holds_an_object_is_told) {
  const shared_ptr<node> mine = make(1);
  const atomic_shared_ptr<node> head(mine);
  std::binary_semaphore holding{0};
  std::binary_semaphore done{0};
  std::thread report([&] {
    pthread_setname_np(pthread_self(), "report");
    const private_node n(head);
    const private_node again(head);
    holding.release();
    done.acquire();
  });
  holding.acquire();
  const auto by_report = [&](std::vector<counted::holder> all) {
    std::erase_if(all, [&](const counted::holder& h) { return h.object != mine.get(); });
    return all;
  };
  const auto first = by_report(counted::holders());
  ASSERT_EQ(first.size(), 1U) << "once for both pointers";
  EXPECT_EQ(first[0].thread_name, "report");
  EXPECT_NE(first[0].os_thread, gettid());
  EXPECT_EQ(first[0].age.count(), 0);
  const auto second = by_report(counted::holders(first));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_GT(second[0].age.count(), 0);
  EXPECT_GT(by_report(counted::holders(second))[0].age, second[0].age) << "from the first look on";
  done.release();
  report.join();
  EXPECT_TRUE(by_report(counted::holders(second)).empty());
}

TEST_F(counted_ends, private_pointers_of_every_origin) {
  shared_ptr<node> p = make(3);
  private_node n(p);
  EXPECT_EQ(p.use_count(), 2) << "from a plain pointer: counted";
  p.reset();
  private_node m = std::move(n);
  EXPECT_FALSE(n);
  EXPECT_EQ(m->key(), 3);
  const shared_ptr<node> back = m.share_out();
  EXPECT_EQ(back.use_count(), 2);
  m = nullptr;
  EXPECT_EQ(back.use_count(), 1);
  const atomic_shared_ptr<node> a(back);
  m = a;
  EXPECT_EQ(m, back);
  EXPECT_EQ(m.share_out(), back);
  const private_ptr<const node> c = m;
  EXPECT_EQ(c, m);
  EXPECT_EQ((std::hash<private_node>{}(m)), std::hash<node*>{}(back.get()));
  m.reset();
  EXPECT_EQ(m, nullptr);
  EXPECT_FALSE(private_node(nullptr).share_out());
  const atomic_shared_ptr<int> key(shared_ptr<int>(back, reinterpret_cast<int*>(back.get())));
  const private_ptr<int> k(key);
  const shared_ptr<int> alias = k.share_out();
  EXPECT_FALSE(alias.owner_before(back) || back.owner_before(alias));
}

/// Whose blocks lie at every multiple of 8.
struct odd_sized {
  explicit odd_sized(int& n) : alive(n) { ++alive; }
  odd_sized(const odd_sized&) = delete;
  odd_sized& operator=(const odd_sized&) = delete;
  ~odd_sized() {
    --alive;
    word = 0;
  }
  int& alive;
  std::uint64_t word = 1;
  std::uint64_t filler = 0;
};
static_assert(alignof(odd_sized) == 8 && sizeof(odd_sized) % 16 == 8);
struct alignas(16) even {
  std::uint64_t word = 1;
};

TEST_F(counted_ends, blocks_at_every_multiple_of_eight) {
  int alive = 0;
  std::set<std::uintptr_t> found;
  std::vector<atomic_shared_ptr<odd_sized>> all(64);
  std::vector<atomic_weak_ptr<odd_sized>> weak(64);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto made = make_shared<odd_sized>(alive);
    found.insert(reinterpret_cast<std::uintptr_t>(made.get()) % 16);
    all[i] = made;
    weak[i] = made;
  }
  EXPECT_EQ(found.size(), SPOLIA_POOL != 0 ? 2U : 1U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const private_ptr<odd_sized> counts(all[i].load());
    const private_ptr<odd_sized> names(all[i]);
    const private_ptr<odd_sized> copy = counts;
    all[i] = nullptr;
    weak[i] = weak_ptr<odd_sized>();
    EXPECT_FALSE(counted::drain());
    EXPECT_EQ(counts->word + names->word + copy.share_out()->word, 3U);
  }
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(alive, 0);
}

TEST_F(counted_ends, alignments) {
  std::vector<shared_ptr<unsigned char[]>> kept;
  for (int i = 0; i < 4; ++i) {
    const atomic_shared_ptr<even> location(make_shared<even>());
    const private_ptr<even> p(location);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.get()) % 16, 0U);
    EXPECT_EQ(p->word, 1U);
    kept.push_back(make_shared<unsigned char[]>(40));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept.back().get()) % 16, 0U) << "as new's";
  }
}

TEST_F(counted_ends, more_private_pointers_than_fit_into_the_first_chunk) {
  std::vector<atomic_shared_ptr<node>> sources(40);
  std::vector<private_node> pins;
  for (int i = 0; i < 40; ++i) {
    sources[static_cast<std::size_t>(i)] = make(i);
    pins.emplace_back(sources[static_cast<std::size_t>(i)]);
  }
  for (auto& s : sources) s = nullptr;
  EXPECT_FALSE(counted::drain());
  for (int i = 0; i < 40; ++i) EXPECT_EQ(pins[static_cast<std::size_t>(i)]->key(), i);
  pins.clear();
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(book.live(), 0);
}

TEST_F(counted_ends, replace_if_compares_with_a_private_pointer) {
  atomic_shared_ptr<node> head(make(1));
  private_node n(head);
  EXPECT_TRUE(head.replace_if(n, make(2)));
  EXPECT_FALSE(head.replace_if(n, make(3)));
  EXPECT_EQ(head.load()->key(), 2);
  EXPECT_FALSE(head.replace_if(nullptr, make(3)));
}

TEST_F(counted_ends, exchange_leaves_a_pinned_object_alone) {
  atomic_shared_ptr<node> head(make(1));
  const private_node n(head);
  head.exchange(nullptr);
  shared_ptr<node> p;
  head.compare_exchange_strong(p, nullptr);
  EXPECT_EQ(n->key(), 1);
}

/// No recursion, and about as many steps as nodes.
TEST_F(counted_ends, long_lists_end_in_bounded_steps) {
  constexpr int nodes = 200000;
  for (const bool atomically : {true, false}) {
    atomic_shared_ptr<node> head;
    for (int i = 0; i < nodes; ++i) {
      shared_ptr<node> n = make(i);
      if (atomically) {
        n->next = head.load();
      } else {
        n->owned = head.load();
      }
      head = n;
    }
    EXPECT_TRUE(counted::drain());
    EXPECT_EQ(book.live(), nodes);
    const std::uint64_t epochs = counted::statistics().epochs;
    head = nullptr;
    EXPECT_TRUE(counted::drain());
    EXPECT_EQ(book.live(), 0);
    EXPECT_LE(counted::statistics().epochs, epochs + 2) << "not an epoch for each node";
  }
  shared_ptr<node> plain;
  for (int i = 0; i < nodes; ++i) {
    shared_ptr<node> n = make(i);
    n->owned = std::move(plain);
    plain = std::move(n);
  }
  plain.reset();
  EXPECT_EQ(book.live(), 0) << "where no location is involved, nothing waits";
}

TEST_F(counted_ends, wide_objects_end) {
  atomic_shared_ptr<std::vector<atomic_shared_ptr<node>>> head(
      make_shared<std::vector<atomic_shared_ptr<node>>>(std::size_t{100000}));
  for (auto& child : *head.load()) child = make(1);
  head = nullptr;
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(book.live(), 0);
}

/// Without drain: other changes bring about the end of what was given up, a bounded bit at a time.
TEST_F(counted_ends, changes_help_along) {
  atomic_shared_ptr<node> head;
  std::int64_t most = 0;
  for (int i = 0; i < 100000; ++i) {
    head = make(i);
    most = std::max(most, book.live());
  }
  EXPECT_LE(most, 3 * 4096) << "one thread's epochs begin after 4096 units";
}

/// Lives until it is destroyed, and knows how many others do.
struct one_of_many {
  one_of_many() { ++alive; }
  one_of_many(const one_of_many&) = delete;
  one_of_many& operator=(const one_of_many&) = delete;
  ~one_of_many() { --alive; }
  static inline std::atomic<std::int64_t> alive = 0;
};

/// All threads share a processor, so that again and again one is sent away in the midst of a task,
/// and the epoch goes no further for a whole slice of another's time.
TEST(counted_bound, holds_while_helpers_are_kept_from_running) {
  using steady = std::chrono::steady_clock;
  constexpr std::int64_t threads = 4;
  const auto begin = steady::now();
  const auto end = begin + std::chrono::milliseconds(400);
  std::atomic<std::int64_t> most = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      const one_processor here;
      atomic_shared_ptr<one_of_many> head;
      std::int64_t mine = 0;
      while (steady::now() < end) {
        for (int i = 0; i < 64; ++i) head = make_shared<one_of_many>();
        mine = std::max(mine, one_of_many::alive.load());
      }
      for (std::int64_t seen = most; seen < mine && !most.compare_exchange_weak(seen, mine);) {
      }
    });
  }
  for (std::thread& t : all) t.join();
  const auto ms = (steady::now() - begin) / std::chrono::milliseconds(1);
  // Each waits before each change beyond: the last naps alone take 0.3 ms.
  const std::int64_t slowly = 4 * ms;
  EXPECT_LE(most, threads * (2 * 8192 + 128 + slowly));
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(one_of_many::alive, 0);
}

/// Gives up so many so fast that the thread does not look at the clock after the last ones.
template <class Location, class Make>
void give_up_some(Location& at, const Make& make_one) {
  for (int i = 0; i < 150; ++i) at = make_one(i);
}

/// What threads have left that ended, sleep or do nothing else: it goes with another one's reads.
TEST_F(counted_ends, what_waits_goes_in_time_where_threads_only_read) {
  using thin = booked_node<thin_family>;
  const atomic_shared_ptr<node> hot(make(1));
  const atomic_shared_ptr<node> by_turns(make(2));
  for (const bool cached : {true, false}) {
    atomic_shared_ptr<node> strong(make(0));
    atomic_thin_ptr<thin> slim;
    atomic_weak_ptr<node> weak;
    const auto give_up = [&] {
      give_up_some(slim, [&](int i) { return make_thin<thin>(book, i); });
      give_up_some(weak, [&](int i) { return weak_ptr<node>(make(i)); });
      give_up_some(strong, [&](int i) {
        auto n = make(i);
        n->next = make(i);
        return n;
      });
    };
    std::thread(give_up).join();
    give_up();
    std::optional<private_node> pin(std::in_place, strong);
    strong = nullptr;
    slim = nullptr;
    weak = weak_ptr<node>();
    EXPECT_GT(book.live(), 2 + 2 * 32) << "else this test waits for nothing";
    pin.reset();
    // The time that is promised, and more on a busy machine.
    for (int ms = 0; ms < 5000 && counted::statistics().waiting() != 0; ms += 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (int i = 0; i < 256; ++i)
        EXPECT_GE((cached || i % 2 == 0 ? hot : by_turns).load()->key(), 1);
    }
    EXPECT_EQ(book.live(), 2) << (cached ? "loads of one object" : "loads of two");
    EXPECT_EQ(counted::statistics().waiting(), 0U) << "weak references, too";
  }
}

/// Reads help where it is time; but not before the thread may run destructors again.
TEST_F(counted_ends, what_is_overdue_waits_while_no_destructor_may_run) {
  const atomic_shared_ptr<node> hot(make(1));
  std::thread([&] {
    atomic_shared_ptr<node> strong;
    give_up_some(strong, [&](int i) { return make(i); });
  }).join();
  const std::int64_t before = book.live();
  EXPECT_GT(before, 32) << "else this test waits for nothing";
  {
    const counted::no_destructors quiet;
    for (int ms = 0; ms < 600; ms += 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (int i = 0; i < 256; ++i) EXPECT_EQ(hot.load()->key(), 1);
    }
    EXPECT_EQ(book.live(), before);
  }
  EXPECT_EQ(book.live(), 1) << "it does what it owes";
}

/// No thousands follow what such a thread gives up. It finds out that it does so seldom when it
/// looks at the clock, which is after 64 at the latest: what it has done before is another pace.
TEST_F(counted_ends, little_waits_of_a_thread_that_gives_up_something_now_and_then) {
  atomic_shared_ptr<node> head;
  constexpr int until_it_looks = 64;
  std::int64_t most = 0;
  for (int i = 0; i < until_it_looks + 50; ++i) {
    head = make(i);
    if (i >= until_it_looks) most = std::max(most, book.live());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_LE(most, 12);
}

shared_ptr<node> tree(counted_ends& in, int nodes) {
  if (nodes == 0) return {};
  shared_ptr<node> n = in.make(nodes);
  n->next = tree(in, (nodes - 1) / 2);
  n->other = tree(in, nodes - 1 - (nodes - 1) / 2);
  return n;
}

TEST_F(counted_ends, trees_end_as_fast_as_they_are_given_up) {
  constexpr int nodes = 8000;
  atomic_shared_ptr<node> root;
  atomic_shared_ptr<node> slot;
  std::int64_t most = 0;
  for (int round = 0; round < 40; ++round) {
    root = tree(*this, nodes);
    root = nullptr;
    for (int i = 0; i < nodes / 4; ++i) slot = make(i);
    most = std::max(most, book.live());
  }
  EXPECT_LE(most, 6 * nodes) << "of " << 40 * nodes;
}

TEST_F(counted_ends, tasks_are_timed_if_wanted) {
  const auto change_and_drain = [this] {
    atomic_shared_ptr<node> head(make(1));
    head = nullptr;
    EXPECT_TRUE(counted::drain());
    const counted::collector_counts c = counted::statistics();
    return std::array{c.scan_ticks, c.sweep_ticks, c.end_ticks};
  };
  const auto before = change_and_drain();
  EXPECT_EQ(change_and_drain(), before);
  counted::time_tasks(true);
  const auto timed = change_and_drain();
  counted::time_tasks(false);
  for (std::size_t i = 0; i < timed.size(); ++i) EXPECT_GT(timed[i], before[i]) << i;
  EXPECT_EQ(change_and_drain(), timed);
}

TEST_F(counted_ends, heavy_objects_begin_epochs_earlier) {
  struct heavy {
    explicit heavy(ledger& book) : value(book, 1) {}
    tracked value;
    unsigned char filler[1 << 16];
  };
  atomic_shared_ptr<heavy> head;
  std::int64_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    head = make_shared<heavy>(book);
    most = std::max(most, book.live());
  }
  EXPECT_LE(most, 32) << "256 KiB for each thread, and what is being ended";
}

TEST_F(counted_ends, a_stalled_reader_holds_up_what_it_names) {
  atomic_shared_ptr<node> head(make(0));
  const private_node stalled(head);
  std::thread([&] {
    for (int i = 1; i < 50000; ++i) head = make(i);
    counted::drain();
  }).join();
  EXPECT_EQ(book.live(), 2) << "the pinned one, and what the location holds";
  EXPECT_EQ(stalled->key(), 0);
}

TEST_F(counted_ends, many_units_of_one_pinned_object_do_not_pile_up) {
  shared_ptr<node> p = make(1);
  atomic_shared_ptr<node> head(p);
  const private_node pin(head);
  for (int i = 0; i < 20000; ++i) head = p;
  counted::drain();
  EXPECT_LE(p.use_count(), 3) << "ours, the location's, and one that is kept for the pin";
}

TEST_F(counted_ends, threads_come_and_go) {
  atomic_shared_ptr<node> head(make(0));
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> some;
    for (int t = 0; t < 4; ++t) {
      some.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          head = make(i);
          private_node n(head);
          EXPECT_GE(n->key(), 0);
        }
      });
    }
    for (std::thread& t : some) t.join();
  }
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(book.live(), 1);
}

struct late {
  ~late() {
    *where = nullptr;
    EXPECT_FALSE(where->load());
  }
  atomic_shared_ptr<node>* where = nullptr;
};

TEST_F(counted_ends, destructors_of_thread_local_objects) {
  atomic_shared_ptr<node> head(make(0));
  std::thread([&] {
    static thread_local late last;
    last.where = &head;
    head = make(1);
  }).join();
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(book.live(), 0);
}

/// A destructor that stores, loads, creates and drains.
struct busy {
  busy(ledger& b, atomic_shared_ptr<node>& w) : book(b), where(w) {}
  ~busy() {
    where = make_shared<node>(book, 1);
    EXPECT_EQ(private_node(where)->key(), 1);
    for (int i = 0; i < 200; ++i) where = where.load();
    EXPECT_FALSE(counted::drain()) << "not within a destructor that a helper runs";
    const std::lock_guard lock(mutex);
  }
  ledger& book;
  atomic_shared_ptr<node>& where;
  static inline std::mutex mutex;
};

TEST_F(counted_ends, destructors_use_pointers) {
  atomic_shared_ptr<node> where;
  for (int i = 0; i < 100; ++i) {
    atomic_shared_ptr<busy> b(make_shared<busy>(book, where));
  }
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(book.live(), 1);
}

TEST_F(counted_ends, no_destructors_while_a_lock_is_held) {
  atomic_shared_ptr<node> where;
  atomic_shared_ptr<busy> b;
  {
    const counted::no_destructors quiet;
    const std::lock_guard lock(busy::mutex);
    for (int i = 0; i < 10000; ++i) b = make_shared<busy>(book, where);
  }
  b = nullptr;
  EXPECT_TRUE(counted::drain());
}

#if SPOLIA_CHECKS
TEST(counted_death, a_no_destructors_that_ends_on_another_thread_is_reported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::optional<counted::no_destructors> quiet(std::in_place);
        std::thread([&] { quiet.reset(); }).join();
      },
      "a no_destructors ends on another thread than it began on");
}
#endif

struct throws {
  ~throws() noexcept(false) { throw 1; }
};

TEST(counted_death, a_destructor_that_throws_ends_the_program) {
  EXPECT_DEATH(shared_ptr<throws>(new throws).reset(), "");
}

/// Ends the calling process by a signal if f takes longer, and else by what f returns.
template <class F>
[[noreturn]] void end_as_child(F f) {
  alarm(120);
  _exit(f() ? 0 : 1);
}
bool child_succeeds(pid_t child) {
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST_F(counted_ends, forks) {
  atomic_shared_ptr<node> head(make(1));
  std::atomic<bool> pinned = false;
  std::atomic<bool> done = false;
  std::thread other([&] {
    const private_node n(head);
    pinned = true;
    while (!done) std::this_thread::yield();
  });
  while (!pinned) std::this_thread::yield();
  head = make(2);
  EXPECT_FALSE(counted::drain());
  const pid_t child = fork();
  if (child == 0) {
    // The other thread is gone, and its pin with it.
    end_as_child([&] { return counted::drain() && book.live() == 1; });
  }
  EXPECT_TRUE(child_succeeds(child));
  done = true;
  other.join();
}

#if !SPOLIA_TSAN  // which forbids new threads in a forked child
/// The vanished thread's number is the next thread's, and so is its part of the collector.
TEST_F(counted_ends, a_thread_lost_in_quiet_leaves_no_quiet_behind) {
  atomic_shared_ptr<node> head(make(0));
  std::atomic<bool> quiet = false;
  std::atomic<bool> done = false;
  std::thread other([&] {
    const counted::no_destructors held;
    quiet = true;
    while (!done) std::this_thread::yield();
  });
  while (!quiet) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    end_as_child([&] {
      std::thread([&] {
        for (int i = 0; i < 50000; ++i) head = make(i);
      }).join();
      return book.live() <= 3 * 4096;
    });
  }
  EXPECT_TRUE(child_succeeds(child)) << "its changes bring about no ends";
  done = true;
  other.join();
}
#endif

TEST_F(counted_ends, a_forked_child_can_notify) {
  atomic_shared_ptr<node> head(make(0));
  std::atomic<bool> done = false;
  std::thread waits([&head, old = head.load()] { head.wait(old); });
  std::thread notifies([&] {
    while (!done) head.notify_all();
  });
  bool good = true;
  for (int i = 0; i < 15 && good; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      end_as_child([&] {
        head.notify_all();
        return true;
      });
    }
    good = child_succeeds(child);
    EXPECT_TRUE(good) << "after " << i << " others";
  }
  head = make(1);
  done = true;
  notifies.join();
  head.notify_all();
  waits.join();
}

/// Readers walk while writers cut off and put on.
TEST_F(counted_ends, walks_among_changes) {
  atomic_shared_ptr<node> head;
  std::atomic<bool> stop = false;
  std::vector<std::thread> all;
  for (int t = 0; t < 3; ++t) {
    all.emplace_back([&] {
      while (!stop) {
        private_node n(head);
        for (int steps = 0; n && steps < 50; ++steps) {
          EXPECT_GE(n->key(), 0);
          n = n->next;
        }
      }
    });
  }
  for (int i = 0; i < 30000; ++i) {
    shared_ptr<node> n = make(i);
    n->next = head.load();
    head = n;
    if (i % 16 == 15) head = nullptr;
    if (i % 7 == 0) {
      if (const shared_ptr<node> top = head.load()) top->next = nullptr;
    }
  }
  stop = true;
  for (std::thread& t : all) t.join();
}

}  // namespace

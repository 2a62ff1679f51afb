// SPDX-License-Identifier: Apache-2.0
// What a burst of threads leaves, once they have ended: under each scheme, and with counted
// pointers. Two processes do the same, in turns. In one of them there was a burst.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <latch>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/live.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/memory.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>

#include "support/all_domains.hpp"
#include "support/resident.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

// Each of these has an operation that now and then looks at all threads, and a way to end what
// waits.

template <class Domain>
class retires {
 public:
  /// Some milliseconds. What is done by time, on a busy machine once in each round, looks at all
  /// threads as well.
  static constexpr int a_round = 16'384;

  void operate() {
    auto guard = d_.enter();
    guard.retire(d_.template make<block>());
  }
  void end_all() { drain_all(d_); }

 private:
  struct block : Domain::header {
    std::array<char, 48> weight{};
  };
  Domain d_;
};

class drops_counted {
 public:
  static constexpr int a_round = 8192;

  void operate() {
    // The location in it ends with it: for each of these all private pointers are looked at.
    auto made = make_shared<link>();
    made->next.store(make_shared<link>());
    head_.store(std::move(made));
  }
  static void end_all() { EXPECT_TRUE(counted::drain()); }

 private:
  struct link {
    atomic_shared_ptr<link> next;
  };
  atomic_shared_ptr<link> head_;
};

/// Sections that write copies, or change objects in place.
template <bool in_place>
class updates_objects {
 public:
  static constexpr int a_round = 16'384;

  updates_objects() {
    for (auto& object : objects_) object = d_.template make<number>({0});
  }
  ~updates_objects() {
    for (auto& object : objects_) d_.discard(object);
  }
  void operate() {
    const std::size_t next = turn_.fetch_add_relaxed(1) % objects_.size();  // any will do
    d_.update([&](auto& in) {
      if (auto n = in.try_lock(objects_[next])) ++n->value;
    });
  }
  void end_all() { d_.collect(), d_.collect(); }

 private:
  struct number {
    long value;
  };
  static rlu::options options() {
    rlu::options o;
    o.in_place = in_place;
    return o;
  }
  rlu::domain d_{options()};
  std::array<rlu::ptr<number>, 64> objects_;
  atomic<std::size_t> turn_{0};
};

/// Snapshots come and go while the map changes.
template <class Map>
class takes_snapshots {
 public:
  static constexpr int a_round = 4096;

  void operate() {
    const int next = static_cast<int>(turn_.fetch_add_relaxed(1) % 64);
    map_.insert_or_assign(next, next);
    const snapshot now;
    map_.insert_or_assign(next, next + 1);
    EXPECT_NE(map_.find(now, next), nullptr);
  }
  /// Pairs, too: those that threads of the burst have made lie scattered, and so does forever what
  /// an allocator puts in their places. That is not what this asks for.
  void end_all() {
    for (int key = 0; key < 64; ++key) map_.erase(key);
    map_.collect();
    drain_all(map_.domain());
  }

 private:
  Map map_;
  atomic<std::size_t> turn_{0};
};

class replaces_live {
 public:
  static constexpr int a_round = 4096;

  void operate() {
    value_.store(1);
    EXPECT_EQ(*value_.read(), 1);
  }
  void end_all() {}

 private:
  live<int> value_{0};
};

/// All are there at one time, and have operated.
template <class Kind>
void come_and_go(Kind& kind, int threads) {
  struct meeting {
    Kind& kind;
    std::latch there;
  } met{kind, std::latch(threads)};
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, std::size_t{1} << 20U);
  std::vector<pthread_t> ids(static_cast<std::size_t>(threads));
  for (pthread_t& id : ids) {
    const auto body = [](void* m) -> void* {
      auto& here = *static_cast<meeting*>(m);
      for (int i = 0; i < 3; ++i) here.kind.operate();
      here.there.arrive_and_wait();
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&id, &small, body, &met), 0);
  }
  for (const pthread_t id : ids) pthread_join(id, nullptr);
  pthread_attr_destroy(&small);
}

/// A process with one `Kind`, which answers what it is asked.
template <class Kind>
class process {
 public:
  explicit process(int burst) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    EXPECT_EQ(pipe(down.data()) | pipe(up.data()), 0);
    id_ = fork();
    if (id_ == 0) {
      from_ = down[0];
      to_ = up[1];
      close(down[1]);
      answer(burst);
    }
    from_ = up[0];
    to_ = down[1];
    close(down[0]);
    close(up[1]);
  }
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process() {
    close(to_);
    int status = -1;
    EXPECT_EQ(waitpid(id_, &status, 0), id_);
    EXPECT_EQ(status, 0);
    close(from_);
  }

  /// The processor time of some thousand operations, in nanoseconds.
  std::uint64_t time() { return ask('t'); }
  /// What is resident when nothing waits.
  std::uint64_t resident() { return ask('r'); }

 private:
  std::uint64_t ask(char what) {
    std::uint64_t said = 0;
    EXPECT_EQ(write(to_, &what, 1), 1);
    EXPECT_EQ(read(from_, &said, sizeof said), static_cast<ssize_t>(sizeof said));
    return said;
  }
  [[noreturn]] void answer(int burst) {
    alarm(600);
#if defined(__GLIBC__)
    mallopt(M_ARENA_MAX, 1);  // what free memory the allocator keeps is not what this asks for
#endif
    {
      Kind kind;
      come_and_go(kind, burst);  // one at least: from then on malloc takes locks
      resident_of(kind);
      for (char what = 0; read(from_, &what, 1) == 1;) {
        const std::uint64_t says = what == 't' ? time_of(kind) : resident_of(kind);
        if (write(to_, &says, sizeof says) != static_cast<ssize_t>(sizeof says)) break;
      }
    }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  static std::uint64_t time_of(Kind& kind) {
    const std::uint64_t begin = processor_time();
    for (int i = 0; i < Kind::a_round; ++i) kind.operate();
    return processor_time() - begin;
  }
  static std::uint64_t resident_of(Kind& kind) {
    kind.end_all();
    return resident_when_trimmed();
  }
  static std::uint64_t processor_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(t.tv_nsec);
  }

  pid_t id_ = -1;
  int from_ = -1;
  int to_ = -1;
};

/// Returns what was too slow, or nothing. Of both the quietest of some rounds counts, or the ratio
/// in the middle, since what slows the machine for a while slows both halves of a round: of as many
/// as it takes, and not of more.
template <class Kind>
std::string trace_of_a_burst() {
  constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
  constexpr int least_rounds = 24;
  constexpr int most_rounds = 120;
  process<Kind> quiet(1);
  process<Kind> burst(1500);
  std::uint64_t before = never;
  std::uint64_t after = never;
  std::vector<double> ratios;
  const auto middle = [&] {
    const auto at = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), at, ratios.end());
    return *at;
  };
  const auto is_as_fast = [&] { return 10 * after <= 13 * before || middle() <= 1.3; };
  for (int i = 0; i < most_rounds && (i < least_rounds || !is_as_fast()); ++i) {
    const std::uint64_t one = quiet.time();
    const std::uint64_t other = burst.time();
    if (testing::Test::HasFailure()) return "";
    before = std::min(before, one);
    after = std::min(after, other);
    ratios.push_back(static_cast<double>(other) / static_cast<double>(one));
  }
  EXPECT_LE(burst.resident(), quiet.resident() + (std::uint64_t{16} << 20U));
  if (is_as_fast()) return "";
  return std::to_string(after) + " ns instead of " + std::to_string(before) + ", " +
         std::to_string(middle()) + " times as long in the middle";
}

/// Beside other load, how memory happens to lie in a process makes a fifth of its time, for as long
/// as it lives: so other processes are asked, too.
template <class Kind>
void expect_no_trace() {
  std::signal(SIGPIPE, SIG_IGN);
  std::string trace = trace_of_a_burst<Kind>();
  for (int again = 0; again < 3 && !trace.empty() && !testing::Test::HasFailure(); ++again) {
    trace = trace_of_a_burst<Kind>();
  }
  EXPECT_EQ(trace, "");
}

template <class Domain>
class bursts : public testing::Test {};
TYPED_TEST_SUITE(bursts, some_domains, domain_names);

TYPED_TEST(bursts, leave_a_domain_as_it_was) {
  // Where the token goes from one thread to the next, it goes to all that there have been.
  if (!TypeParam::info().reclaims || needs_every_thread<TypeParam>) return;
  expect_no_trace<retires<TypeParam>>();
}

TEST(bursts_of_others, leave_counted_pointers_as_they_were) { expect_no_trace<drops_counted>(); }
TEST(bursts_of_others, leave_sections_as_they_were) { expect_no_trace<updates_objects<false>>(); }
TEST(bursts_of_others, leave_sections_in_place_as_they_were) {
  expect_no_trace<updates_objects<true>>();
}
TEST(bursts_of_others, leave_snapshots_of_trees_as_they_were) {
  expect_no_trace<takes_snapshots<snapshot_tree<int, int>>>();
}
TEST(bursts_of_others, leave_snapshots_of_hash_maps_as_they_were) {
  expect_no_trace<takes_snapshots<snapshot_hash<int, int>>>();
}
TEST(bursts_of_others, leave_live_values_as_they_were) { expect_no_trace<replaces_live>(); }

}  // namespace

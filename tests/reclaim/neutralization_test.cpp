// SPDX-License-Identifier: Apache-2.0
// Neutralization: what is kept, what is freed under readers that sleep, and what a signal does.

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
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
struct neutralizing : testing::Test {
  using domain_type = domain<Scheme, batch>;
  using options = typename domain_type::options;

  template <class Domain>
  struct node_of : Domain::header {
    explicit node_of(ledger& b, std::uint64_t v = 0) : value(b, v) {}
    tracked value;
  };
  using node = node_of<domain_type>;

  static options marks(std::uint32_t low, std::uint32_t high) {
    options o;
    o.scheme.low = low;
    o.scheme.high = high;
    return o;
  }

  static void retire(auto& guard, auto* n) {
    n->value.note_retired();
    guard.retire(n);
  }
  template <class Domain>
  void retire_many(Domain& d, int count) {
    for (int i = 0; i < count; ++i) {
      auto* const fresh = d.template make<node_of<Domain>>(book);
      auto guard = d.enter();
      retire(guard, fresh);
    }
  }
  /// Reads and keeps what `source` points to.
  template <class Node>
  static auto find(auto& guard, const atomic<Node*>& source) {
    return guard.read([&](auto& phase) { return phase.keep(phase.protect(source)); });
  }

  ledger book;
};

/// Reads, and is interrupted, until it is told to end.
class stubborn_reader {
 public:
  template <class Domain>
  explicit stubborn_reader(Domain& d)
      : thread_([this, &d] {
          // As a thread of Go's has it: each restart is a jump that leaves this stack again.
          stack_t for_signals{};
          for_signals.ss_sp = room_.data();
          for_signals.ss_size = room_.size();
          stack_t before{};
          sigaltstack(&for_signals, &before);
          auto guard = d.enter();
          guard.read([&] {
            attempts.fetch_add(1, std::memory_order_relaxed);
            while (!over_.load(std::memory_order_relaxed)) std::this_thread::yield();
          });
          sigaltstack(&before, nullptr);  // a sanitizer's is its own to end
        }) {
    while (attempts.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
  }
  ~stubborn_reader() {
    over_.store(true, std::memory_order_relaxed);
    thread_.join();
  }

  /// Waits until it has begun so often. A reader that was interrupted begins anew when it next
  /// runs.
  bool has_begun(int times) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (attempts.load(std::memory_order_relaxed) < times) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::atomic<int> attempts{0};

 private:
  std::atomic<bool> over_{false};
  std::vector<char> room_ = std::vector<char>(64U << 10U);
  std::thread thread_;
};

using schemes = testing::Types<neutralization, neutralization_plus>;
TYPED_TEST_SUITE(neutralizing, schemes);

TYPED_TEST(neutralizing, a_kept_block_stays_and_goes_when_the_guard_does) {
  typename TestFixture::domain_type d(this->marks(1, 2));
  auto* const n = d.template make<typename TestFixture::node>(this->book, 7U);
  atomic<typename TestFixture::node*> source(n);
  {
    auto reader = d.enter();
    const auto seen = this->find(reader, source);
    {
      auto writer = d.enter();
      source.store_release(nullptr);
      this->retire(writer, n);
    }
    this->retire_many(d, 100);
    EXPECT_EQ(seen->value.read(), 7U);
    EXPECT_GT(this->book.destroyed(), 0);
    EXPECT_LE(d.stats().garbage(), d.garbage_bound(1).value());
  }
  this->retire_many(d, 100);
  EXPECT_TRUE(d.drain());
  this->book.expect_empty();
}

TYPED_TEST(neutralizing, a_reader_that_never_ends_is_restarted_and_stops_no_other) {
  typename TestFixture::domain_type d(this->marks(32, 64));
  const std::uint64_t bound = d.garbage_bound(2).value();
  EXPECT_EQ(bound, 2 * 64U);
  {
    stubborn_reader reader(d);
    for (int round = 2; round < 50; ++round) {
      for (int i = 0; i < 100; ++i) {
        this->retire_many(d, 1);
        ASSERT_LE(d.stats().garbage(), bound);
      }
      ASSERT_TRUE(reader.has_begun(round));
    }
    EXPECT_LE(reader.attempts.load(), 50 * 100 / 16);
    EXPECT_TRUE(d.drain()) << "it has kept nothing";
  }
  this->book.expect_empty();
}

TYPED_TEST(neutralizing, a_round_asks_at_its_beginning_and_not_only_when_it_is_waited_for) {
  typename TestFixture::domain_type d(this->marks(32, 200));
  stubborn_reader reader(d);
  this->retire_many(d, 150);  // past the mark of a bookmark, too
  EXPECT_TRUE(reader.has_begun(2));
}

TYPED_TEST(neutralizing, a_thread_that_sleeps_after_its_search_keeps_what_it_has_kept) {
  typename TestFixture::domain_type d(this->marks(32, 64));
  std::array<atomic<typename TestFixture::node*>, guard_slots> sources;
  for (auto& s : sources) {
    s.store_relaxed(d.template make<typename TestFixture::node>(this->book, 5U));
  }
  std::uint64_t sum = 0;
  parked_thread sleeper([&](parking_spot& spot) {
    auto guard = d.enter();
    std::array<
        typename TestFixture::domain_type::template protected_ptr<typename TestFixture::node*>,
        guard_slots>
        seen;
    for (unsigned i = 0; i < guard_slots; ++i) seen[i] = this->find(guard, sources[i]);
    spot.park();
    for (const auto& n : seen) sum += n->value.read();
  });
  for (auto& s : sources) {
    auto guard = d.enter();
    this->retire(guard, s.exchange_acq_rel(nullptr));
  }
  for (int i = 0; i < 3000; ++i) {
    this->retire_many(d, 1);
    ASSERT_LE(d.stats().garbage(), d.garbage_bound(2).value());
  }
  EXPECT_FALSE(d.drain());
  EXPECT_EQ(d.stats().garbage(), guard_slots);
  sleeper.release();
  EXPECT_EQ(sum, 5U * guard_slots);
  EXPECT_TRUE(d.drain());
  this->book.expect_empty();
}

/// A round's blocks are passed on in pieces to a policy that frees a few at a time.
TYPED_TEST(neutralizing, what_is_passed_on_later_counts_and_stays_if_it_is_kept) {
  using domain_of = domain<TypeParam, amortized>;
  using options_of = typename domain_of::options;
  auto d = std::make_optional<domain_of>(options_of{TestFixture::marks(1000, 2000).scheme});
  using its_node = typename TestFixture::template node_of<domain_of>;
  atomic<its_node*> source(d->template make<its_node>(this->book, 5U));
  parked_thread sleeper([&](parking_spot& spot) {
    auto guard = d->enter();
    const auto n = this->find(guard, source);
    spot.park();
    EXPECT_EQ(n->value.read(), 5U);
  });
  for (int i = 0; i < 6000; ++i) {
    this->retire_many(*d, 1);
    auto guard = d->enter();
    if (i == 900) this->retire(guard, source.exchange_acq_rel(nullptr));
    ASSERT_LE(d->stats().garbage(), d->garbage_bound(2).value());
  }
  sleeper.release();
  d.reset();
  this->book.expect_empty();
}

TYPED_TEST(neutralizing, what_an_abandoned_attempt_has_kept_is_not_kept_for_ever) {
  typename TestFixture::domain_type d(this->marks(1, 2));
  auto* const n = d.template make<typename TestFixture::node>(this->book);
  atomic<typename TestFixture::node*> source(n);
  std::atomic<int> attempts{0};
  std::thread reader([&] {
    auto guard = d.enter();
    guard.read([&] {
      if (attempts.load(std::memory_order_relaxed) != 0) {
        attempts.store(2, std::memory_order_relaxed);
        return;
      }
      numbered::keep(guard, numbered::protect(guard, source, 0), 5);
      attempts.store(1, std::memory_order_relaxed);
      while (attempts.load(std::memory_order_relaxed) == 1) std::this_thread::yield();
    });
    attempts.store(3, std::memory_order_relaxed);
    while (attempts.load(std::memory_order_relaxed) == 3) std::this_thread::yield();
  });
  while (attempts.load(std::memory_order_relaxed) != 1) std::this_thread::yield();
  {
    auto guard = d.enter();
    source.store_release(nullptr);
    this->retire(guard, n);
  }
  while (attempts.load(std::memory_order_relaxed) != 3) this->retire_many(d, 10);
  EXPECT_TRUE(d.drain()) << "the reader's guard is still there, but has kept nothing";
  this->book.expect_empty();
  attempts.store(4, std::memory_order_relaxed);
  reader.join();
}

TYPED_TEST(neutralizing, nested_and_moved_guards_have_slots_of_their_own) {
  typename TestFixture::domain_type d(this->marks(1, 2));
  std::array<atomic<typename TestFixture::node*>, 3> sources;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sources[i].store_relaxed(d.template make<typename TestFixture::node>(this->book, i));
  }
  std::vector<typename TestFixture::domain_type::guard> guards;
  std::vector<
      typename TestFixture::domain_type::template protected_ptr<typename TestFixture::node*>>
      seen;
  for (auto& s : sources) {
    guards.push_back(d.enter());
    seen.push_back(this->find(guards.back(), s));
  }
  for (auto& s : sources) this->retire(guards[0], s.exchange_acq_rel(nullptr));
  std::swap(guards[0], guards[2]);
  guards.pop_back();  // the first one
  this->retire_many(d, 300);
  EXPECT_EQ(seen[1]->value.read(), 1U);
  EXPECT_EQ(seen[2]->value.read(), 2U);
  seen.clear();
  guards.clear();
  EXPECT_TRUE(d.drain());
  this->book.expect_empty();
}

TYPED_TEST(neutralizing, announce_keeps_what_a_later_look_finds_linked) {
  typename TestFixture::domain_type d(this->marks(1, 2));
  auto* const n = d.template make<typename TestFixture::node>(this->book, 4U);
  atomic<typename TestFixture::node*> source(n);
  auto guard = d.enter();
  const auto named = guard.announce(n);
  ASSERT_EQ(source.load_acquire(), n);
  source.store_release(nullptr);
  this->retire(guard, n);
  this->retire_many(d, 100);
  EXPECT_EQ(named->value.read(), 4U);
}

TYPED_TEST(neutralizing, rounds_without_memory_take_longer_and_no_less) {
  typename TestFixture::domain_type d(this->marks(16, 32));
  std::vector<typename TestFixture::node*> blocks;
  for (int i = 0; i < 500; ++i) {
    blocks.push_back(d.template make<typename TestFixture::node>(this->book));
  }
  {
    stubborn_reader reader(d);
    auto guard = d.enter();
    fail_after nothing_left(1, failing::from_then_on);
    for (auto* n : blocks) this->retire(guard, n);
    EXPECT_TRUE(nothing_left.fired());
    EXPECT_LE(d.stats().garbage(), d.garbage_bound(2).value());
    EXPECT_TRUE(reader.has_begun(2));
  }
  EXPECT_TRUE(d.drain());
  this->book.expect_empty();
}

TYPED_TEST(neutralizing, blocks_of_an_ended_thread_are_taken_over) {
  typename TestFixture::domain_type d;
  std::thread([&] { this->retire_many(d, 500); }).join();
  EXPECT_EQ(this->book.limbo(), 500);
  EXPECT_TRUE(d.drain());
  this->book.expect_empty();
}

TYPED_TEST(neutralizing, threads_that_come_and_go_leave_no_more_than_the_bound) {
  typename TestFixture::domain_type d(this->marks(32, 64));
  constexpr unsigned alive = 4;
  churn_threads({.threads = alive, .share = 0.5}, [&](stress_thread& self) {
    auto guard = d.enter();
    guard.read([] {});
    this->retire_many(d, static_cast<int>(self.random().below(200)));
  });
  EXPECT_LE(static_cast<std::uint64_t>(this->book.peak_limbo()),
            d.garbage_bound(alive + 2).value() + alive);
  EXPECT_TRUE(d.drain());
  this->book.expect_empty();
}

TYPED_TEST(neutralizing, deleters_may_search_and_retire) {
  using domain_of = typename TestFixture::domain_type;
  struct chained : domain_of::header {
    chained(domain_of& d, ledger& b) : of(d), value(b) {}
    ~chained() {
      auto guard = of.enter();
      guard.read([] {});
      if (next == nullptr) return;
      next->value.note_retired();
      guard.retire(next);
    }
    domain_of& of;
    tracked value;
    chained* next = nullptr;
  };
  domain_of d(this->marks(1, 2));
  chained* head = nullptr;
  for (int i = 0; i < 5000; ++i) {
    auto* const fresh = d.template make<chained>(d, this->book);
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
  this->book.expect_empty();
}

TYPED_TEST(neutralizing, a_thread_that_inherits_a_blocked_signal_answers) {
  typename TestFixture::domain_type d(this->marks(16, 32));
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  {
    stubborn_reader reader(d);  // inherits the mask
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    this->retire_many(d, 200);
    EXPECT_TRUE(reader.has_begun(2));
  }
}

/// In a child, the only thread that is left has another kernel id than its parent knew.
TYPED_TEST(neutralizing, the_thread_that_survives_a_fork_answers) {
  typename TestFixture::domain_type d(this->marks(16, 32));
  {
    auto guard = d.enter();  // known before the fork
    guard.read([] {});
  }
  EXPECT_EQ(0, status_of_child([&] {
              std::atomic<int> attempts{0};
              std::atomic<bool> over{false};
              std::thread writer([&] {
                while (attempts.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
                while (attempts.load(std::memory_order_relaxed) == 1) this->retire_many(d, 1);
                over.store(true, std::memory_order_relaxed);
              });
              auto guard = d.enter();
              guard.read([&] {
                attempts.fetch_add(1, std::memory_order_relaxed);
                while (!over.load(std::memory_order_relaxed)) std::this_thread::yield();
              });
              writer.join();
              EXPECT_GT(attempts.load(), 1);
            }));
}

#if !SPOLIA_TSAN  // which forbids new threads in a forked child
/// Whether a thread is in a phase shows in one bit of a count, which the next one goes on with.
TYPED_TEST(neutralizing, the_next_after_a_thread_that_was_lost_in_a_phase_answers) {
  typename TestFixture::domain_type d(this->marks(16, 32));
  const parked_thread lost([&](parking_spot& spot) {
    auto guard = d.enter();
    guard.read([&] { spot.park(); });
  });
  EXPECT_EQ(0, status_of_child([&] {
              stubborn_reader next(d);
              this->retire_many(d, 200);
              EXPECT_TRUE(next.has_begun(2));
            }));
}
#endif

TYPED_TEST(neutralizing, options_are_checked) {
  using domain_of = typename TestFixture::domain_type;
  EXPECT_THROW(domain_of d(this->marks(0, 10)), std::invalid_argument);
  EXPECT_THROW(domain_of d(this->marks(10, 10)), std::invalid_argument);
  domain_of first;  // takes the process's signal
  auto o = this->marks(1, 2);
  o.scheme.signal = SIGRTMAX;
  EXPECT_THROW(domain_of d(o), std::invalid_argument);
}

TYPED_TEST(neutralizing, stack_under_stress) {
  stress_container<treiber_stack, typename TestFixture::domain_type>(this->marks(8, 16), 4);
}
TYPED_TEST(neutralizing, queue_under_stress) {
  stress_container<michael_scott_queue, typename TestFixture::domain_type>(this->marks(8, 16), 4);
}
TYPED_TEST(neutralizing, queue_under_stress_with_amortized_release) {
  const typename domain<TypeParam, amortized>::options o{TestFixture::marks(64, 128).scheme};
  stress_container<michael_scott_queue, domain<TypeParam, amortized>>(o, 3);
}

/// A thread with a bookmark uses a round that another one has begun and completed since.
TEST(neutralization_plus_only, a_round_of_another_thread_counts) {
  using fixture = neutralizing<neutralization_plus>;
  ledger ours;
  ledger theirs;
  fixture::domain_type d(fixture::marks(100, 1000));
  const auto retire_many = [&](ledger& book, int count) {
    for (int i = 0; i < count; ++i) {
      auto* const fresh = d.make<fixture::node>(book);
      auto guard = d.enter();
      fixture::retire(guard, fresh);
    }
  };
  auto present = d.enter();  // so that no thread takes our blocks over
  retire_many(ours, 300);    // a bookmark, and far from the mark for a round of our own
  std::thread([&] { retire_many(theirs, 600); }).join();
  EXPECT_GT(theirs.destroyed(), 0) << "it has made a round";
  EXPECT_EQ(ours.destroyed(), 0);
  retire_many(ours, 100);
  EXPECT_GE(ours.destroyed(), 100);
}

TEST(restart_signal, comes_on_a_stack_for_signals) {
  struct sigaction now{};
  ASSERT_EQ(sigaction(core::claim_restart_signal(0), nullptr, &now), 0);
  EXPECT_NE(now.sa_flags & SA_ONSTACK, 0);
}

struct signals_of_a_process : testing::Test {
  signals_of_a_process() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
#if defined(SPOLIA_TEST_EMULATED)
    GTEST_SKIP() << "an emulated program cannot start itself";
#endif
  }
  using domain_type = domain<neutralization>;
};

[[noreturn]] void leave_with(bool good) { std::_Exit(good ? 0 : 1); }

void somebodys_handler(int) {}

bool handled(int signal) {
  struct sigaction now{};
  sigaction(signal, nullptr, &now);
  return now.sa_handler != SIG_DFL;
}

TEST_F(signals_of_a_process, one_that_is_wanted_is_used) {
  EXPECT_EXIT(
      {
        domain_type::options o;
        o.scheme.signal = SIGRTMIN + 7;
        domain_type d(o);
        leave_with(handled(SIGRTMIN + 7) && !handled(SIGRTMIN + 1));
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(signals_of_a_process, the_environment_may_name_one) {
  EXPECT_EXIT(
      {
        setenv("SPOLIA_RESTART_SIGNAL", std::to_string(SIGRTMIN + 9).c_str(), 1);
        domain_type d;
        leave_with(handled(SIGRTMIN + 9) && !handled(SIGRTMIN + 1));
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(signals_of_a_process, one_that_has_a_handler_is_refused_or_passed_over) {
  EXPECT_EXIT(
      {
        signal(SIGRTMIN + 1, &somebodys_handler);
        bool refused = false;
        try {
          domain_type::options o;
          o.scheme.signal = SIGRTMIN + 1;
          domain_type d(o);
        } catch (const std::runtime_error&) {
          refused = true;
        }
        domain_type d;
        leave_with(refused && handled(SIGRTMIN + 2));
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(signals_of_a_process, the_first_one_is_the_last_resort) {
  EXPECT_EXIT(
      {
        for (int s = SIGRTMIN + 1; s <= SIGRTMAX; ++s) signal(s, &somebodys_handler);
        domain_type d;
        leave_with(handled(SIGRTMIN));
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(signals_of_a_process, one_that_is_not_a_real_time_signal_is_refused) {
  EXPECT_EXIT(
      {
        bool refused = false;
        try {
          domain_type::options o;
          o.scheme.signal = SIGUSR1;
          domain_type d(o);
        } catch (const std::invalid_argument&) {
          refused = true;
        }
        leave_with(refused && !handled(SIGUSR1));
      },
      testing::ExitedWithCode(0), "");
}

std::atomic<const char*> heard{nullptr};
void hear(const char* what, std::uint32_t) { heard.store(what); }

/// A thread that cannot be interrupted costs the bound, but neither memory safety nor progress.
void retire_beside_a_deaf_reader(void (*make_deaf)()) {
  using fixture = neutralizing<neutralization>;
  core::set_misuse_handler(&hear);
  ledger book;
  fixture::domain_type d(fixture::marks(16, 32));
  auto* const n = d.make<fixture::node>(book, 5U);
  atomic<fixture::node*> source(n);
  std::uint64_t seen = 0;
  parked_thread reader([&](parking_spot& spot) {
    auto guard = d.enter();
    seen = guard.read([&](auto& phase) {
      const auto found = phase.protect(source);
      make_deaf();
      spot.park();
      return found->value.read();
    });
  });
  {
    auto guard = d.enter();
    source.store_release(nullptr);
    fixture::retire(guard, n);
  }
  // At the high mark, which the bound of one thread is, a retirement waits for the reader in vain.
  const std::uint64_t past_the_mark = d.garbage_bound(1).value() + 2;
  for (std::uint64_t i = 0; i < past_the_mark; ++i) {
    auto* const fresh = d.make<fixture::node>(book);
    auto guard = d.enter();
    fixture::retire(guard, fresh);
  }
  const bool kept = book.destroyed() == 0;
  reader.release();
  const bool told = !SPOLIA_CHECKS || heard.load() != nullptr;
  leave_with(kept && told && seen == 5 && d.drain());
}

TEST_F(signals_of_a_process, a_reader_that_blocks_it_is_found_out) {
  EXPECT_EXIT(retire_beside_a_deaf_reader([] {
                sigset_t all;
                sigfillset(&all);
                pthread_sigmask(SIG_SETMASK, &all, nullptr);
              }),
              testing::ExitedWithCode(0), "");
}

TEST_F(signals_of_a_process, a_handler_that_was_replaced_is_found_out) {
  EXPECT_EXIT(retire_beside_a_deaf_reader([] { signal(SIGRTMIN + 1, SIG_DFL); }),
              testing::ExitedWithCode(0), "");
}

#if SPOLIA_CHECKS
template <class F>
void expect_misuse(const char* what, F&& mistake) {
  heard.store(nullptr);
  const auto before = core::set_misuse_handler(&hear);
  mistake();
  core::set_misuse_handler(before);
  EXPECT_STREQ(heard.load(), what);
}

TEST(neutralization_misuse, is_reported) {
  using fixture = neutralizing<neutralization>;
  ledger book;
  fixture::domain_type d;
  fixture::domain_type other;
  atomic<fixture::node*> source(nullptr);
  auto guard = d.enter();
  auto foreign = other.enter();
  fixture::node* const none = nullptr;
  expect_misuse("neutralization: protect() outside of read()",
                [&] { numbered::protect(guard, source, 0); });
  expect_misuse("keep() outside of read()", [&] { numbered::keep(guard, none, 0); });
  expect_misuse("read() inside read()", [&] { guard.read([&] { guard.read([] {}); }); });
  expect_misuse("read() inside read()", [&] { guard.read([&] { foreign.read([] {}); }); });
  expect_misuse("announce() inside read()",
                [&] { guard.read([&] { numbered::announce(guard, none, 0); }); });
  expect_misuse("a guard begins inside read()", [&] { guard.read([&] { (void)other.enter(); }); });
  expect_misuse("retire() inside read()", [&] {
    auto* const n = d.make<fixture::node>(book);
    guard.read([&] { fixture::retire(guard, n); });
  });
  expect_misuse("neutralization: a guard has slots 0 to 7 only",
                [&] { numbered::announce(guard, none, guard_slots); });
}
#endif

}  // namespace

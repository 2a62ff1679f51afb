// SPDX-License-Identifier: Apache-2.0
// Read-log-update on one thread: what sections see, what they do, and how they end.

#include <gtest/gtest.h>

#include <spolia/rlu.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace spolia;
static_assert(sizeof(tally().value()) == 8);  // scans may come to more than 32 bits count

struct number {
  long value = 0;
};

struct named {
  using fixed = std::shared_ptr<std::string>;
  long value = 0;
  rlu::ptr<named> next;
};

long value_of(rlu::domain& d, rlu::ptr<number> p) {
  return d.read([&](auto& in) { return in.read(p)->value; });
}
bool set(rlu::domain& d, rlu::ptr<number> p, long v) {
  return d.update([&](auto& in) {
    if (auto mine = in.try_lock(p)) mine->value = v;
  });
}

TEST(rlu, a_section_sees_its_writes_and_the_next_one_too) {
  rlu::domain d;
  const auto p = d.make<number>({1});
  EXPECT_TRUE(d.update([&](auto& in) {
    auto mine = in.try_lock(p);
    ASSERT_TRUE(mine);
    mine->value = 2;
    EXPECT_EQ(in.read(p)->value, 2);
    EXPECT_EQ(&*in.try_lock(p), &*mine) << "locking again gives the same copy";
    EXPECT_TRUE(in.try_lock_const(p));
  }));
  EXPECT_EQ(value_of(d, p), 2);
  d.discard(p);
}

TEST(rlu, what_is_cancelled_or_thrown_has_not_been) {
  rlu::domain d;
  const auto p = d.make<number>({1});
  EXPECT_FALSE(d.update([&](auto& in) {
    in.try_lock(p)->value = 2;
    auto made = in.template make<number>({7});
    EXPECT_EQ(in.read(made.self())->value, 7);
    in.cancel();
    EXPECT_FALSE(in.try_lock(p)) << "a cancelled section locks nothing";
  }));
  EXPECT_EQ(value_of(d, p), 1);
  const auto failing = [&](auto& in) {
    in.try_lock(p)->value = 3;
    throw std::runtime_error("no");
  };
  EXPECT_THROW(d.update(failing), std::runtime_error);
  EXPECT_TRUE(set(d, p, 4)) << "the lock was given up";
  EXPECT_EQ(value_of(d, p), 4);
  d.discard(p);
}

TEST(rlu, retry_calls_again) {
  rlu::domain d;
  const auto p = d.make<number>({0});
  int calls = 0;
  const int result = d.update([&](auto& in) {
    in.try_lock(p)->value += 1;
    if (++calls < 3) in.retry();
    return calls * 10;
  });
  EXPECT_EQ(result, 30);
  EXPECT_EQ(value_of(d, p), 1);
  EXPECT_EQ(d.attempt([](auto& in) { in.retry(); }), rlu::outcome::conflict);
  EXPECT_EQ(d.attempt([](auto& in) { in.cancel(); }), rlu::outcome::cancelled);
  EXPECT_EQ(d.attempt([](auto&) {}), rlu::outcome::committed);
  d.discard(p);
}

TEST(rlu, sections_nest) {
  rlu::domain d;
  const auto p = d.make<number>({1});
  const auto q = d.make<number>({1});
  EXPECT_FALSE(d.update([&](auto& in) {
    in.try_lock(p)->value = 2;
    set(d, q, 2);
    EXPECT_EQ(value_of(d, p), 2) << "an inner section sees what the outer wrote";
    EXPECT_EQ(in.read(q)->value, 2);
    in.cancel();
  }));
  EXPECT_EQ(value_of(d, p) + value_of(d, q), 2) << "the inner section was a part of the outer";
  EXPECT_THROW(d.read([&](auto&) { return set(d, p, 3); }), std::logic_error);
  EXPECT_FALSE(d.update([&](auto& in) {
    in.try_lock(p)->value = 9;
    try {
      d.update([](auto&) { throw std::runtime_error("inner"); });
    } catch (const std::runtime_error&) {
    }
    EXPECT_TRUE(in.doomed()) << "what is half done must not commit";
  }));
  EXPECT_EQ(value_of(d, p), 1);
  d.discard(p);
  d.discard(q);
}

TEST(rlu, a_reader_keeps_its_instant) {
  rlu::domain d;
  const auto p = d.make<number>({1});
  d.read([&](auto& in) {
    EXPECT_EQ(in.read(p)->value, 1);
    std::thread([&] {
      for (long v = 2; v < 5000; ++v) set(d, p, v);
      d.collect();
      d.collect();
    }).join();
    EXPECT_EQ(in.read(p)->value, 1);
  });
  EXPECT_EQ(value_of(d, p), 4999);
  d.discard(p);
}

TEST(rlu, logs_go_back) {
  rlu::domain d({.segment_bytes = 1024});
  std::vector<rlu::ptr<number>> all;
  for (long i = 0; i < 100; ++i) all.push_back(d.make<number>({i}));
  for (int round = 0; round < 200; ++round) {
    for (const auto p : all) set(d, p, round);
  }
  EXPECT_LT(d.stats().log_bytes, 64U * 1024);
  EXPECT_GT(d.stats().written_back, 0U);
  for (int i = 0; i < 3; ++i) d.collect();
  EXPECT_EQ(d.stats().log_bytes, 0U);
  const auto before = d.stats().walks;
  for (const auto p : all) EXPECT_EQ(value_of(d, p), 199);
  EXPECT_EQ(d.stats().walks, before) << "all masters are up to date";
  for (const auto p : all) d.discard(p);
}

TEST(rlu, a_log_takes_what_is_written_and_nothing_before) {
  rlu::domain d({.segment_bytes = 4096});
  const auto p = d.make<number>({0});
  EXPECT_EQ(value_of(d, p), 0);
  EXPECT_EQ(d.stats().log_bytes, 0U);
  std::thread([&] { set(d, p, 1); }).join();
  EXPECT_GT(d.stats().log_bytes, 0U);
  EXPECT_LT(d.stats().log_bytes, 2U * 4096);
  d.discard(p);
}

TEST(rlu, what_an_idle_thread_wrote_goes_home) {
  rlu::domain d;
  const auto p = d.make<number>({0});
  std::atomic<bool> written{false};
  std::atomic<bool> stop{false};
  std::thread idle([&] {
    set(d, p, 1);
    written.store(true);
    while (!stop.load()) std::this_thread::yield();
  });
  while (!written.load()) std::this_thread::yield();
  d.collect();
  EXPECT_EQ(d.stats().written_back, 1U) << "its segment is open";
  const auto before = d.stats().walks;
  EXPECT_EQ(value_of(d, p), 1);
  EXPECT_EQ(d.stats().walks, before);
  stop.store(true);
  idle.join();
  d.discard(p);
}

TEST(rlu, a_thread_that_is_alone_changes_objects_in_place) {
  rlu::domain d;
  const auto p = d.make<number>({0});
  const auto ended = std::make_shared<std::string>("x");
  auto last = d.make<named>(ended, {});
  d.collect();
  for (long v = 1; v < 100; ++v) {
    ASSERT_TRUE(set(d, p, v));
    d.update([&](auto& in) {
      if (auto gone = in.try_lock(last)) (void)in.free(gone.self());
      if (!in.doomed()) last = in.template make<named>(ended, {v, nullptr});
    });
    EXPECT_EQ(ended.use_count(), 2) << "who is freed ends at once";
    if (v != 50) continue;
    std::thread([&] { EXPECT_EQ(value_of(d, p), 50); }).join();
    for (int i = 0; i < 2; ++i) d.collect();
  }
  EXPECT_EQ(value_of(d, p), 99);
  EXPECT_LE(d.stats().written_back, 2U) << "but for what was written when another had come";
  d.discard(p);
  d.discard(last);
}

TEST(rlu, who_sleeps_keeps_what_it_sees_beside_one_that_is_alone) {
  rlu::domain d({.segment_bytes = 1024});
  const auto p = d.make<number>({1});
  d.read([&](auto& in) {
    std::thread([&] {
      for (long v = 2; v < 100; ++v) {
        d.collect();
        EXPECT_TRUE(set(d, p, v));
      }
      EXPECT_LE(d.stats().written_back, 1U);
      d.for_each_chain([](std::size_t n) { EXPECT_EQ(n, 1U) << "the newest is overwritten"; });
    }).join();
    EXPECT_EQ(in.read(p)->value, 1);
  });
  EXPECT_EQ(value_of(d, p), 99);
  d.discard(p);
}

/// What the logs hold while one section sleeps and others change `objects` objects again and again.
std::uint64_t held_up(std::size_t objects, int rounds, bool in_place) {
  rlu::domain d({.segment_bytes = 1024, .in_place = in_place});
  std::vector<rlu::ptr<number>> all;
  for (std::size_t i = 0; i < objects; ++i) all.push_back(d.make<number>({-1}));
  std::uint64_t most = 0;
  d.read("asleep", [&](auto& in) {
    std::thread([&] {
      for (int round = 0; round < rounds; ++round) {
        for (const auto p : all) EXPECT_TRUE(set(d, p, round));
        most = std::max(most, d.stats().log_bytes);
      }
    }).join();
    for (const auto p : all) EXPECT_EQ(in.read(p)->value, -1);
  });
  for (const auto p : all) EXPECT_EQ(value_of(d, p), rounds - 1);
  for (int i = 0; i < 3; ++i) d.collect();
  EXPECT_EQ(d.stats().log_bytes, 0U);
  for (const auto p : all) d.discard(p);
  return most;
}

/// Its assignment, by which copies are written back, can be made to wait.
struct slow_number {
  slow_number() = default;
  slow_number(const slow_number&) = default;
  slow_number& operator=(const slow_number& o) noexcept {
    value = o.value;
    if (armed.load()) {
      waits.store(true);
      while (armed.load()) std::this_thread::yield();
    }
    return *this;
  }
  long value = 0;
  static inline std::atomic<bool> armed{false};
  static inline std::atomic<bool> waits{false};
};

TEST(rlu, sections_beside_a_slow_pass_go_on_in_one_segment) {
  rlu::domain d({.segment_bytes = 4096, .low_watermark = 1U << 30U, .walk_watermark = 1U << 30U});
  const auto slow = d.make<slow_number>({});
  const auto quick = d.make<number>({0});
  const auto add = [&](auto p) {
    d.update([&](auto& in) {
      if (auto mine = in.try_lock(p)) ++mine->value;
    });
  };
  add(slow);
  slow_number::armed.store(true);
  std::thread collector([&] { d.collect(); });
  while (!slow_number::waits.load()) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) add(quick);
  const std::uint64_t bytes = d.stats().log_bytes;
  slow_number::armed.store(false);
  collector.join();
  EXPECT_LT(bytes, 50U * 4096);  // a thousand records take 24 segments
  EXPECT_EQ(d.read([&](auto& in) { return in.read(quick)->value; }), 1000);
  for (int i = 0; i < 3; ++i) d.collect();
  EXPECT_LE(d.stats().log_bytes, 2U * 8192) << "what was filled meanwhile stays";
  d.discard(slow);
  d.discard(quick);
}

TEST(rlu, one_sleeping_section_holds_up_one_version_of_each_object) {
  constexpr std::size_t objects = 200;
  for (const bool in_place : {true, false}) {
    const std::uint64_t few = held_up(objects, 20, in_place);
    const std::uint64_t many = held_up(objects, 1000, in_place);
    EXPECT_LT(many, few + few / 2) << "the longer it sleeps the more it holds";
    // A newest copy of each, in segments of which half may be such copies, and what is on its way.
    // 80 bytes a copy and 1 KiB a segment here.
    EXPECT_LT(many, 2 * objects * 80 + 64 * 1024);
  }
}

TEST(rlu, sections_are_accounted_for) {
  rlu::domain d;
  int found = 0;
  d.read("report", [&](auto& in) {
    d.for_each_section([&](const census::entry& e) {
      found += e.label != nullptr && std::string("report") == e.label;
      EXPECT_EQ(e.timestamp, in.timestamp());
    });
  });
  EXPECT_EQ(found, 1);
  d.for_each_section([&](const census::entry&) { ADD_FAILURE() << "a section that has ended"; });
}

/// A cold object among hot ones, and an old section: the cold one's copy must not pin the log.
TEST(rlu, a_cold_copy_moves_out_of_the_way) {
  rlu::domain d({.segment_bytes = 1024});
  const auto hot = d.make<number>({0});
  std::vector<rlu::ptr<number>> cold;
  for (long i = 0; i < 100; ++i) cold.push_back(d.make<number>({0}));
  d.read([&](auto&) {
    std::thread([&] {
      for (const auto p : cold) {
        set(d, p, 1);
        for (long n = 0; n < 200; ++n) set(d, hot, n);
      }
      EXPECT_LT(d.stats().log_bytes, 64U * 1024);
    }).join();
  });
  for (const auto p : cold) EXPECT_EQ(value_of(d, p), 1);
  for (const auto p : cold) d.discard(p);
  d.discard(hot);
}

/// As above with objects that are freed; and the domain goes while both twins lie in its log.
TEST(rlu, what_was_freed_moves_and_ends_once) {
  const auto alive = std::make_shared<std::string>("counts the objects");
  {
    rlu::domain d({.segment_bytes = 1024});
    const auto hot = d.make<number>({0});
    std::vector<rlu::ptr<named>> cold;
    for (long i = 0; i < 50; ++i) cold.push_back(d.make<named>(alive, {}));
    d.read([&](auto&) {
      std::thread([&] {
        for (const auto p : cold) {
          EXPECT_TRUE(d.update([&](auto& in) { return in.free(p); }));
          for (long n = 0; n < 200; ++n) set(d, hot, n);
        }
        for (int i = 0; i < 8; ++i) d.collect();
        EXPECT_LT(d.stats().log_bytes, 24U * 1024) << "segments stay that tombstones have left";
      }).join();
      EXPECT_EQ(alive.use_count(), 51);
    });
    d.discard(hot);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(rlu, freed_objects_end_when_no_section_can_see_them) {
  rlu::domain d;
  auto watched = std::make_shared<std::string>("here");
  const std::weak_ptr<std::string> alive = watched;
  const auto head = d.make<named>(nullptr, {});
  d.update([&](auto& in) {
    auto made = in.template make<named>(std::move(watched), {.value = 1, .next = {}});
    in.try_lock(head)->next = made;
  });
  d.read([&](auto& in) {
    const auto found = in.read(in.read(head)->next);
    ASSERT_TRUE(found);
    std::thread([&] {
      d.update([&](auto& other) {
        auto mine = other.try_lock(head);
        const auto victim = mine->next;
        mine->next = nullptr;
        EXPECT_TRUE(other.free(victim));
      });
      for (int i = 0; i < 3; ++i) d.collect();
    }).join();
    EXPECT_EQ(*found.fixed(), "here");
    EXPECT_EQ(found->value, 1);
  });
  EXPECT_FALSE(alive.expired());
  for (int i = 0; i < 3; ++i) d.collect();
  EXPECT_TRUE(alive.expired());
  d.discard(head);
}

TEST(rlu, what_is_made_and_freed_in_one_section_ends) {
  rlu::domain d;
  auto watched = std::make_shared<std::string>("short");
  const std::weak_ptr<std::string> alive = watched;
  d.update([&](auto& in) {
    auto made = in.template make<named>(std::move(watched), {});
    EXPECT_TRUE(in.free(made.self()));
  });
  EXPECT_TRUE(alive.expired());
}

TEST(rlu, a_log_grows_to_its_cap_and_says_so) {
  rlu::domain d({.segment_bytes = 1024, .log_cap = 16384, .tries_when_full = 3});
  std::vector<rlu::ptr<number>> all;
  for (long i = 0; i < 1000; ++i) all.push_back(d.make<number>({0}));
  const auto lock_all = [&](auto& in) {
    for (const auto p : all) {
      if (auto mine = in.try_lock(p)) mine->value = 1;
    }
  };
  EXPECT_EQ(d.attempt(lock_all), rlu::outcome::log_full);
  EXPECT_THROW(d.update(lock_all), rlu::log_full);
  for (const auto p : all) EXPECT_EQ(value_of(d, p), 0);
  EXPECT_TRUE(set(d, all[0], 5)) << "the log is usable again";
  for (const auto p : all) d.discard(p);
}

TEST(rlu, large_objects_fit) {
  struct page {
    char bytes[100000];
  };
  rlu::domain d;
  const auto p = d.make<page>({});
  for (char c = 1; c < 100; ++c) {
    d.update([&](auto& in) {
      if (auto mine = in.try_lock(p)) mine->bytes[99999] = c;
    });
  }
  EXPECT_EQ(d.read([&](auto& in) { return in.read(p)->bytes[99999]; }), 99);
  d.discard(p);
}

TEST(rlu, a_lock_becomes_another) {
  rlu::domain d;
  const auto p = d.make<number>({1});
  EXPECT_TRUE(d.update([&](auto& in) {
    EXPECT_TRUE(in.try_lock_const(p));
    auto mine = in.try_lock(p);
    ASSERT_TRUE(mine);
    mine->value = 2;
  }));
  EXPECT_EQ(value_of(d, p), 2);
  EXPECT_TRUE(d.update([&](auto& in) {
    EXPECT_TRUE(in.try_lock_const(p));
    EXPECT_TRUE(in.free(p));
  }));
}

TEST(rlu, options_that_make_no_sense_are_refused) {
  EXPECT_THROW(rlu::domain({.segment_bytes = 0}), std::invalid_argument);
  EXPECT_THROW(rlu::domain({.low_watermark = 0}), std::invalid_argument);
}

TEST(rlu, the_hardware_clock_does_as_well) {
  rlu::hardware_domain d(clock_kind::hardware);
  const auto p = d.make<number>({0});
  for (long i = 0; i < 2000; ++i) {
    EXPECT_EQ(d.attempt([&](auto& in) {
      if (auto mine = in.try_lock(p)) mine->value += 1;
    }),
              rlu::outcome::committed)
        << "each section sees what its thread has committed";
  }
  EXPECT_EQ(d.read([&](auto& in) { return in.read(p)->value; }), 2000);
  d.discard(p);
}

struct cell : rlu::element {
  long value = 0;
  rlu::ptr<number> to;
};

TEST(rlu, elements_of_an_array_are_objects) {
  rlu::domain d({.low_watermark = 1});
  rlu::array<cell> cells(d, 100);
  const rlu::array<cell> none(d, 0);
  EXPECT_EQ(cells.size(), 100U);
  EXPECT_EQ(none.size(), 0U);
  const auto kept = d.make<number>({7});
  for (long round = 1; round <= 3; ++round) {
    d.update([&](auto& in) {
      for (std::size_t i = 0; i < cells.size(); i += 2) {
        auto c = in.try_lock(cells[i]);
        ASSERT_TRUE(c);
        c->value += round;
        c->to = kept;
      }
    });
    if (round == 2) d.collect();
  }
  const long sum = d.read([&](auto& in) {
    long all = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto c = in.read(cells[i]);
      all += c->value + (c->to ? in.read(c->to)->value : 0);
    }
    return all;
  });
  EXPECT_EQ(sum, 50 * (1 + 2 + 3 + 7));
  EXPECT_THROW((rlu::array<cell>(d, ~std::size_t{0} / 8)), std::bad_alloc);
  d.discard(kept);
  // The array goes while its last copies are still in the log.
}

TEST(rlu, a_detector_looks_after_threads_that_do_nothing) {
  rlu::domain d;
  std::vector<rlu::ptr<number>> all;
  for (int i = 0; i < 100; ++i) all.push_back(d.make<number>({0}));
  {
    const rlu::detector upkeep(d);
    std::thread([&] {
      for (const auto p : all) set(d, p, 1);
    }).join();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (d.stats().log_bytes != 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(d.stats().log_bytes, 0U);
    EXPECT_EQ(d.stats().written_back, all.size());
  }
  for (const auto p : all) {
    EXPECT_EQ(value_of(d, p), 1);
    d.discard(p);
  }
}

struct text {
  using tail = char;
  std::uint32_t used = 0;
};

TEST(rlu, tells_how_many_copies_objects_have) {
  rlu::domain d;
  const auto chains = [&] {
    std::vector<std::size_t> all;
    d.for_each_chain([&](std::size_t n) { all.push_back(n); });
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto p = d.make<number>({0});
  const auto q = d.make<number>({0});
  EXPECT_TRUE(chains().empty());
  for (long i = 1; i <= 3; ++i) set(d, p, i);
  EXPECT_EQ(chains(), (std::vector<std::size_t>{3}));
  std::thread([&] { set(d, q, 1); }).join();
  EXPECT_EQ(chains(), (std::vector<std::size_t>{1, 3})) << "what an ended thread has left counts";
  d.update([&](auto& in) {
    EXPECT_TRUE(in.try_lock(q));
    in.cancel();
  });
  EXPECT_EQ(chains(), (std::vector<std::size_t>{1, 3})) << "what was not committed does not";
  const auto before = d.stats().passes;
  for (int i = 0; i < 3; ++i) d.collect();
  EXPECT_TRUE(chains().empty());
  EXPECT_GT(d.stats().passes, before);
  EXPECT_EQ(d.stats().waiting, 0U);
  d.discard(p);
  d.discard(q);
}

TEST(rlu, objects_may_have_tails) {
  rlu::domain d({.segment_bytes = 512, .low_watermark = 1});
  constexpr std::size_t large = 100000;
  const auto small = d.make<text>({}, {5}, 5);
  rlu::ptr<text> big;
  d.update([&](auto& in) {
    auto made = in.template make<text>({}, {1}, large);
    EXPECT_EQ(made.tail().size(), large);
    EXPECT_EQ(made.tail()[large - 1], 0);
    made.tail()[0] = 'a';
    big = made;
    std::ranges::copy(std::string("hello"), in.try_lock(small).tail().begin());
  });
  d.read([&](auto& in) {
    const auto before = in.read(big);
    std::thread([&] {
      for (char c = 'b'; c <= 'z'; ++c) {
        d.update([&](auto& w) {
          auto mine = w.try_lock(big);
          ASSERT_TRUE(mine);
          mine->used += 1;
          mine.tail()[0] = mine.tail()[large - 1] = c;
        });
      }
    }).join();
    EXPECT_EQ(before.tail()[0], 'a');
    EXPECT_EQ(before.tail()[large - 1], 0);
  });
  for (int i = 0; i < 3; ++i) d.collect();
  d.read([&](auto& in) {
    EXPECT_EQ(in.read(big)->used, 26U);
    EXPECT_EQ(in.read(big).tail()[large - 1], 'z');
    const auto tail = in.read(small).tail();
    EXPECT_EQ(std::string(tail.begin(), tail.end()), "hello");
  });
  EXPECT_THROW((void)d.make<text>({}, {}, ~std::size_t{0}), std::bad_alloc);
  d.discard(small);
  d.discard(big);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Thin pointers: counts, locations, private pointers, ends; and the pool that their objects, and
// make_shared's, come from.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spolia/memory.hpp>

#include "nodes.hpp"
#include "support/resident.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using node = booked_node<thin_family>;
static_assert(sizeof(thin_ptr<node>) == 8 && sizeof(atomic_thin_ptr<node>) == 8);
using thin_pointers = nodes_end<thin_family>;
using private_node = private_thin_ptr<node>;

TEST_F(thin_pointers, count_and_end_at_once) {
  thin_ptr<node> a = make(1);
  EXPECT_EQ(a.use_count(), 1);
  {
    const thin_ptr<node> b = a;
    thin_ptr<node> c;
    c = b;
    EXPECT_EQ(a.use_count(), 3);
    EXPECT_TRUE(a == b && b == c && c != nullptr);
    const thin_ptr<node> d = std::move(c);
    EXPECT_FALSE(c);
    EXPECT_EQ(d.use_count(), 3);
    EXPECT_EQ(std::hash<thin_ptr<node>>{}(d), std::hash<node*>{}(a.get()));
  }
  EXPECT_EQ(a.use_count(), 1);
  const thin_ptr<node>& same = a;
  a = same;
  EXPECT_EQ(a->key(), 1);
  a.reset();
  EXPECT_EQ(book.live(), 0);
  EXPECT_EQ(a.use_count(), 0);
}

TEST_F(thin_pointers, locations) {
  atomic_thin_ptr<node> head(make(1));
  EXPECT_TRUE(head.is_lock_free());
  EXPECT_EQ(head.load()->key(), 1);
  const thin_ptr<node> old = head.exchange(make(2));
  EXPECT_EQ(old->key(), 1);
  thin_ptr<node> expected = old;
  EXPECT_FALSE(head.compare_exchange_strong(expected, make(3)));
  EXPECT_EQ(expected->key(), 2);
  EXPECT_TRUE(head.compare_exchange_strong(expected, make(4)));
  EXPECT_EQ(head.load()->key(), 4);
  private_node n(head);
  EXPECT_TRUE(head.replace_if(n, make(5)));
  EXPECT_FALSE(head.replace_if(n, make(6)));
  EXPECT_EQ(n->key(), 4);
  head = nullptr;
  EXPECT_FALSE(head.load());
  std::thread([&] { head.store(make(7)), head.notify_all(); }).join();
  head.wait(nullptr);
  EXPECT_EQ(thin_ptr<node>(head)->key(), 7);
}

/// It has a pin all the same: others that begin meanwhile do not take it.
TEST_F(thin_pointers, a_private_pointer_that_became_null_goes_on) {
  atomic_thin_ptr<node> nothing;
  atomic_thin_ptr<node> head(make(1));
  private_node from_null(nothing);
  private_node to_null(head);
  to_null = to_null->next;
  private_node later;
  later = nothing;
  EXPECT_FALSE(from_null || to_null || later);
  std::array<atomic_thin_ptr<node>, 3> places{make(2), make(3), make(4)};
  const std::array<private_node, 3> others{private_node(places[0]), private_node(places[1]),
                                           private_node(places[2])};
  for (private_node* n : {&from_null, &to_null, &later}) {
    *n = head;
    *n = head;  // so it names what it named before in both slots
  }
  head = nullptr;
  for (auto& place : places) place = nullptr;
  EXPECT_FALSE(counted::drain());
  EXPECT_EQ(book.live(), 4);
  for (private_node* n : {&from_null, &to_null, &later}) {
    EXPECT_EQ((*n)->key(), 1);
    *n = nothing;
  }
  EXPECT_EQ(others[2]->key(), 4);
}

TEST_F(thin_pointers, a_private_pointer_holds_its_object) {
  atomic_thin_ptr<node> head(make(1));
  private_node n(head);
  head = make(2);
  EXPECT_FALSE(counted::drain());
  EXPECT_EQ(n->key(), 1);
  const private_node copy = n;
  n = head;
  EXPECT_EQ(n->key(), 2);
  EXPECT_FALSE(counted::drain());
  EXPECT_EQ(copy->key(), 1);
  const thin_ptr<node> kept = copy.share_out();
  private_node from_plain(kept);
  EXPECT_GE(kept.use_count(), 3);
  from_plain = head;
  from_plain = private_node(std::move(n));
  EXPECT_EQ(from_plain->key(), 2);
  EXPECT_EQ(kept->key(), 1);
}

struct row {
  explicit row(thin_ptr<node> n) : first(std::move(n)) {}
  atomic_thin_ptr<node> first;
};

TEST_F(thin_pointers, walks_go_on_from_objects_of_other_types) {
  atomic_thin_ptr<row> rows(make_thin<row>(make(1)));
  private_thin_ptr<row> at(rows);
  const auto& first = at->first;
  const private_node n(std::move(at), first);
  EXPECT_FALSE(at);
  rows = nullptr;
  counted::drain();
  EXPECT_EQ(n->key(), 1);
  struct shared_row {
    atomic_shared_ptr<int> first;
  };
  const atomic_shared_ptr<shared_row> others(make_shared<shared_row>());
  others.load()->first = make_shared<int>(2);
  private_ptr<shared_row> other(others);
  const auto& second = other->first;
  EXPECT_EQ(*private_ptr<int>(std::move(other), second), 2);
}

TEST_F(thin_pointers, long_lists_and_trees_end_in_bounded_steps) {
  constexpr int nodes = SPOLIA_TSAN || SPOLIA_ASAN ? 20000 : 200000;
  for (const bool atomically : {true, false}) {
    atomic_thin_ptr<node> head;
    for (int i = 0; i < nodes; ++i) {
      thin_ptr<node> n = make(i);
      (atomically ? n->next : n->other) = head.load();
      head = std::move(n);
    }
    head = nullptr;
    EXPECT_TRUE(counted::drain());
    EXPECT_EQ(book.live(), 0);
  }
  thin_ptr<node> plain;
  for (int i = 0; i < nodes; ++i) {
    thin_ptr<node> n = make(i);
    n->owned = std::move(plain);
    plain = std::move(n);
  }
  plain.reset();
  EXPECT_EQ(book.live(), 0) << "where no location is involved, nothing waits";
}

struct alignas(64) aligned {
  explicit aligned(ledger& book) : value(book, 1) {}
  tracked value;
};
struct large {
  explicit large(ledger& book) : value(book, 1) {}
  tracked value;
  unsigned char filler[3000] = {};
};
struct refuses {
  explicit refuses(ledger& book) : value(book, 1) { throw std::runtime_error("no"); }
  tracked value;
};

TEST_F(thin_pointers, objects_of_every_kind) {
  for (int i = 0; i < 3; ++i) {
    const thin_ptr<aligned> a = make_thin<aligned>(book);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get()) % 64, 0U);
    const atomic_thin_ptr<large> b(make_thin<large>(book));
    EXPECT_EQ(b.load()->value.read(), 1U);
    const thin_ptr<char> c = make_thin<char>('c');
    EXPECT_EQ(*c, 'c');
  }
  EXPECT_THROW(make_thin<refuses>(book), std::runtime_error);
}

/// Whose heads lie at every multiple of 8.
struct odd_strided {
  explicit odd_strided(int& n) : alive(n) { ++alive; }
  odd_strided(const odd_strided&) = delete;
  odd_strided& operator=(const odd_strided&) = delete;
  ~odd_strided() {
    --alive;
    word = 0;
  }
  int& alive;
  std::uint64_t word = 1;
  std::uint64_t filler[2] = {};
};
static_assert(sizeof(odd_strided) % 16 == 0);

TEST_F(thin_pointers, heads_at_every_multiple_of_eight) {
  int alive = 0;
  std::set<std::uintptr_t> found;
  std::vector<atomic_thin_ptr<odd_strided>> all(64);
  for (auto& place : all) {
    const auto made = make_thin<odd_strided>(alive);
    found.insert(reinterpret_cast<std::uintptr_t>(made.get()) % 16);
    place = made;
  }
  EXPECT_EQ(found.size(), SPOLIA_POOL != 0 ? 2U : 1U);
  for (auto& place : all) {
    const private_thin_ptr<odd_strided> counts(place.load());
    const private_thin_ptr<odd_strided> names(place);
    const private_thin_ptr<odd_strided> copy = counts;
    place = nullptr;
    EXPECT_FALSE(counted::drain());
    EXPECT_EQ(counts->word + names->word + copy.share_out()->word, 3U);
  }
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(alive, 0);
}

/// Readers walk while writers cut off and put on, and some take counted pointers along.
TEST_F(thin_pointers, walks_among_changes) {
  atomic_thin_ptr<node> head;
  std::atomic<bool> stop = false;
  std::vector<std::thread> all;
  for (int t = 0; t < 2; ++t) {
    all.emplace_back([&] {
      thin_ptr<node> kept;
      while (!stop) {
        private_node n(head);
        for (int steps = 0; n && steps < 50; ++steps) {
          EXPECT_GE(n->key(), 0);
          if (steps == 20) kept = n.share_out();
          n = n->next;
        }
        EXPECT_TRUE(!kept || kept->key() >= 0);
      }
    });
  }
  for (int t = 0; t < 2; ++t) {
    all.emplace_back([&, t] {
      for (int i = 0; i < 20000; ++i) {
        thin_ptr<node> n = make(i);
        if (i % 40 == t) {
          head.store(std::move(n));
        } else {
          n->next = head.load();
          head = std::move(n);
        }
      }
      stop = true;
    });
  }
  for (std::thread& t : all) t.join();
}

#if SPOLIA_CHECKS
int reports = 0;
std::string owner_of_reported;

TEST_F(thin_pointers, private_pointers_of_other_threads_are_reported) {
  const auto before = core::set_misuse_handler([](const char* what, std::uint32_t) {
    EXPECT_TRUE(std::strstr(what, "private pointer") != nullptr) << what;
    EXPECT_TRUE(std::strstr(what, owner_of_reported.c_str()) != nullptr) << what;
    ++reports;
  });
  owner_of_reported = "owner " + std::to_string(threads::os_id()) + " '";
  const auto expect_reports = [](auto use) {
    reports = 0;
    std::thread(use).join();
    EXPECT_GE(reports, 1);
  };
  const atomic_thin_ptr<node> thin(make(1));
  const atomic_shared_ptr<node> shared(make_shared<node>(book, 2));
  private_node n(thin);
  private_ptr<node> m(shared);
  expect_reports([&] { EXPECT_EQ(n->key(), 1); });
  expect_reports([&] { EXPECT_EQ(m->key(), 2); });
  expect_reports([&] { const private_ptr<node> copy = m; });
  private_ptr<int> counted(make_shared<int>(3));  // its count is lost with it
  expect_reports([moved = std::move(counted)]() mutable { moved.reset(); });
  core::set_misuse_handler(before);
  EXPECT_EQ(n->key(), 1);
  n = thin;
}
#endif

// ---- the pool, also where it is not used for objects

constexpr unsigned some_size = core::block_cache::size_for(40);

TEST(block_pool, sizes) {
  using cache = core::block_cache;
  for (std::size_t bytes = 1; bytes <= cache::most; ++bytes) {
    const std::size_t stride = cache::stride_of(cache::size_for(bytes));
    EXPECT_GE(stride, bytes + 8);
    EXPECT_TRUE(stride < bytes + 8 + 8 || stride == cache::smallest);
    EXPECT_EQ(stride % 8, 0U);
  }
  EXPECT_EQ(cache::stride_of(cache::size_for(cache::most)), cache::largest);
}

TEST(block_pool, sizes_without_heads) {
  using cache = core::block_cache;
  for (std::size_t bytes = 1; bytes <= cache::largest; ++bytes) {
    const unsigned size = cache::bare_size_for(bytes);
    const std::size_t stride = cache::stride_of(size);
    ASSERT_LT(size, cache::sizes);
    EXPECT_GE(stride, bytes);
    EXPECT_TRUE(stride < bytes + 8 || stride == cache::smallest);
    if (bytes > cache::most) continue;
    const unsigned headed = cache::size_for(bytes);
    EXPECT_EQ(size == headed, stride == cache::stride_of(headed)) << "or more sizes than needed";
  }
}

TEST(block_pool, objects_whose_counts_lie_before_them_waste_nothing) {
  const auto stride = [](std::size_t bytes, std::size_t align, counted::detail::before b) {
    return core::block_cache::stride_of(counted::detail::pool_size(bytes, align, b));
  };
  for (std::size_t words = 2; words <= 8; ++words) {
    const std::size_t object = words * 8;
    EXPECT_EQ(
        stride(sizeof(counted::detail::control) + object, 8, counted::detail::before::nothing),
        16 + object);
    EXPECT_EQ(stride(object, 8, counted::detail::before::head),
              std::max<std::size_t>(32, 8 + object));
    EXPECT_EQ(stride(object, 16, counted::detail::before::head),
              std::max<std::size_t>(32, (8 + object + 15) / 16 * 16));
  }
}

TEST(block_pool, objects_of_three_words_lie_in_one_line) {
  struct three {
    std::uint64_t words[3];
  };
  std::vector<shared_ptr<three>> all;
  std::set<std::uintptr_t> lines;
  for (int i = 0; i < 3000; ++i) {
    all.push_back(make_shared<three>());
    const auto first = reinterpret_cast<std::uintptr_t>(&all.back()->words[0]) / 64;
    if (SPOLIA_POOL != 0) {
      EXPECT_EQ(first, reinterpret_cast<std::uintptr_t>(&all.back()->words[2]) / 64);
    }
    lines.insert(first);
  }
  // Three in two lines, but for where slabs begin and end.
  if (SPOLIA_POOL != 0) {
    EXPECT_LE(lines.size(), 2100U);
  }
}

TEST(block_pool, aligned_blocks_lie_a_multiple_of_that_apart) {
  for (std::size_t align = 16; align <= 64; align *= 2) {
    for (const counted::detail::before b :
         {counted::detail::before::nothing, counted::detail::before::head}) {
      for (std::size_t bytes = 1; bytes <= core::block_cache::largest - align; ++bytes) {
        const unsigned size = counted::detail::pool_size(bytes, align, b);
        EXPECT_EQ(core::block_cache::stride_of(size) % align, 0U) << bytes << ' ' << align;
      }
    }
  }
}

/// A huge page made at once would hold its thread up.
TEST(block_pool, the_first_block_of_a_large_slab_writes_few_pages) {
  std::string huge_pages;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), huge_pages);
  if (huge_pages.find("[always]") != std::string::npos) GTEST_SKIP();
  constexpr std::size_t slab = std::size_t{2} << 20U;
  constexpr std::size_t page = 4096;
  constexpr std::size_t first_unit = 8192;
  constexpr std::ptrdiff_t few = 64;
  const unsigned size = core::block_cache::size_for(core::block_cache::most);
  std::vector<void*> all;
  std::vector<unsigned char> resident(slab / page);
  bool found = false;
  for (std::size_t i = 0; i < 4 * slab / core::block_cache::largest && !found; ++i) {
    all.push_back(core::take_block(size));
    // The first block of a slab that begins at a multiple of its size; or one of a smaller slab
    // that happens to lie so, after which anything may lie, or nothing.
    const auto at = reinterpret_cast<std::uintptr_t>(all.back());
    if (at % slab != first_unit + core::block_cache::line) continue;
    if (mincore(reinterpret_cast<void*>(at / slab * slab), slab, resident.data()) != 0) continue;
    found =
        std::count_if(resident.begin(), resident.end(), [](auto c) { return (c & 1) != 0; }) < few;
  }
  EXPECT_TRUE(found);
  for (void* b : all) core::give_block(size, b);
}

TEST(block_pool, blocks_do_not_overlap_and_come_back) {
  std::set<std::uintptr_t> all;
  const std::size_t stride = core::block_cache::stride_of(some_size);
  for (int round = 0; round < 3; ++round) {
    std::set<std::uintptr_t> blocks;
    for (int i = 0; i < 5000; ++i) {
      void* const b = core::take_block(some_size);
      std::memset(static_cast<unsigned char*>(b) - 8, i, stride);
      blocks.insert(reinterpret_cast<std::uintptr_t>(b));
    }
    EXPECT_EQ(blocks.size(), 5000U);
    std::uintptr_t last = 0;
    for (const std::uintptr_t b : blocks) {
      EXPECT_EQ(b % 8, 0U);
      EXPECT_GE(b - last, stride);
      last = b;
      core::give_block(some_size, reinterpret_cast<void*>(b));
    }
    all.insert(blocks.begin(), blocks.end());
  }
  EXPECT_LE(all.size(), 5200U) << "what was given back is used again";
}

TEST(block_pool, threads_hand_blocks_to_each_other) {
  constexpr std::uint64_t each = 200;
  for (std::uint64_t round = 0; round < 50; ++round) {
    std::vector<std::uint64_t*> hand(each);
    for (std::uint64_t i = 0; i < each; ++i) {
      hand[i] = static_cast<std::uint64_t*>(core::take_block(some_size));
      *hand[i] = round + i;
    }
    std::thread([&] {
      for (std::uint64_t i = 0; i < each; ++i) {
        EXPECT_EQ(*hand[i], round + i);
        core::give_block(some_size, hand[i]);
      }
    }).join();
  }
  std::unordered_set<void*> left;
  for (std::uint64_t i = 0; i < each; ++i) left.insert(core::take_block(some_size));
  EXPECT_EQ(left.size(), each);
  for (void* b : left) core::give_block(some_size, b);
}

constexpr unsigned other_size = core::block_cache::size_for(200);

/// In random order, so that no slab is without a block in use before the end: but pages are.
TEST(block_pool, gives_back_what_no_thread_uses) {
  constexpr std::size_t many = 40000;
  const std::size_t bytes = many * core::block_cache::stride_of(other_size);
  counted::trim();
  std::vector<void*> blocks(many);
  for (void*& b : blocks) {
    b = core::take_block(other_size);
    std::memset(b, 7, 200);
  }
  EXPECT_EQ(counted::trim(), 0U) << "all are in use";
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(7));
  const std::uint64_t with_all = test::resident_bytes();
  while (blocks.size() > 40) {
    core::give_block(other_size, blocks.back());
    blocks.pop_back();
  }
  // All but 2 MiB.
  EXPECT_LT(test::resident_bytes() + bytes / 2, with_all) << "given back by itself";
  counted::trim();
  EXPECT_LT(test::resident_bytes() + bytes * 2 / 3, with_all) << "all but 40, and small slabs";
  for (void* b : blocks) EXPECT_EQ(static_cast<char*>(b)[100], 7) << "in use";
  for (void* b : blocks) core::give_block(other_size, b);
  counted::trim();
  EXPECT_EQ(counted::trim(), 0U);
  std::set<void*> anew;
  for (std::size_t i = 0; i < many; ++i) anew.insert(core::take_block(other_size));
  EXPECT_EQ(anew.size(), many);
  for (void* b : anew) std::memset(b, 7, 200);
  for (void* b : anew) core::give_block(other_size, b);
}

TEST(block_pool, trims_among_others) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> all;
  for (int t = 0; t < 3; ++t) {
    all.emplace_back([&] {
      while (!stop) {
        std::vector<std::uint64_t*> mine(1000);
        for (std::uint64_t*& b : mine) {
          b = static_cast<std::uint64_t*>(core::take_block(other_size));
          *b = reinterpret_cast<std::uintptr_t>(b);
        }
        for (std::uint64_t* b : mine) {
          EXPECT_EQ(*b, reinterpret_cast<std::uintptr_t>(b));
          core::give_block(other_size, b);
        }
      }
    });
  }
  for (int i = 0; i < (SPOLIA_ASAN || SPOLIA_TSAN ? 5 : 50); ++i) counted::trim();
  stop = true;
  for (std::thread& t : all) t.join();
}

/// Each shared object asks for the numbers of its kinds, and so does a plugin that is loaded again
/// to where it was: each time a new number would fill the table, which has no more than 65536.
TEST(thin_kinds, keep_their_number_however_often_it_is_asked_for) {
  const thin_ptr<std::string> p = make_thin<std::string>("kind");
  const auto* const ops = &counted::detail::thin_kind<std::string>::ops;
  ASSERT_EQ(&counted::detail::head_of(p.get())->ops(), ops);
  const std::uint32_t number = counted::detail::add_thin_kind(ops);
  ASSERT_EQ(counted::detail::thin_kinds[number], ops);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(counted::detail::add_thin_kind(ops), number);
}

TEST(block_pool, a_forked_child_goes_on) {
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
      std::vector<void*> some(200);
      for (void*& b : some) b = core::take_block(some_size);
      for (void* b : some) core::give_block(some_size, b);
    }
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      std::set<void*> blocks;
      for (int k = 0; k < 500; ++k) blocks.insert(core::take_block(some_size));
      for (void* b : blocks) core::give_block(some_size, b);
      _exit(blocks.size() == 500 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

}  // namespace

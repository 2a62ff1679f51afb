// SPDX-License-Identifier: Apache-2.0
// counted_trial.hpp: the tests of the paper on one kind of pointer. (Tripp, Hyde, Grossman-Ponemon,
// ISMM 2018, sections 4.3 and 4.4)
//
//     struct Pointer {
//       template <class T> using location = ...;   what threads share
//       template <class T> using local = ...;      what a thread holds while it looks
//       template <class T> static local<T> look(const location<T>&);
//       template <class T> static void step(local<T>&, const location<T>&);   look again
//       template <class T> static void set(location<T>& to, location<T>& from);
//       template <class T, class... Args> static void fill(location<T>&, Args...);
//     };
//
//   contention   all threads look at one object, each time by a local pointer of its own
//   set          each thread sets a pointer of its own to one object and to another, in turns
//   allocate     each thread fills an array of pointers with new objects, and empties it
//   read         random look-ups in one search tree, which nobody changes
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "probe.hpp"
#include "random.hpp"

namespace bench {

/// Runs `work(thread)` again and again, each call counting as so many operations as it returns.
template <class MakeWork>
counted_result run_threads(const counted_options& o, std::uint32_t count, MakeWork make_work) {
  using steady = std::chrono::steady_clock;
  spolia::atomic<std::uint32_t> ready{0};
  spolia::atomic<bool> go{false};
  spolia::atomic<bool> stop{false};
  std::vector<counted_result> each(count);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      auto work = make_work(t);
      work();  // once to warm up
      ready.fetch_add_release(1);
      while (!go.load_acquire()) std::this_thread::yield();
      const auto start = steady::now();
      std::uint64_t done = 0;
      while (!stop.load_relaxed()) done += work();
      each[t] = {done, 0, std::chrono::duration<double, std::nano>(steady::now() - start).count()};
    });
  }
  while (ready.load_acquire() < count) std::this_thread::yield();
  const auto start = steady::now();
  go.store_release(true);
  std::this_thread::sleep_for(std::chrono::duration<double>(o.seconds));
  stop.store_relaxed(true);
  for (std::thread& t : threads) t.join();
  counted_result sum;
  sum.elapsed_s = std::chrono::duration<double>(steady::now() - start).count();
  for (const counted_result& r : each) {
    sum.operations += r.operations;
    sum.thread_ns += r.thread_ns;
  }
  return sum;
}

template <class P>
counted_result contention(const counted_options& o, std::uint32_t threads) {
  typename P::template location<long> shared;
  P::template fill<long>(shared, 7L);
  return run_threads(o, threads, [&](std::uint32_t) {
    return [&shared] {
      for (int i = 0; i < 1024; ++i) {
        const auto seen = P::template look<long>(shared);
        use(&*seen);
      }
      return std::uint64_t{1024};
    };
  });
}

template <class P>
counted_result setting(const counted_options& o, std::uint32_t threads) {
  using location = typename P::template location<long>;
  struct three {
    location a, b, c;
  };
  return run_threads(o, threads, [&](std::uint32_t) {
    auto all = std::make_shared<three>();
    P::template fill<long>(all->a, 1L);
    P::template fill<long>(all->b, 2L);
    return [all] {
      for (int i = 0; i < 512; ++i) {
        P::template set<long>(all->c, all->a);
        touch();
        P::template set<long>(all->c, all->b);
        touch();
      }
      return std::uint64_t{1024};
    };
  });
}

/// For pointers that only look: one local pointer, set from two locations in turns.
template <class P>
counted_result looking(const counted_options& o, std::uint32_t threads) {
  using location = typename P::template location<long>;
  return run_threads(o, threads, [&](std::uint32_t) {
    auto both = std::make_shared<std::pair<location, location>>();
    P::template fill<long>(both->first, 1L);
    P::template fill<long>(both->second, 2L);
    return [both] {
      auto seen = P::template look<long>(both->first);
      for (int i = 0; i < 512; ++i) {
        P::template step<long>(seen, both->second);
        use(&*seen);
        P::template step<long>(seen, both->first);
        use(&*seen);
      }
      return std::uint64_t{1024};
    };
  });
}

template <class P>
counted_result allocation(const counted_options& o, std::uint32_t threads) {
  using location = typename P::template location<long>;
  return run_threads(o, threads, [&](std::uint32_t) {
    return [] {
      constexpr std::size_t many = 10000;
      auto all = std::make_unique<location[]>(many);
      for (std::size_t i = 0; i < many; ++i) P::template fill<long>(all[i], 5L);
      return std::uint64_t{many};
    };
  });
}

template <class P>
struct tree_node {
  explicit tree_node(std::uint64_t k) : key(k) {}
  std::uint64_t key;
  typename P::template location<tree_node> left;
  typename P::template location<tree_node> right;
};

template <class P>
void grow(typename P::template location<tree_node<P>>& root, std::uint64_t keys) {
  std::vector<std::uint64_t> order(keys);
  std::iota(order.begin(), order.end(), 0);
  random_source random(7);
  for (std::uint64_t i = keys; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  for (const std::uint64_t key : order) {
    auto* where = &root;
    for (auto seen = P::template look<tree_node<P>>(*where); seen;
         seen = P::template look<tree_node<P>>(*where)) {
      where = key < seen->key ? &seen->left : &seen->right;
    }
    P::template fill<tree_node<P>>(*where, key);
  }
}

template <class P>
counted_result reading(const counted_options& o, std::uint32_t threads) {
  typename P::template location<tree_node<P>> root;
  grow<P>(root, o.keys);
  return run_threads(o, threads, [&](std::uint32_t t) {
    return [&, random = random_source(t + 1)]() mutable {
      std::uint64_t found = 0;
      for (int i = 0; i < 128; ++i) {
        const std::uint64_t key = random.below(o.keys);
        auto seen = P::template look<tree_node<P>>(root);
        while (seen && seen->key != key) {
          P::template step<tree_node<P>>(seen, key < seen->key ? seen->left : seen->right);
        }
        found += seen ? 1 : 0;
      }
      use(found);
      return std::uint64_t{128};
    };
  });
}

}  // namespace bench

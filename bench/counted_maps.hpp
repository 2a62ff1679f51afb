// SPDX-License-Identifier: Apache-2.0
// counted_maps.hpp: the paper's tests of containers over one family of pointers. (Tripp, Hyde,
// Grossman-Ponemon, ISMM 2018, section 4.4)
//
//   read     random look-ups of keys that are there
//   hot      the same; of 100 look-ups, 99 go to the first tenth of the keys
//   insert   the threads together fill an empty container, each with its share of the keys
//   remove   the threads together empty it
// The structures `tree` and `btree-locked` are `bst` and `btree` with a lock in each node, where
// those have one for all writers.
#pragma once

#include <spolia/map/counted_bst.hpp>
#include <spolia/map/counted_btree.hpp>
#include <spolia/map/counted_btree_locked.hpp>
#include <spolia/map/counted_hash.hpp>
#include <spolia/map/counted_tree.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "counted_trial.hpp"
#include "random.hpp"

namespace bench {

/// All keys below n, in an order that is always the same.
inline std::vector<std::uint64_t> shuffled(std::uint64_t n) {
  std::vector<std::uint64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  random_source random(7);
  for (std::uint64_t i = n; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

template <class Map>
counted_result map_reading(const counted_options& o, std::uint32_t threads) {
  const bool hot = o.test == "hot";
  Map map;
  for (const std::uint64_t key : shuffled(o.keys)) map.insert(key, key);
  return run_threads(o, threads, [&](std::uint32_t t) {
    return [&, random = random_source(t + 1)]() mutable {
      std::uint64_t found = 0;
      for (int i = 0; i < 128; ++i) {
        const bool first = hot && random.below(100) != 0;
        const std::uint64_t key = random.below(first ? (o.keys + 9) / 10 : o.keys);
        map.visit(key, [&](const std::uint64_t& v) { found += v; });
      }
      use(found);
      return std::uint64_t{128};
    };
  });
}

/// operation(key) for each key, by each thread for its share of them; what is timed is between the
/// common start and the end of the last thread.
template <class Key, class Operation>
counted_result one_pass(const std::vector<Key>& keys, std::uint32_t count, Operation operation) {
  using steady = std::chrono::steady_clock;
  spolia::atomic<std::uint32_t> ready{0};
  spolia::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      ready.fetch_add_release(1);
      while (!go.load_acquire()) std::this_thread::yield();
      for (std::size_t i = t; i < keys.size(); i += count) operation(keys[i]);
    });
  }
  while (ready.load_acquire() < count) std::this_thread::yield();
  const auto start = steady::now();
  go.store_release(true);
  for (std::thread& t : threads) t.join();
  const double s = std::chrono::duration<double>(steady::now() - start).count();
  return {keys.size(), s, s * 1e9 * count, {}};
}

template <class Map>
counted_result map_changing(const counted_options& o, std::uint32_t threads) {
  const std::vector<std::uint64_t> keys = shuffled(o.keys);
  counted_result sum;
  while (sum.elapsed_s < o.seconds) {
    Map map;
    const auto insert = [&](std::uint64_t key) { map.insert(key, key); };
    const bool inserts = o.test == "insert";
    if (!inserts) {
      for (const std::uint64_t key : keys) insert(key);
    }
    const counted_result r =
        inserts ? one_pass(keys, threads, insert)
                : one_pass(keys, threads, [&](std::uint64_t key) { map.erase(key); });
    sum.operations += r.operations;
    sum.elapsed_s += r.elapsed_s;
    sum.thread_ns += r.thread_ns;
  }
  return sum;
}

template <class Map>
counted_result on_map(const counted_options& o, std::uint32_t threads) {
  const bool reads = o.test == "read" || o.test == "hot";
  return reads ? map_reading<Map>(o, threads) : map_changing<Map>(o, threads);
}

/// Calls f.operator()<Map>() with the container that o names.
template <class Key, class Family, class F>
counted_result with_structure(const counted_options& o, F f) {
  if (o.structure == "hash") return f.template operator()<spolia::counted_hash<Key, Key, Family>>();
  if (o.structure == "btree") {
    return f.template operator()<spolia::counted_btree<Key, Key, Family>>();
  }
  return f.template operator()<spolia::counted_bst<Key, Key, Family>>();
}

/// Runs o.test on o.structure.
template <class Family>
counted_result on_maps(const counted_options& o, std::uint32_t threads) {
  using key = std::uint64_t;
  if (o.structure == "tree") return on_map<spolia::counted_tree<key, key, Family>>(o, threads);
  if (o.structure == "btree-locked") {
    return on_map<spolia::counted_btree_locked<key, key, Family>>(o, threads);
  }
  return with_structure<key, Family>(o, [&]<class Map>() { return on_map<Map>(o, threads); });
}

template <class Family>
void add_tests_of_keys(counted_pointer& p) {
  for (const char* test : {"read", "hot", "insert", "remove"}) {
    p.tests.emplace_back(test, on_maps<Family>);
  }
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// counted_strings.hpp: the paper's tests on a real set of strings. (Tripp, Hyde, Grossman-Ponemon,
// ISMM 2018, section 4.4: several operations on one container)
//
//   strings   the threads together put all strings in, look up a stream of queries, and take all
//             out, each with its share of them
//   mixed     in a container of all strings, by that stream: 95 of 100 operations look one up, 4
//             put one in, 1 takes one out
// The stream is skewed, as the paper's is, and has six queries for each string (there 6.2).
// Keys and values are views of one text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "counted_maps.hpp"

namespace bench {

/// o.keys lines of the file o.strings, in an order that is always the same. Throws usage_error.
const std::vector<std::string_view>& strings_for(const counted_options& o);

/// Of these strings the first ones by far the most often: by Zipf's law, with 0.99.
const std::vector<std::string_view>& queries_for(const counted_options& o);

template <class Map>
counted_result all_strings(const counted_options& o, std::uint32_t threads) {
  const std::vector<std::string_view>& all = strings_for(o);
  const std::vector<std::string_view>& queries = queries_for(o);
  counted_result sum;
  double put = 0;
  double looked = 0;
  double taken = 0;
  while (sum.elapsed_s < o.seconds) {
    Map map;
    const auto phase = [&](double& seconds, const auto& keys, auto operation) {
      const counted_result r = one_pass(keys, threads, operation);
      seconds += r.elapsed_s;
      sum.operations += r.operations;
      sum.elapsed_s += r.elapsed_s;
      sum.thread_ns += r.thread_ns;
    };
    phase(put, all, [&](std::string_view s) { map.insert(s, s); });
    phase(looked, queries,
          [&](std::string_view s) { map.visit(s, [](auto& v) { use(v.data()); }); });
    phase(taken, all, [&](std::string_view s) { map.erase(s); });
  }
  sum.figures = {{"insert_s", put}, {"find_s", looked}, {"remove_s", taken}};
  return sum;
}

template <class Map>
counted_result mixed_strings(const counted_options& o, std::uint32_t threads) {
  const std::vector<std::string_view>& queries = queries_for(o);
  Map map;
  for (const std::string_view s : strings_for(o)) map.insert(s, s);
  return run_threads(o, threads, [&](std::uint32_t t) {
    return [&, random = random_source(t + 1)]() mutable {
      for (int i = 0; i < 128; ++i) {
        const std::string_view s = queries[random.below(queries.size())];
        const std::uint64_t kind = random.below(100);
        if (kind < 95) {
          map.visit(s, [](auto& v) { use(v.data()); });
        } else if (kind < 99) {
          map.insert(s, s);
        } else {
          map.erase(s);
        }
      }
      return std::uint64_t{128};
    };
  });
}

template <class Map>
counted_result on_string_map(const counted_options& o, std::uint32_t threads) {
  return o.test == "mixed" ? mixed_strings<Map>(o, threads) : all_strings<Map>(o, threads);
}

/// Runs o.test on o.structure.
template <class Family>
counted_result on_string_maps(const counted_options& o, std::uint32_t threads) {
  using key = std::string_view;
  return with_structure<key, Family>(o,
                                     [&]<class Map>() { return on_string_map<Map>(o, threads); });
}

/// All tests of a kind of pointers that containers are made of.
template <class Family>
void add_tests_of_maps(counted_pointer& p) {
  add_tests_of_keys<Family>(p);
  for (const char* test : {"strings", "mixed"}) p.tests.emplace_back(test, on_string_maps<Family>);
}

}  // namespace bench

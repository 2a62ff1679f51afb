// SPDX-License-Identifier: Apache-2.0
// counted.hpp: what `spolia-bench counted` can be told, and which pointers it compares.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "options.hpp"

namespace bench {

struct counted_options {
  option_names given;
  std::string test = "contention";
  std::vector<std::string> pointers;  ///< empty: all that have the test
  std::vector<std::uint32_t> threads = {1, 2};
  std::string structure = "bst";  ///< of the tests of containers
  std::uint64_t keys = 2000;      ///< in it; of destroy: nodes of each thread's tree
  std::string strings = "/usr/share/dict/polish";  ///< of strings and mixed: one a line
  double seconds = 0.2;
  std::uint32_t trials = 3;
  std::uint32_t order = 0;  ///< in which what is measured in turn comes: in_order
  bool paper_size = false;  ///< keys and threads as the paper has them, unless they are given
};

struct counted_result {
  std::uint64_t operations = 0;
  double elapsed_s = 0;
  double thread_ns = 0;                               ///< summed over the threads
  nlohmann::json figures = nlohmann::json::object();  ///< what else the test has to say
};

/// One pointer of one library, and its tests by name.
struct counted_pointer {
  std::string name;
  std::string what;
  std::vector<std::pair<
      std::string, std::function<counted_result(const counted_options&, std::uint32_t threads)>>>
      tests;
};

/// Ours put themselves here before main, and so do the rivals'.
std::vector<counted_pointer>& counted_pointers();

/// One record a trial; the pointers take turns. Throws usage_error.
void measure_counted(const counted_options&, const std::function<void(nlohmann::json)>& write);

}  // namespace bench

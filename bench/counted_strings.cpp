// SPDX-License-Identifier: Apache-2.0
#include "counted_strings.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <string>

#include "options.hpp"
#include "zipf.hpp"

namespace bench {

const std::vector<std::string_view>& strings_for(const counted_options& o) {
  static std::string text;
  static std::vector<std::string_view> all;
  if (!all.empty()) return all;  // the options are the same throughout a run
  std::ifstream in(o.strings, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(in), {});
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.emplace_back(text.data() + at, end - at);
    at = end + 1;
  }
  if (lines.size() < o.keys) {
    throw usage_error(
        fmt::format("{} has {} strings, and --keys asks for {}", o.strings, lines.size(), o.keys));
  }
  const std::vector<std::uint64_t> order = shuffled(lines.size());
  for (std::uint64_t i = 0; i < o.keys; ++i) all.push_back(lines[order[i]]);
  return all;
}

const std::vector<std::string_view>& queries_for(const counted_options& o) {
  static std::vector<std::string_view> stream;
  if (!stream.empty()) return stream;
  const std::vector<std::string_view>& all = strings_for(o);
  const zipf ranks(all.size(), 0.99);
  random_source random(11);
  constexpr std::size_t for_each_string = 6;
  stream.reserve(for_each_string * all.size());
  for (std::size_t i = 0; i < for_each_string * all.size(); ++i) {
    stream.push_back(all[ranks.draw(random)]);  // their order is by chance
  }
  return stream;
}

}  // namespace bench

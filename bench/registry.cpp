// SPDX-License-Identifier: Apache-2.0
#include "registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace bench {
namespace {

void known(const char* option, const std::string& word, std::string cell::* field) {
  std::set<std::string> words;
  for (const cell& c : cells()) words.insert(c.*field);
  if (words.contains(word)) return;
  throw usage_error(
      fmt::format("--{} {}: unknown; there are {}", option, word, fmt::join(words, ", ")));
}

}  // namespace

std::vector<cell>& cells() {
  static std::vector<cell> all;
  return all;
}

const cell& find(const set_options& o) {
  known("structure", o.structure, &cell::structure);
  known("scheme", o.scheme, &cell::scheme);
  known("release", o.release, &cell::release);
  std::set<std::string> able;
  for (const cell& c : cells()) {
    if (c.structure == o.structure && c.supported) able.insert(c.scheme);
    if (c.structure != o.structure || c.scheme != o.scheme || c.release != o.release) continue;
    if (c.supported) return c;
  }
  throw usage_error(fmt::format("--scheme {} cannot protect --structure {}; these can: {}",
                                o.scheme, o.structure, fmt::join(able, ", ")));
}

}  // namespace bench

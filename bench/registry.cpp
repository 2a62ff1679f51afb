// SPDX-License-Identifier: Apache-2.0
#include "registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace bench {
namespace {

using rival_key = std::pair<std::string, std::string>;

std::map<rival_key, runner>& rival_runners() {
  static std::map<rival_key, runner> all;
  return all;
}

const rival* find_rival(const std::string& structure) {
  const auto& all = rivals();
  const auto at = std::ranges::find(all, structure, &rival::structure);
  return at == all.end() ? nullptr : &*at;
}

void known(const char* option, const std::string& word, std::string cell::* field) {
  std::set<std::string> words;
  for (const cell& c : cells()) words.insert(c.*field);
  if (words.contains(word)) return;
  std::string others;
  if (field == &cell::structure) {
    std::set<std::string> names;
    for (const rival& r : rivals()) names.insert(r.structure);
    others = fmt::format("; and of other libraries {}", fmt::join(names, ", "));
  }
  throw usage_error(fmt::format("--{} {}: unknown; there are {}{}", option, word,
                                fmt::join(words, ", "), others));
}

/// A rival's scheme with one of our structures deserves a better answer than "unknown".
void not_of_a_rival(const set_options& o) {
  std::set<std::string> with;
  for (const rival& r : rivals()) {
    if (std::ranges::find(r.schemes, o.scheme) != r.schemes.end()) with.insert(r.structure);
  }
  if (with.empty()) return;
  throw usage_error(fmt::format("--scheme {} is another library's and goes with --structure {}",
                                o.scheme, fmt::join(with, ", ")));
}

/// As large as in the paper. (Kim, Brown, Singh, PPoPP 2024, section 3; of DGT's tree appendix A)
void enlarge(set_options& o) {
  if (o.structure.ends_with("list")) {
    throw usage_error(fmt::format(
        "--paper-size with --structure {}: the paper has trees, and a list of so many keys is "
        "too slow to measure",
        o.structure));
  }
  if (!o.given.contains("--keys")) o.keys = o.structure == "external_bst" ? 2000000 : 20000000;
  if (!o.given.contains("--threads")) o.threads = 192;
}

runner settle_own(set_options& o) {
  if (o.scheme.empty()) o.scheme = "token";
  if (o.release.empty()) o.release = "amortized";
  known("structure", o.structure, &cell::structure);
  not_of_a_rival(o);
  known("scheme", o.scheme, &cell::scheme);
  known("release", o.release, &cell::release);
  std::set<std::string> able;
  for (const cell& c : cells()) {
    if (c.structure == o.structure && c.supported) able.insert(c.scheme);
    if (c.structure != o.structure || c.scheme != o.scheme || c.release != o.release) continue;
    if (c.supported && c.run == nullptr) {
      throw usage_error(
          fmt::format("--structure {} --scheme {}: this program was built without "
                      "it, to save time; `./dev bench` builds all",
                      o.structure, o.scheme));
    }
    if (c.supported) {
      if (o.batch != 0 && !c.info->reclaims) {
        throw usage_error(
            fmt::format("--batch with --scheme {}: it frees nothing; leave it out", o.scheme));
      }
      return c.run;
    }
  }
  throw usage_error(fmt::format("--scheme {} cannot protect --structure {}; these can: {}",
                                o.scheme, o.structure, fmt::join(able, ", ")));
}

runner settle_rival(const rival& r, set_options& o) {
  const library& from = library_of(r);
  if (!from.built()) {
    throw usage_error(
        fmt::format("--structure {}: this program was built without {}; install {} "
                    "and configure it again",
                    r.structure, from.name, from.package));
  }
  if (o.scheme.empty()) o.scheme = r.schemes.front();
  if (o.release.empty()) o.release = own_release;
  if (std::ranges::find(r.schemes, o.scheme) == r.schemes.end()) {
    throw usage_error(fmt::format("--scheme {} cannot protect --structure {}; these can: {}",
                                  o.scheme, r.structure, fmt::join(r.schemes, ", ")));
  }
  const auto refuse = [&](const char* option, const char* why) {
    throw usage_error(fmt::format("{} with --structure {}: {}", option, r.structure, why));
  };
  if (o.release != own_release) refuse("--release", "it frees in its own way; leave it out");
  if (o.batch != 0) refuse("--batch", "it sizes its batches itself, or has none");
  if (o.turn_us) refuse("--turn-us", "only Spolia's domains make threads yield");
  if (o.given.contains("--time-frees")) refuse("--time-frees", "only Spolia's domains time pauses");
  if (o.count) refuse("--count", "only Spolia's domains count calls of free");
  if (!o.trace.empty()) refuse("--trace", "only Spolia's structures write traces");
  if (o.stall && !r.stalls) refuse("--stall", "no thread could go on beside one that reads");
  return rival_runners().at({r.structure, o.scheme});
}

}  // namespace

std::vector<cell>& cells() {
  static std::vector<cell> all;
  return all;
}

bool add_rival(const char* structure, const char* scheme, runner run) {
  return rival_runners().emplace(rival_key(structure, scheme), run).second;
}

const library& library_of(const rival& r) {
  return *std::ranges::find(libraries(), r.library, &library::name);
}

runner settle(set_options& o) {
  if (o.paper_size) enlarge(o);
  const rival* const other = find_rival(o.structure);
  return other == nullptr ? settle_own(o) : settle_rival(*other, o);
}

}  // namespace bench

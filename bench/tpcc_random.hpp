// SPDX-License-Identifier: Apache-2.0
// tpcc_random.hpp: random values as TPC-C wants them (clauses 2.1.5, 2.1.6, 4.3.2).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "random.hpp"
#include "tpcc_tables.hpp"

namespace bench {

/// The constants C of NURand: one for the time of a run, and another one for last names while the
/// tables are filled, as far away as clause 2.1.6.1 wants it.
struct tpcc_constants {
  explicit tpcc_constants(std::uint64_t seed) {
    random_source from(seed ^ 0x5443'2d43'5052'4f43ULL);
    last_load = static_cast<std::int64_t>(from.below(256));
    do {
      last_run = static_cast<std::int64_t>(from.below(256));
    } while (!far_enough(last_run - last_load));
    customer = static_cast<std::int64_t>(from.below(1024));
    item = static_cast<std::int64_t>(from.below(8192));
  }
  static constexpr bool far_enough(std::int64_t delta) {
    const std::int64_t d = delta < 0 ? -delta : delta;
    return d >= 65 && d <= 119 && d != 96 && d != 112;
  }
  std::int64_t last_load = 0, last_run = 0, customer = 0, item = 0;
};

class tpcc_random {
 public:
  tpcc_random(std::uint64_t seed, const tpcc_constants& c, const tpcc_scale& scale)
      : from_(seed), c_(c), scale_(scale) {}

  /// From `low` to `high`, both included.
  std::int64_t uniform(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(from_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool percent(std::int64_t share) { return uniform(1, 100) <= share; }
  /// Clause 2.1.6: not uniform.
  std::int64_t nurand(std::int64_t a, std::int64_t low, std::int64_t high, std::int64_t c) {
    return (((uniform(0, a) | uniform(low, high)) + c) % (high - low + 1)) + low;
  }
  std::int64_t customer() { return nurand(1023, 1, scale_.customers, c_.customer); }
  std::int64_t item() { return nurand(8191, 1, scale_.items, c_.item); }
  std::int64_t name_to_load() { return nurand(255, 0, scale_.names() - 1, c_.last_load); }
  std::int64_t name_to_ask() { return nurand(255, 0, scale_.names() - 1, c_.last_run); }
  /// Another one than `home`, if there is.
  std::int64_t other_warehouse(std::int64_t home) {
    if (scale_.warehouses == 1) return home;
    const std::int64_t w = uniform(1, scale_.warehouses - 1);
    return w < home ? w : w + 1;
  }

  /// Letters and digits, from `low` to `high` of them; good until the same thread asks anew eight
  /// times.
  std::string_view letters(std::int64_t low, std::int64_t high) {
    return fill(low, high, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
  }
  std::string_view digits(std::int64_t count) { return fill(count, count, "0123456789"); }
  /// As letters(), one in ten with ORIGINAL in it.
  std::string_view data(std::int64_t low, std::int64_t high) {
    std::string& made = next(low, high, "abcdefghijklmnopqrstuvwxyz");
    if (percent(10)) {
      constexpr std::string_view word = "ORIGINAL";
      const auto last = static_cast<std::int64_t>(made.size() - word.size());
      made.replace(static_cast<std::size_t>(uniform(0, last)), word.size(), word);
    }
    return made;
  }
  std::string_view zip() {
    std::string& made = next(4, 4, "0123456789");
    made += "11111";
    return made;
  }

 private:
  std::string& next(std::int64_t low, std::int64_t high, std::string_view alphabet) {
    std::string& s = made_[at_++ % made_.size()];
    s.resize(static_cast<std::size_t>(uniform(low, high)));
    for (char& c : s) c = alphabet[from_.below(alphabet.size())];
    return s;
  }
  std::string_view fill(std::int64_t low, std::int64_t high, std::string_view alphabet) {
    return next(low, high, alphabet);
  }

  random_source from_;
  const tpcc_constants& c_;
  const tpcc_scale& scale_;
  std::array<std::string, 16> made_;
  std::size_t at_ = 0;
};

/// Clause 4.3.2.3: three syllables, of the digits of a number below 1000.
inline std::string tpcc_last_name(std::int64_t number) {
  static constexpr std::array<std::string_view, 10> syllables = {
      "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"};
  const auto digit = [&](std::int64_t of) { return syllables[static_cast<std::size_t>(of % 10)]; };
  std::string made(digit(number / 100));
  made += digit(number / 10);
  made += digit(number);
  return made;
}

}  // namespace bench

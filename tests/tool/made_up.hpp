// SPDX-License-Identifier: Apache-2.0
// made_up.hpp: tables and rows out of a seed, and files in memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/db.hpp>

#include "bytes.hpp"
#include "csv.hpp"
#include "dump.hpp"
#include "json_lines.hpp"
#include "load.hpp"
#include "text_input.hpp"

namespace tool_test {

namespace db = spolia::db;

/// Gives its text in pieces of a few bytes, to meet the ends of buffers.
class text_source final : public tool::byte_source {
 public:
  explicit text_source(std::string_view text, std::size_t piece = 7) : rest_(text), piece_(piece) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t n = std::min({size, piece_, rest_.size()});
    if (n != 0) std::memcpy(to, rest_.data(), n);
    rest_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view rest_;
  std::size_t piece_;
};

class text_sink final : public tool::byte_sink {
 public:
  void write(std::string_view bytes) override { text += bytes; }
  std::string text;
};

class maker {
 public:
  explicit maker(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool chance(unsigned percent) { return below(100) < percent; }

  std::string text(std::size_t most) {
    static constexpr std::array<std::string_view, 12> pieces = {"a",
                                                                "\"",
                                                                ",",
                                                                "\r\n",
                                                                "\n",
                                                                "\\",
                                                                " ",
                                                                "null",
                                                                "\xc3\xa9",
                                                                "\xff",
                                                                std::string_view("\0", 1),
                                                                "\xf0\x9f\x90\x8c"};
    std::string s;
    const std::size_t wanted = below(most + 1);
    while (s.size() < wanted) s += pieces[below(pieces.size())];
    s.resize(std::min(s.size(), most));
    return s;
  }
  double real() {
    static constexpr std::array<double, 9> known = {0.0,
                                                    0.1,
                                                    -1.0 / 3,
                                                    std::numeric_limits<double>::infinity(),
                                                    -std::numeric_limits<double>::infinity(),
                                                    std::numeric_limits<double>::quiet_NaN(),
                                                    std::numeric_limits<double>::denorm_min(),
                                                    std::numeric_limits<double>::max(),
                                                    9007199254740993.0};
    if (chance(50)) return known[below(known.size())];
    const auto any = std::bit_cast<double>(random_());
    return any != any ? 0.5 : any;
  }
  std::int64_t number() {
    if (chance(50)) return static_cast<std::int64_t>(below(100)) - 50;
    return static_cast<std::int64_t>(random_() >> below(64));
  }

  std::int64_t any() { return static_cast<std::int64_t>(random_()); }

  db::table_spec table(const std::string& name) {
    db::table_spec s{.name = name, .columns = {}};
    s.primary = chance(50) ? db::index_kind::ordered : db::index_kind::hash;
    const std::uint64_t keys = 1 + below(2);
    const std::uint64_t count = keys + below(7);
    for (std::uint64_t i = 0; i < count; ++i) {
      static constexpr std::array<db::column_type, 9> types = {
          db::int64,      db::float64,   db::boolean, db::text(24), db::decimal(0),
          db::decimal(5), db::timestamp, db::text(),  db::blob()};
      const std::uint64_t choices = types.size() - (i < keys ? 2 : 0);  // two are for no key
      db::column_spec c{.name = std::string("c").append(std::to_string(i)) +
                                (chance(30) ? " \"x\",\n\xc3\xa9" : ""),
                        .type = types[below(choices)]};
      if (i < keys) {
        c.role = db::primary_key;
      } else if (chance(50)) {
        c.role = db::nullable;
      }
      s.columns.push_back(c);
    }
    return s;
  }

  /// A row for the table. The texts live until the next call.
  std::vector<db::value> row(const db::table& t) {
    std::vector<db::value> v;
    texts_.assign(t.layout().columns().size(), {});
    for (const db::column_layout& c : t.layout().columns()) {
      if (c.role == db::nullable && chance(30)) {
        v.emplace_back(nullptr);
      } else if (c.type.base == db::base_type::int64) {
        v.emplace_back(number());
      } else if (c.type.base == db::base_type::float64) {
        v.emplace_back(real());
      } else if (c.type.base == db::base_type::decimal) {
        v.emplace_back(db::decimal_number(number(), c.type.digits));
      } else if (c.type.base == db::base_type::timestamp) {
        v.emplace_back(db::instant_at(chance(30) ? number() % 100000 * 1000000 : any()));
      } else if (c.type.base == db::base_type::boolean) {
        v.emplace_back(chance(50));
      } else {
        texts_[c.number] = text(db::lies_apart(c.type.base) ? 60 : c.type.bytes);
        const std::string_view bytes = texts_[c.number];
        v.emplace_back(c.type.base == db::base_type::blob ? db::value(db::blob_view(bytes))
                                                          : db::value(bytes));
      }
    }
    return v;
  }

  /// Up to so many rows: those whose keys meet are left out.
  void fill(db::database& base, db::table& t, std::uint64_t rows) {
    const db::status s = base.transact([&](db::transaction& tx) -> db::status {
      for (std::uint64_t i = 0; i < rows; ++i) {
        const auto v = row(t);
        const db::status one = tx.insert(t, db::values(v));
        if (!one && one != db::outcome::duplicate_key) return one;
      }
      return {};
    });
    EXPECT_TRUE(s) << s.message();
  }

 private:
  std::mt19937_64 random_;
  std::vector<std::string> texts_;
};

inline void ignore_rows(std::uint64_t) {}

inline tool::content content(const db::database& base, const db::table& t) {
  return tool::content_of(base.snapshot(), t, ignore_rows);
}

inline std::string dumped(const db::database& base, const db::table& t, tool::text_format format) {
  text_sink to;
  tool::dump_table(base.snapshot(), t, format, to, 0, ignore_rows);
  return to.text;
}

/// Loads a table's file out of memory; says what went wrong, or nothing.
inline std::string load(db::database& base, db::table& t, std::string_view text,
                        tool::text_format format, const tool::load_options& o,
                        tool::load_counts& done) {
  text_source from(text);
  tool::text_input lines(from, "in");
  const auto tell = [](const tool::row_source&) {};
  tool::load_notes none(base, tool::unfinished::keep);
  try {
    if (format == tool::text_format::csv) {
      tool::csv_source rows(from, "in", t);
      tool::load_rows(base, rows, o, none, done, tell);
    } else {
      tool::json_source rows(lines, t);
      tool::load_rows(base, rows, o, none, done, tell);
    }
  } catch (const tool::failure& e) {
    return e.what();
  }
  return {};
}

}  // namespace tool_test

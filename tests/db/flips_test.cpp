// SPDX-License-Identifier: Apache-2.0
// Bits flipped at random, one or several, in any file of a database: what opens, attached or not,
// is the state after some commit, or nothing opens, and salvage invents nothing. Bits that were
// flipped before the checksums were made cannot be found: they must do no harm to the program.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/db/salvage.hpp>

#include "db/durable.hpp"
#include "db/salvaged.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia::db;
using namespace spolia::test;

/// Two segments, a checkpoint, and two segments more; all files of a directory that is in use.
class flipped_bits : public testing::Test {
 protected:
  static constexpr std::int64_t in_checkpoint = 30;
  static constexpr std::int64_t last = 60;

  flipped_bits() {
    for (const std::int64_t first : {1, 20}) commits(first, first == 1 ? 19 : in_checkpoint);
    const disk before = whole_->copy();
    database::open(place, over(whole_)).checkpoint();
    for (const std::int64_t first : {31, 45}) commits(first, first == 31 ? 44 : last);
    // An older checkpoint and the log before it may still be there.
    older_ = whole_->copy();
    for (const std::string& name : before->names()) {
      if (!older_->has(name)) older_->put(name, before->content(name));
    }
  }
  void commits(std::int64_t first, std::int64_t to) const {
    options o = over(whole_);
    database base = database::open(place, o);
    table& ledger = base.tables().empty() ? make_ledger(base) : base.find_table("ledger");
    for (std::int64_t n = first; n <= to; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  }

  /// Flips one to six bits in up to three files. Returns which.
  std::string flip(const disk& d) {
    std::string what;
    const std::vector<std::string> names = d->names();
    for (std::uint64_t n = random_() % 3 + 1; n > 0; --n) {
      const std::string& name = names[random_() % names.size()];
      bytes& all = d->content(name);
      if (all.empty()) continue;
      for (std::uint64_t m = random_() % 2 + 1; m > 0; --m) {
        // Headers are met often, too.
        const std::size_t at =
            random_() % (random_() % 4 == 0 ? std::min<std::size_t>(all.size(), 128) : all.size());
        all[at] ^= static_cast<std::byte>(1U << random_() % 8);
        what += name + " at " + std::to_string(at) + "; ";
      }
    }
    return what;
  }
  /// Flips bits in bodies of records and blocks whose checksums are right all the same.
  std::string flip_before_sealing(const disk& d) {
    std::string what;
    for (const std::string& name : d->names()) {
      const bool log = name.find("/log-") != std::string::npos;
      if (!log && name.find("/checkpoint-") == std::string::npos) continue;
      std::size_t number = 0;
      seal_again(d->content(name), log, [&](std::span<std::byte> body) {
        ++number;
        if (body.empty() || random_() % 12 != 0) return;
        for (std::uint64_t m = random_() % 3 + 1; m > 0; --m) {
          const std::size_t at = random_() % body.size();
          body[at] ^= static_cast<std::byte>(1U << random_() % 8);
          what += name + ", " + std::to_string(number) + " at " + std::to_string(at) + "; ";
        }
      });
    }
    return what;
  }

  const disk whole_ = new_disk();
  disk older_;
  std::mt19937_64 random_{20261128};
};

/// The commits that an opening finds; -1: it is refused.
std::int64_t found_by(const disk& files, bool attach) {
  options o = over(files);
  o.read_only = o.attach = attach;
  try {
    database base = database::open(place, o);
    return commits_in(base).value_or(-2);
  } catch (const storage_error& e) {
    EXPECT_FALSE(e.problem().empty());
    return -1;
  }
}

/// Each row has values of one commit, or of two, and none that no commit has written.
void expect_rows_of_commits(const ledger_rows& rows, std::int64_t last) {
  for (const auto& [id, row] : rows) {
    ASSERT_GE(id, 0);
    ASSERT_LE(id, last);
    if (id == 0) continue;
    ledger_model m;
    m.commit(id);
    ASSERT_EQ(row, m.rows[id]) << id;
  }
}

TEST_F(flipped_bits, are_found_or_change_nothing) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  int opened = 0;
  int refused = 0;
  for (int i = 0; i < tries(600); ++i) {
    const disk damaged = (i % 2 == 0 ? whole_ : older_)->copy();
    SCOPED_TRACE(flip(damaged));
    const std::int64_t attached = found_by(damaged->copy(), true);
    const std::int64_t found = found_by(damaged->copy(), false);
    ASSERT_GE(attached, -1);
    ASSERT_GE(found, -1);
    ASSERT_EQ(found, attached);
    ++(found == -1 ? refused : opened);
    try {
      const salvaged got = salvage_all(damaged);
      ASSERT_NO_FATAL_FAILURE(expect_rows_of_commits(got.rows, last)) << in_words(got.report);
      if (found >= 0) {
        ASSERT_GE(got.report.sequence, static_cast<std::uint64_t>(found));
      }
    } catch (const storage_error& e) {
      // The format is one digit of SPOLIA, which no checksum proves.
      ASSERT_NE(e.problem().find("newer"), std::string::npos) << e.what();
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

/// All rows and texts are looked at, by each index.
void look_at_all(const database& base) {
  const reader now = base.snapshot();
  std::string text;
  for (const table* t : base.tables()) {
    const auto show = [&](const row& r) {
      append_json_row(text, t->layout(), [&](const column_layout& c) { return r.get(c); });
      text.clear();
    };
    now.for_each(*t, show);
    for (const index_spec& i : t->spec().indexes) {
      if (i.kind == index_kind::ordered) now.scan(t->index(i.name), {}, {}, show);
    }
  }
}

TEST_F(flipped_bits, that_no_checksum_shows_do_no_harm) {
  int opened = 0;
  for (int i = 0; i < tries(400); ++i) {
    const disk damaged = (i % 2 == 0 ? whole_ : older_)->copy();
    SCOPED_TRACE(flip_before_sealing(damaged));
    try {
      options o = over(damaged->copy());
      o.read_only = o.attach = true;
      look_at_all(database::open(place, o));
    } catch (const storage_error& e) {
      EXPECT_FALSE(e.problem().empty());
    }
    try {
      const disk again = damaged->copy();
      {
        database base = database::open(place, over(again));
        look_at_all(base);
        base.create_table({.name = "new", .columns = {{"k", int64, primary_key}}});
        base.checkpoint();
      }
      look_at_all(database::open(place, over(again)));
      ++opened;
    } catch (const storage_error& e) {
      EXPECT_FALSE(e.problem().empty());
    }
    salvage_options o = into(damaged);
    salvage(place, "new", o);
    look_at_all(database::open("new", over(damaged)));
  }
  EXPECT_GT(opened, 0);
}

}  // namespace

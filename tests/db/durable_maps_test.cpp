// SPDX-License-Identifier: Apache-2.0
// Whatever is changed, in one directory that is closed, killed, or loses its power again and again:
// what is there afterwards, in the table, its indexes and its copies, is what plain maps say.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "db/against_maps.hpp"
#include "db/durable.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::content;
using spolia::test::items_like_maps;
using spolia::test::key;
using spolia::test::over;
using spolia::test::table_content;

class durable_maps : public testing::TestWithParam<int> {
 protected:
  void open(const char* where) {
    now.emplace(database::open(where, over(files)), seeds());
    now->look(now->base.snapshot(), committed);
  }
  /// As the process ends: well, by a kill, or with the machine.
  void end_and_open() {
    const std::uint64_t how = seeds() % 3;
    if (how == 0) now.reset();
    const spolia::test::disk left = how == 1 ? files->copy() : files->after_power_loss(seeds);
    now.reset();
    if (how != 0) files = left;
    open("base");
  }
  void copy_and_look() {
    now->base.backup("copy");
    items_like_maps copy(database::open("copy", read_only()), seeds());
    copy.look(copy.base.snapshot(), committed);
  }
  options read_only() const {
    options o = over(files);
    o.read_only = true;
    return o;
  }
  status change(transaction& tx, table_content& view) {
    items_like_maps& t = *now;
    const auto [a, b] = t.any_key();
    const content c = t.any_content();
    const auto there = view.find(key(a, b));
    const bool taken = std::any_of(view.begin(), view.end(), [&](const auto& entry) {
      return entry.second.one == c.one && entry.first != key(a, b);
    });
    const value maybe = c.maybe ? value(*c.maybe) : value();
    if (there == view.end()) {
      const status s = tx.insert(t.items, {a, b, c.one, c.number, c.word, maybe, c.free});
      EXPECT_EQ(s, taken ? outcome::duplicate_key : outcome::ok);
      if (s) view[key(a, b)] = c;
    } else if (t.random.chance(1, 3)) {
      EXPECT_TRUE(tx.erase(t.items, {a, b}));
      view.erase(there);
    } else {
      EXPECT_TRUE(
          tx.update(t.items, {a, b}, {{"maybe", maybe}, {"word", c.word}, {"free", c.free}}));
      there->second.maybe = c.maybe;
      there->second.word = c.word;
      there->second.free = c.free;
    }
    return outcome::ok;
  }
  void commit_some() {
    table_content view = committed;
    transaction tx = now->base.begin();
    const auto here = tx.savepoint();
    for (std::uint64_t n = now->random.below(5); n != 0; --n) ASSERT_TRUE(change(tx, view));
    if (now->random.chance(1, 8)) {
      ASSERT_TRUE(tx.rollback_to(here));
      view = committed;
    }
    if (now->random.chance(1, 8)) return;
    ASSERT_TRUE(tx.commit());
    committed = view;
  }
  void change_catalogue() {
    const auto& all = now->items.spec().indexes;
    const bool there =
        std::any_of(all.begin(), all.end(), [](const index_spec& i) { return i.name == "more"; });
    if (there) {
      ASSERT_TRUE(now->base.drop_index(now->items, "more"));
    } else {
      ASSERT_TRUE(now->base.create_index(now->items, {.name = "more", .columns = {"word", "one"}}));
    }
  }

  std::mt19937_64 seeds{spolia::test::seed_for(static_cast<std::uint64_t>(GetParam()))};
  spolia::test::disk files = spolia::test::new_disk();
  std::optional<items_like_maps> now;
  table_content committed;
};
INSTANTIATE_TEST_SUITE_P(rounds, durable_maps, testing::Range(0, 20));

TEST_P(durable_maps, are_there_again) {
  open("base");
  for (int i = 0; i < spolia::test::tries(400); ++i) {
    commit_some();
    if (now->random.chance(1, 40)) now->base.checkpoint();
    if (now->random.chance(1, 40)) change_catalogue();
    if (now->random.chance(1, 40)) copy_and_look();
    if (now->random.chance(1, 20)) end_and_open();
    if (HasFailure()) FAIL() << "step " << i;
  }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Nothing that ended after a serializable transaction drew its time is collected before it has
// validated. A transaction is stopped amid its commit, wherever it allocates: there another thread
// makes the key that the transaction did not find, and at a later such place takes it away again.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <spolia/db.hpp>

#include "db/durable.hpp"
#include "db/storages.hpp"
#include "support/faults.hpp"

namespace {

using namespace spolia;
using db::outcome;
using db::reader;
using db::status;
using db::transaction;

/// Two stops of one commit: where the key comes, and where it goes.
struct stops {
  int come = 0;
  int go = 0;
};

class one_commit {
 public:
  explicit one_commit(db::version_storage versions) : base_(open(versions)) {
    std::vector<db::value> row(3 + texts, nullptr);
    row[0] = 1;
    row[1] = 10;
    row[2] = 0;
    commit([&](transaction& tx) { return tx.insert(wide_, row); });
    commit([&](transaction& tx) { return tx.insert(keys_, {1, 0, nullptr}); });
    // Keeps the entry of the row's former value.
    old_.reset(new reader(base_.snapshot()));
    commit([&](transaction& tx) { return tx.update(wide_, {1}, {{"v", 11}}); });
  }

  /// Looks for the key in vain, and commits with these stops.
  void run(const stops& at) {
    transaction tx = base_.begin({.isolation = db::isolation::serializable});
    // It validates this first. The row is no reason to give up, but is looked at since it has
    // changed meanwhile: for that there has to be room.
    tx.scan(wide_.index("by_v"), {10}, {10}, [](const db::row&) { FAIL(); });
    ASSERT_FALSE(tx.find(keys_, {missing}));
    ASSERT_TRUE(tx.update(keys_, {1}, {{"v", 1}, {"text", std::string(900, 'x')}}));
    const test::before_allocations stop([&] {
      if (++stopped_ == at.come) elsewhere([&] { come(); });
      if (stopped_ == at.go) elsewhere([&] { go(); });
    });
    const bool committed = static_cast<bool>(tx.commit());
    if (after_) was_before_ = after_->find(keys_, {1})->get(v_) == 1;
    EXPECT_LE(was_before_, committed);
  }
  [[nodiscard]] int stopped() const noexcept { return stopped_; }
  /// Whether the transaction has committed before the key went.
  [[nodiscard]] bool was_before() const noexcept { return was_before_; }
  /// Whether it drew a time while the key was there. It may have drawn another one since.
  [[nodiscard]] bool drew_between() const noexcept { return come_ < go_; }

 private:
  static constexpr std::int64_t missing = 7;
  static constexpr int texts = 20;

  template <class F>
  void commit(F&& f) {
    ASSERT_TRUE(base_.transact(f));
  }
  template <class F>
  static void elsewhere(F&& f) {
    std::thread(f).join();
  }
  [[nodiscard]] std::uint64_t now() const { return base_.snapshot().timestamp(); }
  void come() {
    commit([&](transaction& tx) { return tx.update(wide_, {1}, {{"n", 1}}); });
    commit([&](transaction& tx) { return tx.insert(keys_, {missing, 0, nullptr}); });
    come_ = now();
  }
  void go() {
    go_ = now();
    commit([&](transaction& tx) { return tx.erase(keys_, {missing}); });
    after_.reset(new reader(base_.snapshot()));
    base_.collect();
  }
  /// With a log: room for its record is made between the two times at which a commit validates.
  static db::database open(db::version_storage versions) {
    db::options o = test::over(test::new_disk());
    o.durability = db::durability_level::async;
    // So long that nothing is written meanwhile. A stop amid a write would let the log's thread
    // wait for this one, and memory that comes back from a write would change where the stops are.
    o.loss_window = std::chrono::hours(1);
    o.versions = versions;
    return db::database::open(test::place, o);
  }
  /// So wide that no room is left over for a row.
  static db::table_spec wide() {
    db::table_spec spec{
        .name = "wide",
        .columns = {{"id", db::int64, db::primary_key}, {"v", db::int64}, {"n", db::int64}},
        .indexes = {{"by_v", {"v"}}}};
    for (int n = 0; n < texts; ++n) {
      spec.columns.push_back({"t" + std::to_string(n), db::text(1000), db::nullable});
    }
    return spec;
  }

  db::database base_;
  db::table& wide_ = base_.create_table(wide());
  db::table& keys_ = base_.create_table({.name = "keys",
                                         .columns = {{"id", db::int64, db::primary_key},
                                                     {"v", db::int64},
                                                     {"text", db::text(900), db::nullable}}});
  const db::column<std::int64_t> v_ = keys_.column<std::int64_t>("v");
  std::unique_ptr<reader> old_;
  std::unique_ptr<reader> after_;
  int stopped_ = 0;
  bool was_before_ = false;
  std::uint64_t come_ = 0;
  std::uint64_t go_ = 0;
};

class validation_floor : public testing::TestWithParam<db::version_storage> {};
INSTANTIATE_TEST_SUITE_P(each, validation_floor, test::storages_that_collect(),
                         [](const auto& of) { return std::string(db::info_of(of.param).name); });

TEST_P(validation_floor, keeps_a_key_that_has_come_and_gone) {
  int between = 0;
  for (stops at{1, 1};; ++at.go) {
    one_commit t(GetParam());
    t.run(at);
    if (t.stopped() < at.come) break;
    if (t.stopped() < at.go) {
      ++at.come;
      at.go = at.come - 1;
      continue;
    }
    if (!t.drew_between()) continue;
    ++between;
    EXPECT_FALSE(t.was_before()) << "stops " << at.come << " and " << at.go
                                 << ": the key was there at its time";
  }
  EXPECT_GT(between, 0) << "nothing was tried";
}

}  // namespace

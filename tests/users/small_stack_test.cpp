// SPDX-License-Identifier: Apache-2.0
// A thread with a stack of 32 KiB can do everything (docs/standard.md): whatever takes more ends
// the program here. In programs that are not optimised, which take the most.

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <spolia/db.hpp>
#include <spolia/hazard_pointer.hpp>
#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/snapshot.hpp>

namespace {

constexpr std::size_t stack_bytes = 32U << 10U;

void on_a_small_stack(std::function<void()> work) {
  pthread_attr_t how;
  ASSERT_EQ(pthread_attr_init(&how), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&how, stack_bytes), 0);
  pthread_t thread{};
  const auto run = [](void* f) -> void* {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &how, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&how);
}

template <class Map>
void change(Map& m) {
  for (int i = 0; i < 1000; ++i) {
    m.insert(i, std::string(40, 'x'));
    m.insert_or_assign(i / 2, std::string(30, 'y'));
    (void)m.find(i);
    m.erase(i - 50);
  }
}
template <class Map>
void change_and_walk() {
  on_a_small_stack([] {
    const auto m = std::make_unique<Map>();
    change(*m);
    std::size_t n = 0;
    m->for_each([&](int, const std::string&) { ++n; });
    EXPECT_EQ(n, m->size_approx());
  });
}

TEST(small_stack, maps) {
  change_and_walk<spolia::abtree<int, std::string>>();
  change_and_walk<spolia::avl<int, std::string>>();
  change_and_walk<spolia::rlu_bst<int, std::string>>();
  change_and_walk<spolia::snapshot_tree<int, std::string>>();
}
TEST(small_stack, maps_over_counted_pointers) {
  on_a_small_stack([] { change(*std::make_unique<spolia::counted_btree<int, std::string>>()); });
  on_a_small_stack([] { change(*std::make_unique<spolia::counted_hash<int, std::string>>()); });
}

template <class Map>
void look_at_snapshots() {
  on_a_small_stack([] {
    const auto m = std::make_unique<Map>();
    change(*m);
    const spolia::snapshot s;
    std::size_t n = 0;
    for (const auto& pair : m->all(s)) n += pair.second.empty() ? 0 : 1;
    EXPECT_EQ(n, m->size(s));
    EXPECT_EQ(m->find_all(s, std::array<int, 40>{}).size(), 40U);
    spolia::changes batch;
    batch.insert(*m, 5000, std::string("new"));
    batch.erase(*m, 999);
    batch.commit();
    EXPECT_NE(m->account().current, 0U);
    m->collect();
    const spolia::lease then(std::chrono::minutes(1));
    EXPECT_TRUE(m->contains(then, 5000));
  });
}
TEST(small_stack, snapshots) {
  look_at_snapshots<spolia::snapshot_tree<int, std::string>>();
  look_at_snapshots<spolia::snapshot_hash<int, std::string>>();
}

struct link_of_a_chain {
  spolia::atomic_shared_ptr<link_of_a_chain> next;
};
TEST(small_stack, a_long_chain_of_counted_pointers_ends) {
  on_a_small_stack([] {
    spolia::atomic_shared_ptr<link_of_a_chain> first;
    for (int i = 0; i < 20000; ++i) {
      auto one = spolia::make_shared<link_of_a_chain>();
      one->next = first.load();
      first = std::move(one);
    }
    first = nullptr;
    while (!spolia::counted::drain()) continue;
  });
}

struct hazard_node : spolia::hazard_pointer_obj_base<hazard_node> {};
struct rcu_node : spolia::rcu_obj_base<rcu_node> {};
TEST(small_stack, standard_faces_and_domains) {
  on_a_small_stack([] {
    for (int i = 0; i < 5000; ++i) {
      (new hazard_node)->retire();
      (new rcu_node)->retire();
    }
    spolia::hazard_pointer_clean_up();
    spolia::rcu_barrier();
    const auto nodes = std::make_unique<spolia::domain<>>();
    nodes->drain();
    (void)nodes->stats();
  });
}

TEST(small_stack, a_table_that_had_many_names) {
  on_a_small_stack([] {
    namespace db = spolia::db;
    auto base = std::make_unique<db::database>(db::database::open());
    db::table& t =
        base->create_table({.name = "t", .columns = {{"k", db::int64, db::primary_key}}});
    for (int i = 0; i < 5000; ++i) {
      ASSERT_TRUE(base->rename_table(t, "t" + std::to_string(i)));
    }
  });
}

TEST(small_stack, store) {
  namespace db = spolia::db;
  const std::string at = testing::TempDir() + "small_stack";
  const std::string copy = at + "_copy";
  std::filesystem::remove_all(at);
  std::filesystem::remove_all(copy);
  std::unique_ptr<db::database> base;
  on_a_small_stack([&] { base = std::make_unique<db::database>(db::database::open(at)); });
  db::table* t = nullptr;
  on_a_small_stack([&] {
    t = &base->create_table({.name = "t",
                             .columns = {{"k", db::int64, db::primary_key},
                                         {"v", db::int64},
                                         {"s", db::text(32)},
                                         {"l", db::text()}},
                             .primary = db::index_kind::ordered,
                             .indexes = {{.name = "by_v", .columns = {"v"}}}});
  });
  on_a_small_stack([&] {
    const auto v = t->column<std::int64_t>("v");
    for (std::int64_t i = 0; i < 500; ++i) {
      EXPECT_TRUE(base->transact(
          [&](db::transaction& tx) -> db::status {
            if (db::status s = tx.insert(*t, {i, i, "short", "long"}); !s) return s;
            auto e = tx.edit(*t, {i});
            if (!e) return e.why();
            if (db::status s = e->set(v, -i); !s) return s;
            return i < 100 ? db::status(db::outcome::ok) : tx.erase(*t, {i - 100});
          },
          {.begin = {.isolation = db::isolation::serializable}}));
    }
  });
  on_a_small_stack([&] {
    const db::reader now = base->snapshot();
    std::size_t n = 0;
    now.scan(t->index("by_v"), {}, {}, [&](const db::row&) { ++n; });
    now.for_each(*t, [&](const db::row&) { ++n; });
    EXPECT_EQ(n, 200U);
    EXPECT_TRUE(now.query(*t).group_by("s").aggregate(db::count(), db::sum("v")).run());
  });
  on_a_small_stack([&] {
    EXPECT_TRUE(base->create_index(*t, {.name = "by_s", .columns = {"s"}}));
    base->checkpoint();
    base->backup(copy);
    base->collect();
    (void)base->stats();
    base.reset();
  });
  on_a_small_stack([&] { base = std::make_unique<db::database>(db::database::open(at)); });
  base.reset();
  std::filesystem::remove_all(at);
  std::filesystem::remove_all(copy);
}

}  // namespace

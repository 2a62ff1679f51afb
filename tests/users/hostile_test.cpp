// SPDX-License-Identifier: Apache-2.0
// Keys, values, nodes, functions and deleters of users that are hard on templates (hostile.hpp):
// every member function that is used with them compiles, and does what it does with others.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/hazard_pointer.hpp>
#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>
#include <spolia/version.hpp>

#include "users/hostile.hpp"

namespace {

using key = hostile::plain;
using value = hostile::final_plain;

constexpr int many = 200;
constexpr long sum_of_all = many * (many - 1) / 2;

/// What every map can do. Keys 0 to many-1 map to themselves afterwards.
template <class Map>
void fill_up(Map& m) {
  for (int i = 0; i < many; ++i) EXPECT_TRUE(m.insert(key(i), value(7)));
  const key first(0);
  const value seven(7);
  EXPECT_FALSE(m.insert(first, seven));
  for (int i = 0; i < many; ++i) EXPECT_FALSE(m.insert_or_assign(key(i), value(i)));
  EXPECT_FALSE(m.insert_or_assign(first, value(0)));
  EXPECT_TRUE(m.contains(first));
  EXPECT_EQ(m.find(key(9))->number, 9);
  long sum = 0;
  EXPECT_TRUE(m.visit(key(11), hostile::reader{std::addressof(sum)}));
  EXPECT_EQ(sum, 11);
  EXPECT_TRUE(m.insert(key(many), value(0)));
  EXPECT_TRUE(m.erase(key(many)));
  EXPECT_EQ(m.size_approx(), std::size_t{many});
  EXPECT_FALSE(m.empty_approx());
}
/// Those that can be walked through: the sums of keys and values.
template <class Map>
void walk_through(const Map& m) {
  long sum = 0;
  const hostile::reader all{std::addressof(sum)};
  m.for_each(all);
  EXPECT_EQ(sum, 2 * sum_of_all);
}
template <class Map>
void walk_in_order(const Map& m) {
  walk_through(m);
  long sum = 0;
  const hostile::reader some{std::addressof(sum)};
  m.range(key(10), key(13), some);
  EXPECT_EQ(sum, 2 * (10 + 11 + 12));
  sum = 0;
  m.range(spolia::after(key(10)), spolia::upto(key(13)), some);
  EXPECT_EQ(m.first()->first.number, 0);
  if constexpr (requires { m.last(); }) {
    m.range_down(spolia::after(key(10)), spolia::upto(key(13)), some);
    EXPECT_EQ(m.upper_bound(key(7))->second.number, 8);
    EXPECT_EQ(m.last_upto(key(7))->second.number, 7);
    sum /= 2;
  }
  EXPECT_EQ(sum, 2 * (11 + 12 + 13));
}
template <class Map>
void take_all_out(Map& m) {
  for (int i = 0; i < many; ++i) EXPECT_TRUE(m.erase(key(i)));
  EXPECT_FALSE(m.contains(key(0)));
  EXPECT_TRUE(m.empty_approx());
}

template <class Map>
void use_ordered(Map& m) {
  fill_up(m);
  walk_in_order(m);
  if constexpr (requires { m.audit(); }) {
    EXPECT_EQ(m.audit().wrong, "");
  }
  take_all_out(m);
}

TEST(hostile_types, abtree) {
  using map = spolia::abtree<key, value, spolia::domain<>, hostile::below>;
  map m;
  fill_up(m);
  walk_in_order(m);
  long sum = 0;
  const hostile::reader shown{std::addressof(sum)};
  m.range_down(key(10), key(13), shown);
  m.for_each_down(shown);
  EXPECT_EQ(sum, 2 * (10 + 11 + 12) + 2 * sum_of_all);
  EXPECT_EQ(m.audit().wrong, "");
  take_all_out(m);
}
TEST(hostile_types, avl) {
  spolia::avl<key, value, spolia::region_domain, hostile::below> m;
  use_ordered(m);
}
TEST(hostile_types, external_bst) {
  spolia::external_bst<key, value, spolia::domain<>, hostile::below> m;
  use_ordered(m);
}
TEST(hostile_types, list) {
  spolia::list<key, value, spolia::domain<>, hostile::below> m;
  use_ordered(m);
  key moved(3);
  EXPECT_TRUE(m.insert(std::move(moved), value(4)));
}
TEST(hostile_types, hashes_of_lists) {
  const auto use = [](auto&& m) {
    fill_up(m);
    walk_through(m);
    take_all_out(m);
    key moved(3);
    EXPECT_TRUE(m.insert(std::move(moved), value(4)));
  };
  use(spolia::michael_hash<key, value, spolia::domain<>, hostile::hash, hostile::below>(16));
  use(spolia::split_ordered_hash<key, value, spolia::domain<>, hostile::hash, hostile::below>());
}
TEST(hostile_types, rlu_maps) {
  spolia::rlu_list<key, value, spolia::rlu::domain, hostile::below> l;
  use_ordered(l);
  spolia::rlu_bst<key, value, spolia::rlu::domain, hostile::below> b;
  use_ordered(b);
  spolia::rlu_hash<key, value, spolia::rlu::domain, hostile::hash, hostile::below> h(16);
  fill_up(h);
  walk_through(h);
  take_all_out(h);
}

template <class Family>
void use_counted() {
  spolia::counted_bst<key, value, Family, hostile::below> b;
  fill_up(b);
  take_all_out(b);
  spolia::counted_btree<key, value, Family, hostile::below> t;
  fill_up(t);
  take_all_out(t);
  spolia::counted_hash<key, value, Family, hostile::hash> h;
  fill_up(h);
  take_all_out(h);
}
TEST(hostile_types, counted_maps) {
  use_counted<spolia::thin_family>();
  use_counted<spolia::shared_family>();
}

/// What is the same of the two maps with snapshots.
template <class Map>
void use_snapshots(Map& m) {
  fill_up(m);
  const spolia::snapshot s;
  EXPECT_EQ(m.find(s, key(3))->number, 3);
  EXPECT_TRUE(m.contains(s, key(3)));
  const std::vector<key> wanted{key(1), key(2)};
  EXPECT_EQ(m.find_all(s, wanted).size(), 2U);
  long sum = 0;
  m.find_all(s, wanted, [&](const value* v) { sum += v->number; });
  EXPECT_EQ(sum, 3);
  sum = 0;
  for (const auto& [k, v] : m.all(s)) sum += k.number + v.number;
  EXPECT_EQ(sum, 2 * sum_of_all);
  EXPECT_EQ(m.size(s), std::size_t{many});

  spolia::changes batch;
  const value eight(8);
  batch.insert(m, key(many), eight);
  batch.insert_or_assign(m, key(many + 1), value(8));
  batch.erase(m, key(many));
  batch.commit();
  EXPECT_TRUE(m.erase(key(many + 1)));
  m.collect();
  (void)m.account();
  (void)m.stats();
}
TEST(hostile_types, snapshot_tree) {
  spolia::snapshot_tree<key, value, spolia::sl_rt<>, hostile::below> m;
  use_snapshots(m);
  walk_in_order(m);
  const spolia::snapshot s;
  long sum = 0;
  for (const auto& [k, v] : m.range(s, key(10), key(13))) sum += k.number + v.number;
  EXPECT_EQ(sum, 2 * (10 + 11 + 12));
  EXPECT_EQ(m.count(s, key(10), key(13)), 3U);
  EXPECT_EQ(m.count(s, spolia::after(key(10)), spolia::upto(key(13))), 3U);
  EXPECT_EQ(m.last_before(s, key(7))->second.number, 6);
  auto all = m.all(s);
  auto last = all.end();
  --last;
  EXPECT_EQ((*last).first.number, many - 1);

  const spolia::lease then(std::chrono::minutes(5));
  EXPECT_EQ(m.find(then, key(3))->number, 3);
  EXPECT_TRUE(m.contains(then, key(3)));
  sum = 0;
  const hostile::reader shown{std::addressof(sum)};
  m.for_each(then, shown);
  m.range(then, key(10), key(13), shown);
  EXPECT_EQ(sum, 2 * sum_of_all + 2 * (10 + 11 + 12));
  take_all_out(m);
}
TEST(hostile_types, snapshot_hash) {
  spolia::snapshot_hash<key, value, spolia::sl_rt<>, hostile::hash, hostile::same> m;
  use_snapshots(m);
  take_all_out(m);
}

template <class T>
void use_pointers() {
  auto p = spolia::make_shared<T>(5);
  spolia::shared_ptr<T> also = p;
  spolia::shared_ptr<T> part(p, p.get());
  spolia::weak_ptr<T> w = p;
  EXPECT_EQ(w.lock()->number, 5);
  EXPECT_TRUE(p == also && part == p && (*p).number == 5);
  EXPECT_EQ(spolia::allocate_shared<T>(std::allocator<T>(), 6)->number, 6);
  EXPECT_EQ(spolia::make_shared<T[]>(3)[1].number, 0);
  EXPECT_EQ(spolia::make_shared<T[3]>(T(4))[2].number, 4);
  EXPECT_EQ(spolia::make_shared<T[]>(3, T(4))[2].number, 4);
  EXPECT_EQ(spolia::make_shared_for_overwrite<T>()->number, 0);
  EXPECT_TRUE(spolia::const_pointer_cast<const T>(p) == p);
  also.swap(part);
  std::swap(also, part);

  spolia::atomic_shared_ptr<T> at(p);
  EXPECT_EQ(at.load()->number, 5);
  EXPECT_TRUE(at.compare_exchange_strong(also, spolia::make_shared<T>(7)));
  EXPECT_EQ(at.exchange(p)->number, 7);
  spolia::private_ptr<T> mine(at);
  EXPECT_EQ(mine->number, 5);
  EXPECT_EQ(mine.share_out()->number, 5);
  spolia::atomic_weak_ptr<T> watch(w);
  EXPECT_EQ(watch.load().lock()->number, 5);
  at.store(nullptr);

  auto thin = spolia::make_thin<T>(5);
  spolia::atomic_thin_ptr<T> thin_at(thin);
  EXPECT_EQ(thin_at.load()->number, 5);
  EXPECT_TRUE(thin_at.compare_exchange_strong(thin, spolia::make_thin<T>(6)));
  EXPECT_EQ((*thin_at.exchange(nullptr)).number, 6);
}
TEST(hostile_types, counted_pointers) {
  use_pointers<key>();
  use_pointers<value>();
  use_pointers<hostile::unallocated>();
  spolia::shared_ptr<key> owned(new key(3));
  spolia::shared_ptr<key> left(std::make_unique<key>(4));
  owned.reset(new key(5), std::default_delete<key>());
  EXPECT_EQ(owned->number + left->number, 9);
}

template <class T>
struct counted_child : T,
                       spolia::enable_shared_from_this<counted_child<T>>,
                       spolia::traced<counted_child<T>> {
  template <class F>
  void each_child(F&& f) {
    f(next);
    f(other);
  }
  spolia::shared_ptr<counted_child> next;
  spolia::atomic_shared_ptr<counted_child> other;
};
TEST(hostile_types, traced_objects) {
  auto a = spolia::make_shared<counted_child<key>>();
  a->next = a->shared_from_this();
  a->other = a;
  a.reset();
  EXPECT_EQ(spolia::counted::find_cycles().objects, 1U);
  spolia::counted::end_cycles();
}

template <class Domain>
void use_domain() {
  struct node : Domain::header, key {
    explicit node(int n) : key(n) {}
  };
  Domain nodes;
  spolia::atomic<node*> root{nodes.template make<node>(4)};
  {
    auto g = nodes.enter();
    const auto seen = g.protect(root);
    EXPECT_EQ(seen->number, 4);
    root.store_release(new node(5));
    g.retire(seen.get());
  }
  {
    auto g = nodes.enter();
    const auto seen = g.protect(root);
    root.store_release(nullptr);
    g.retire(seen.get(), [](node* n) { delete n; });
  }
  node* const unused = nodes.template make<node>(6);
  nodes.destroy(unused);
  nodes.drain();
}
TEST(hostile_types, domains) {
  use_domain<spolia::domain<>>();
  use_domain<spolia::domain<spolia::hazard_pointers>>();
  use_domain<spolia::domain<spolia::hazard_eras>>();
  use_domain<spolia::region_domain>();
}

struct hazard_node : key, spolia::hazard_pointer_obj_base<hazard_node> {};
struct rcu_node : key, spolia::rcu_obj_base<rcu_node> {};
struct ender final {
  template <class T>
  void operator()(T* p) const {
    delete p;
  }
  void operator&() = delete;
  void operator&() const = delete;
};
struct ended_node : key, spolia::hazard_pointer_obj_base<ended_node, ender> {};
TEST(hostile_types, standard_faces) {
  std::atomic<hazard_node*> at{new hazard_node};
  spolia::hazard_pointer h = spolia::make_hazard_pointer();
  hazard_node* const seen = h.protect(at);
  hazard_node* again = seen;
  EXPECT_TRUE(h.try_protect(again, at));
  h.reset_protection(seen);
  h.reset_protection();
  seen->retire();
  (new ended_node)->retire(ender());
  (new rcu_node)->retire();
  spolia::rcu_retire(new key(3), ender());
  spolia::rcu_retire(new value(3));
  spolia::rcu_barrier();
  spolia::hazard_pointer_clean_up();
}

struct rlu_node : key {
  using fixed = value;
  spolia::rlu::ptr<rlu_node> next;
};
TEST(hostile_types, rlu_objects) {
  spolia::rlu::domain home;
  const auto root = home.make<rlu_node>(value(1), rlu_node());
  home.update([&](auto& in) {
    auto mine = in.try_lock(root);
    if (mine) mine->next = in.template make<rlu_node>(value(2), rlu_node());
  });
  EXPECT_EQ(home.read([&](auto& in) {
    const auto next = in.get(root, &rlu_node::next);
    return in.read(next).fixed().number + in.read(root)->number + in.fixed(root).number;
  }),
            3);
  home.update([&](auto& in) {
    auto mine = in.try_lock(root);
    if (!mine || !in.free(in.read(mine->next).self())) return;
    mine->next = nullptr;
  });
  home.discard(root);
}

TEST(hostile_types, versioned_objects) {
  spolia::region_domain nodes;
  spolia::timeline time;
  spolia::sl_rt<> versions(nodes, time);
  spolia::versioned<value, spolia::sl_rt<>> x(versions, 1);
  {
    auto here = versions.enter();
    const spolia::snapshot s(time);
    EXPECT_TRUE(x.compare_exchange(here, value(1), value(2)));
    EXPECT_FALSE(x.compare_exchange(here, value(1), value(3)));
    EXPECT_EQ(x.at(here, s)->number, 1);
    x.store(here, value(4));
    EXPECT_EQ(x.load(here).number, 4);
  }
  versions.close();
  x.clear(versions);
}

/// What is called with rows and transactions, and cannot have its address taken.
template <class F>
struct shown final : F {
  void operator&() = delete;
  void operator&() const = delete;
};
template <class F>
shown(F) -> shown<F>;
TEST(hostile_types, functions_given_to_a_store) {
  namespace db = spolia::db;
  db::database base = db::database::open();
  db::table& t = base.create_table({.name = "t",
                                    .columns = {{"k", db::int64, db::primary_key}},
                                    .primary = db::index_kind::ordered,
                                    .indexes = {{.name = "also", .columns = {"k"}}}});
  EXPECT_TRUE(base.transact(shown{[&](db::transaction& tx) { return tx.insert(t, {3}); }}));
  const auto k = t.column<std::int64_t>("k");
  std::int64_t sum = 0;
  const shown add{[&](const db::row& r) { sum += r.get(k); }};
  const db::reader now = base.snapshot();
  now.for_each(t, add);
  now.scan(t, {}, {}, add);
  now.scan_down(t, {}, {}, add);
  now.scan(t.index("also"), {}, {}, add);
  now.scan_down(t.index("also"), {}, {}, add);
  EXPECT_EQ(sum, 15);
}

}  // namespace

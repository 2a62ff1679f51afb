// SPDX-License-Identifier: Apache-2.0
// Hash indexes of db/ under the model checker: buckets of one entry, four of them to begin with.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>

#include <spolia/model/engine.hpp>

#include "db/index/cuckoo_index.hpp"
#include "db/index/hash_index.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using quick_domain = domain<token, batch>;

struct slot_is_key {
  bool operator()(std::uint64_t slot, const key_words& k) const { return slot == k[0]; }
};

struct any_slot {
  bool operator()(std::uint64_t, const key_words&) const { return true; }
};

template <template <class, class> class Table>
struct parts {
  quick_domain d{quick_domain::options{.scheme = {.tick_every = 1, .patience = 0}}};
  Table<slot_is_key, quick_domain> keys{d, 1, slot_is_key{}};

  void claim(std::uint64_t k) { model::check(keys.claim({k}, k) == k, "absent"); }
  void remove(std::uint64_t k) { model::check(keys.remove({k}, k), "there"); }
  [[nodiscard]] bool has(std::uint64_t k) const { return keys.find({k}) == k; }
};
using cuckoo = parts<cuckoo_index>;

/// A lookup while the table is replaced, by a claim of the last of so many keys.
template <template <class, class> class Table, std::uint64_t Keys>
void a_lookup_against_growth(model::scenario& run) {
  auto w = std::make_shared<parts<Table>>();
  for (std::uint64_t k = 1; k < Keys; ++k) w->claim(k);
  const std::uint64_t before = w->keys.bytes();
  run.thread([w] { model::check(w->has(1), "what is there all the time is found"); });
  run.thread([w] {
    w->claim(Keys);
    w->remove(Keys);
  });
  run.finally([w, before] { model::check(w->keys.bytes() > before, "it has grown"); });
}
constexpr auto probing_growth = a_lookup_against_growth<hash_index, 2>;
constexpr auto cuckoo_growth = a_lookup_against_growth<cuckoo_index, 5>;

/// A lookup while the first key makes the shards, and its array.
template <template <class, class> class Table>
void a_lookup_against_the_first(model::scenario& run) {
  auto w = std::make_shared<parts<Table>>();
  run.thread([w] {
    const std::uint64_t slot = w->keys.find({1});
    model::check(slot == 1 || slot == no_slot, "a lookup finds the key, or nothing");
  });
  run.thread([w] { w->claim(1); });
  run.finally([w] { model::check(w->has(1), "the first key is there"); });
}

/// A lookup while the last other key goes, and the table becomes small.
void a_lookup_against_shrinking(model::scenario& run) {
  auto w = std::make_shared<cuckoo>();
  for (std::uint64_t k = 1; k <= 17; ++k) w->claim(k);
  for (std::uint64_t k = 17; k > 3; --k) w->remove(k);
  const std::uint64_t before = w->keys.bytes();
  run.thread([w] { model::check(w->has(1), "what is there all the time is found"); });
  run.thread([w] {
    w->remove(3);
    w->remove(2);
  });
  run.finally([w, before] {
    model::check(w->keys.bytes() < before, "it has become smaller");
    model::check(w->has(1) && !w->has(2), "it has what it should have");
  });
}

/// Keys with these two places of four.
class keys_at {
 public:
  std::uint64_t next(std::uint64_t first, std::uint64_t second) {
    for (;;) {
      const auto m = cuckoo_mark::of_hash(hash_of_word(++last_));
      if (m.first(4) == first && m.second(4) == second) return last_;
    }
  }

 private:
  std::uint64_t last_ = 0;
};

/// A key goes from its second place to its first, which a lookup may have passed already.
void a_lookup_against_a_move(model::scenario& run) {
  auto w = std::make_shared<cuckoo>();
  keys_at keys;
  const std::uint64_t before = keys.next(0, 3);
  const std::uint64_t moved = keys.next(0, 1);
  const std::uint64_t stays = keys.next(2, 3);
  const std::uint64_t fresh = keys.next(1, 2);
  w->claim(before);
  w->claim(moved);
  w->claim(stays);
  w->remove(before);
  run.thread([w, moved] { model::check(w->has(moved), "what is there all the time is found"); });
  run.thread([w, fresh] {
    w->claim(fresh);
    w->remove(fresh);
  });
  run.finally([=] {
    for (const std::uint64_t k : {moved, stays}) model::check(w->has(k), "it is there");
    for (const std::uint64_t k : {before, fresh}) model::check(!w->has(k), "it is not there");
  });
}

/// Two keys go one after the other, one to the place where the other was.
void a_lookup_against_two_moves(model::scenario& run) {
  auto w = std::make_shared<cuckoo>();
  keys_at keys;
  const std::uint64_t before = keys.next(2, 0);
  const std::uint64_t moved = keys.next(2, 1);
  const std::uint64_t also = keys.next(2, 3);
  const std::uint64_t root = keys.next(0, 1);
  const std::uint64_t fresh = keys.next(0, 1);
  w->claim(before);
  w->claim(moved);
  w->remove(before);
  w->claim(also);
  w->claim(root);
  run.thread([w, moved] { model::check(w->has(moved), "what is there all the time is found"); });
  run.thread([w, also] { model::check(w->has(also), "what is there all the time is found"); });
  run.thread([w, fresh] { w->claim(fresh); });
  run.finally([=] {
    for (const std::uint64_t k : {moved, also, root, fresh}) {
      model::check(w->has(k), "it is there");
    }
  });
}

/// Two threads want one key.
template <template <class, class> class Table>
void two_claims(model::scenario& run) {
  auto got = std::make_shared<std::array<std::uint64_t, 2>>();
  struct both {
    quick_domain d{quick_domain::options{.scheme = {.tick_every = 1, .patience = 0}}};
    Table<any_slot, quick_domain> keys{d, 1, any_slot{}};
  };
  auto b = std::make_shared<both>();
  for (std::uint64_t me : {0U, 1U}) {
    run.thread([b, got, me] { (*got)[me] = b->keys.claim({7}, me); });
  }
  run.finally([b, got] {
    model::check((*got)[0] == (*got)[1], "both have the same slot");
    model::check(b->keys.find({7}) == (*got)[0], "and each lookup finds that slot");
  });
}

TEST(db_hash_index_model, lookups_survive_growth) {
  expect_clean(probing_growth, at_most(2));
  expect_clean(cuckoo_growth, at_most(2));
  expect_clean(a_lookup_against_shrinking, at_most(1));
  expect_clean(a_lookup_against_the_first<hash_index>, at_most(2));
  expect_clean(a_lookup_against_the_first<cuckoo_index>, at_most(2));
}
TEST(db_hash_index_model, a_key_has_one_slot) {
  expect_clean(two_claims<hash_index>, at_most(2));
  expect_clean(two_claims<cuckoo_index>, at_most(2));
}
TEST(db_hash_index_model, lookups_beside_moves) {
  expect_clean(a_lookup_against_a_move, at_most(2));
  expect_clean(a_lookup_against_two_moves, at_most(1));
}

TEST(db_hash_index_model, faults_are_found) {
  const char* const lost = "what is there all the time is found";
  expect_found(probing_growth, "hash_shards.relaxed_array", at_most(2), "whose construction");
  expect_found(probing_growth, "hash_shards.free_at_once", at_most(2), "races with an access");
  expect_found(cuckoo_growth, "hash_shards.relaxed_array", at_most(2), "whose construction");
  expect_found(cuckoo_growth, "hash_shards.free_at_once", at_most(2), "races with an access");
  expect_found(a_lookup_against_the_first<hash_index>, "hash_shards.relaxed_shards", at_most(2),
               "whose construction");
  expect_found(a_lookup_against_shrinking, "hash_shards.free_at_once", at_most(2),
               "races with an access");
  expect_found(a_lookup_against_a_move, "cuckoo_index.clear_first", at_most(2), lost);
  expect_found(a_lookup_against_a_move, "cuckoo_index.no_second_look", at_most(2), lost);
  expect_found(a_lookup_against_a_move, "cuckoo_index.count_first", at_most(2), lost);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Scenarios over a whole map in a whole domain: what races of a few operations leave, and that no
/// node is touched after its end.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>

#include <spolia/reclaim.hpp>

#include "model/domain_scenarios.hpp"

namespace spolia::test {

/// A map over the keys 1 and 2, whose values are ten times the keys, and a scheme that frees
/// eagerly. `Kind::of<Domain>` is the map.
template <class Kind, class Scheme>
struct shared_map {
  using domain_type = domain<Scheme, batch>;
  using map = typename Kind::template of<domain_type>;

  shared_map() : d(eager()), m(std::make_unique<map>(d)) {
    m->insert(1, 10);
    m->insert(2, 20);
  }
  static typename domain_type::options eager() {
    typename domain_type::options o;
    if constexpr (requires { o.scheme.tick_every; }) o.scheme.tick_every = 1;
    if constexpr (requires { o.scheme.patience; }) o.scheme.patience = 0;
    if constexpr (requires { o.scheme.attempts; }) o.scheme.attempts = 0;
    return o;
  }

  /// Lets the scheme free what this thread retired, if it may.
  void free_what_is_safe() {
    if constexpr (protects_pointers<Scheme>) {
      d.drain();
    } else {
      for (int operation = 0; operation < 4; ++operation) auto guard = d.enter();
    }
  }

  bool is(std::optional<int> one, std::optional<int> two, std::optional<int> three = {}) const {
    return m->find(1) == one && m->find(2) == two && m->find(3) == three;
  }

  domain_type d;
  std::unique_ptr<map> m;
};

template <class Kind, class Scheme>
using shared_map_ptr = std::shared_ptr<shared_map<Kind, Scheme>>;

template <class Kind, class Scheme>
shared_map_ptr<Kind, Scheme> start() {
  return std::make_shared<shared_map<Kind, Scheme>>();
}

/// The threads have ended: `as_it_must` says whether the map is right.
template <class Kind, class Scheme, class F>
void judge(model::scenario& run, shared_map_ptr<Kind, Scheme> s, F as_it_must) {
  run.finally([=] {
    model::check(as_it_must(), "the map holds what the operations' answers say");
    std::size_t keys = 0;
    for (const int key : {1, 2, 3}) keys += s->m->contains(key) ? 1U : 0U;
    model::check(s->m->size_approx() == keys, "the size is the number of keys");
    if constexpr (requires { s->m->audit(); }) {
      model::check(s->m->audit().wrong.empty(), "the tree is sound");
      model::check(s->m->audit().pairs == keys, "the tree has these keys only");
    }
    s->m.reset();
  });
}

/// A key is inserted after one that is erased: without a mark the insertion is lost.
template <class Kind, class Scheme>
void insert_behind_an_erase(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  run.thread([=] { model::check(s->m->erase(2), "2 was there"); });
  run.thread([=] { model::check(s->m->insert(3, 30), "3 was not"); });
  judge<Kind, Scheme>(run, s, [=] { return s->is(10, {}, 30); });
}

/// A key is inserted on the other side of one that is erased.
template <class Kind, class Scheme>
void insert_beside_an_erase(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  run.thread([=] { model::check(s->m->erase(1), "1 was there"); });
  run.thread([=] { model::check(s->m->insert(3, 30), "3 was not"); });
  judge<Kind, Scheme>(run, s, [=] { return s->is({}, 20, 30); });
}

/// Neighbours are erased at the same time: both unlink, or help to.
template <class Kind, class Scheme>
void erase_neighbours(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  run.thread([=] { model::check(s->m->erase(1), "1 was there"); });
  run.thread([=] { model::check(s->m->erase(2), "2 was there"); });
  judge<Kind, Scheme>(run, s, [=] { return s->is({}, {}); });
}

/// Two threads want to erase the same key.
template <class Kind, class Scheme>
void erase_twice(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  auto erased = std::make_shared<std::array<bool, 2>>();
  for (std::size_t t = 0; t < erased->size(); ++t) {
    run.thread([=] { (*erased)[t] = s->m->erase(1); });
  }
  judge<Kind, Scheme>(run, s, [=] { return (*erased)[0] != (*erased)[1] && s->is({}, 20); });
}

/// Two threads want to insert the same key.
template <class Kind, class Scheme>
void insert_twice(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  auto inserted = std::make_shared<std::array<bool, 2>>();
  for (std::size_t t = 0; t < inserted->size(); ++t) {
    run.thread([=] { (*inserted)[t] = s->m->insert(3, static_cast<int>(t)); });
  }
  judge<Kind, Scheme>(run, s, [=] {
    return (*inserted)[0] != (*inserted)[1] && s->is(10, 20, (*inserted)[0] ? 0 : 1);
  });
}

/// A value is replaced: a search finds the old one or the new one, never nothing.
template <class Kind, class Scheme>
void replace_under_a_reader(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  run.thread([=] {
    model::check(!s->m->insert_or_assign(1, 11), "1 was there");
    s->free_what_is_safe();
  });
  run.thread([=] {
    const auto seen = s->m->find(1);
    model::check(seen == 10 || seen == 11, "a value that is replaced is never missing");
  });
  judge<Kind, Scheme>(run, s, [=] { return s->is(11, 20); });
}

/// The same key is replaced and erased: either order, and nothing in between.
template <class Kind, class Scheme>
void replace_against_an_erase(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  auto inserted = std::make_shared<bool>();
  run.thread([=] { *inserted = s->m->insert_or_assign(1, 11); });
  run.thread([=] { model::check(s->m->erase(1), "1 was there all the time"); });
  judge<Kind, Scheme>(run, s, [=] { return *inserted ? s->is(11, 20) : s->is({}, 20); });
}

/// A search goes over nodes that are taken out and freed.
template <class Kind, class Scheme>
void search_over_what_is_freed(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  run.thread([=] { model::check(!s->m->erase(3), "3 was never there"); });
  run.thread([=] {
    s->m->erase(1);
    s->m->erase(2);
    s->free_what_is_safe();
  });
  judge<Kind, Scheme>(run, s, [=] { return s->is({}, {}); });
}

/// A scan goes over nodes that are taken out and freed. A kind of `unordered` maps says so.
template <class Kind, class Scheme>
void scan_over_what_is_freed(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  run.thread([=] {
    int last = 0;
    bool two = false;
    s->m->for_each([&](int key, const auto& value) {
      if constexpr (!requires { Kind::unordered; }) {
        model::check(key > last, "keys come in ascending order");
      }
      model::check(key != last, "no key comes twice");
      model::check(value == 10 * key, "with their values");
      two = two || key == 2;
      last = key;
    });
    model::check(two, "2 was there all the time");
  });
  run.thread([=] {
    s->m->erase(1);
    s->m->insert(3, 30);
    s->free_what_is_safe();
  });
  judge<Kind, Scheme>(run, s, [=] { return s->is({}, 20, 30); });
}

/// Keys that are there all the time are looked for while the map grows beside them.
template <class Kind, class Scheme>
void search_beside_an_insert(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  run.thread([=] { model::check(s->m->insert(3, 30), "3 was not there"); });
  run.thread([=] {
    model::check(s->m->contains(2), "2 was there all the time");
    model::check(s->m->contains(1), "1 was there all the time");
  });
  judge<Kind, Scheme>(run, s, [=] { return s->is(10, 20, 30); });
}

/// Neighbours come and go at the same time.
template <class Kind, class Scheme>
void three_at_one_place(model::scenario& run) {
  auto s = start<Kind, Scheme>();
  run.thread([=] { model::check(s->m->erase(2), "2 was there"); });
  run.thread([=] { model::check(s->m->insert(3, 30), "3 was not"); });
  run.thread([=] { model::check(s->m->erase(1), "1 was there"); });
  judge<Kind, Scheme>(run, s, [=] { return s->is({}, {}, 30); });
}

template <class Kind, class Scheme>
void expect_all_clean(const model::options& how) {
  for (const auto scenario :
       {insert_behind_an_erase<Kind, Scheme>, insert_beside_an_erase<Kind, Scheme>,
        erase_neighbours<Kind, Scheme>, erase_twice<Kind, Scheme>, insert_twice<Kind, Scheme>,
        replace_under_a_reader<Kind, Scheme>, replace_against_an_erase<Kind, Scheme>,
        search_over_what_is_freed<Kind, Scheme>, search_beside_an_insert<Kind, Scheme>,
        scan_over_what_is_freed<Kind, Scheme>}) {
    expect_clean(scenario, how);
  }
}

}  // namespace spolia::test

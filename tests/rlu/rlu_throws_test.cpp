// SPDX-License-Identifier: Apache-2.0
// Read-log-update when what users wrote throws: each operation of the containers, and sections by
// hand, are tried again and again, and the first, second, third ... call of a user's comparison,
// hash, copy, move or function throws, until none does. Before that everything is as it was.

#include <gtest/gtest.h>

#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/rlu_list.hpp>
#include <spolia/rlu.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace spolia;

struct thrown {};

/// Calls of users' code until one throws; 0: none does.
int fuse = 0;
void step() {
  if (fuse != 0 && --fuse == 0) throw thrown{};
}

/// Calls f until nothing in it throws. After each throw, and at the end, calls check(it is over).
/// Returns how many times it threw.
template <class F, class Check>
int with_each_throw(F&& f, Check&& check) {
  for (int n = 1;; ++n) {
    fuse = n;
    bool over = true;
    try {
      f();
    } catch (const thrown&) {
      over = false;
    }
    fuse = 0;
    check(over);
    if (over) return n - 1;
  }
}

/// A key and a value that throw when they are copied, moved or compared.
struct touchy {
  int is = 0;
  static inline long alive = 0;

  explicit touchy(int i) : is(i) { ++alive; }
  touchy(const touchy& from) : is((step(), from.is)) { ++alive; }
  touchy(touchy&& from) : is((step(), from.is)) { ++alive; }  // NOLINT(*-noexcept-move*)
  touchy& operator=(const touchy&) = delete;
  ~touchy() { --alive; }
  friend bool operator<(const touchy& a, const touchy& b) { return step(), a.is < b.is; }
};
struct touchy_hash {
  std::size_t operator()(const touchy& t) const { return step(), static_cast<std::size_t>(t.is); }
};
/// Of numbers, which the containers take by value.
struct touchy_less {
  bool operator()(int a, int b) const { return step(), a < b; }
};

int number_of(int k) { return k; }
int number_of(const touchy& k) { return k.is; }

template <class Map>
std::map<int, int> content(Map& m) {
  std::map<int, int> now;
  m.for_each([&](const auto& k, const auto& v) { now.emplace(number_of(k), number_of(v)); });
  return now;
}

template <class Map>
void is_as_it_was(Map& m) {
  using key = typename Map::key_type;
  using value = typename Map::mapped_type;
  std::map<int, int> model;
  int throws = 0;
  for (int round = 0; round < 60; ++round) {
    const int k = round * 7 % 11;
    const key given(k);
    const auto tried = [&](auto&& f, auto&& changed) {
      throws += with_each_throw(f, [&](bool over) {
        if (over) changed();
        ASSERT_EQ(content(m), model);
        ASSERT_EQ(m.size_approx(), model.size());
      });
    };
    tried([&] { m.contains(given); }, [] {});
    tried([&] { m.visit(given, [](const value&) { step(); }); }, [] {});
    tried([&] { m.for_each([](const key&, const value&) { step(); }); }, [] {});
    switch (round % 4) {
      case 0:
        tried([&] { m.insert(given, value(k)); }, [&] { model.emplace(k, k); });
        break;
      case 1:
        tried([&] { m.insert_or_assign(given, value(round)); },
              [&] { model.insert_or_assign(k, round); });
        break;
      case 2:
        tried([&] { m.erase(given); }, [&] { model.erase(k); });
        break;
      default:  // several in one section
        tried(
            [&] {
              m.domain().update([&](auto&) {
                m.erase(given);
                step();
                m.insert(key(k + 1), value(round));
                step();
              });
            },
            [&] {
              model.erase(k);
              model.emplace(k + 1, round);
            });
    }
  }
  EXPECT_GT(throws, 500);
}

TEST(rlu_throws, containers_are_as_they_were) {
  {
    rlu::domain d({.segment_bytes = 256, .low_watermark = 1});
    rlu_list<touchy, touchy> list(d);
    is_as_it_was(list);
    rlu_bst<touchy, touchy> tree(d);
    is_as_it_was(tree);
    rlu_hash<touchy, touchy, rlu::domain, touchy_hash> table(d, 3);
    is_as_it_was(table);
    rlu_bst<int, touchy, rlu::domain, touchy_less> of_numbers(d);
    is_as_it_was(of_numbers);
    rlu_list<int, touchy, rlu::domain, touchy_less> also(d);
    is_as_it_was(also);
  }
  EXPECT_EQ(touchy::alive, 0) << "what a throw left behind has not ended";
}

struct number {
  long value = 0;
};
struct cell : rlu::element {
  long value = 0;
};
/// Variable in size, and with a fixed part that throws.
struct page {
  using fixed = touchy;
  using tail = long;
  long used = 0;
};

// Locks of each kind, new objects, freed ones and parts: a throw in any place undoes all.
TEST(rlu_throws, sections_of_all_that_there_is) {
  {
    rlu::domain d({.segment_bytes = 256, .low_watermark = 1});
    rlu::array<cell> cells(d, 8);
    std::vector<rlu::ptr<page>> pages;
    for (int i = 0; i < 4; ++i) pages.push_back(d.make<page>(touchy(i), {}, 100));
    auto kept = d.make<number>({0});
    long round = 0;
    const auto changes = [&](auto& in) {
      for (std::size_t i = 0; i < cells.size(); ++i) {
        in.try_lock(cells[i])->value += 1;
        step();
      }
      EXPECT_TRUE(in.try_lock_const(kept));
      step();
      auto made = in.template make<page>(touchy(7), {round}, 200);
      made.tail()[199] = round;
      d.update([&](auto& part) {
        for (const auto p : pages) {
          auto mine = part.try_lock(p);
          mine->used += 1;
          mine.tail()[99] = round;
          step();
        }
      });
      EXPECT_EQ(d.read([&](auto& part) { return step(), part.read(cells[7])->value; }), round);
      in.try_lock(kept)->value = round;  // from a lock that changed nothing
      step();
      EXPECT_TRUE(in.free(made.self()));
      step();
    };
    for (round = 1; round <= 20; ++round) {
      const int throws = with_each_throw(
          [&] {
            d.update([&](auto& in) {
              if (round % 2 == 0) in.serializable();
              changes(in);
            });
          },
          [&](bool over) {
            const long is = over ? round : round - 1;
            d.read([&](auto& in) {
              for (std::size_t i = 0; i < cells.size(); ++i)
                ASSERT_EQ(in.read(cells[i])->value, is);
              for (const auto p : pages) {
                ASSERT_EQ(in.read(p)->used, is);
                ASSERT_EQ(in.read(p).tail()[99], is);
              }
              ASSERT_EQ(in.read(kept)->value, is);
            });
          });
      EXPECT_GT(throws, 15);
    }
    for (const auto p : pages) d.discard(p);
    d.discard(kept);
  }
  EXPECT_EQ(touchy::alive, 0);
}

// The cap is met in a part of a section: that says so, and so does the whole.
TEST(rlu_throws, a_cap_that_is_met_in_a_part) {
  rlu::domain d({.segment_bytes = 256, .log_cap = 8192, .tries_when_full = 2});
  std::vector<rlu::ptr<number>> all;
  for (int i = 0; i < 400; ++i) all.push_back(d.make<number>({0}));
  rlu::array<cell> cells(d, 1);
  bool part_is_doomed = false;
  const auto too_much = [&](auto& in) {
    in.try_lock(cells[0])->value = 1;
    const bool whole = d.update([&](auto& part) {
      for (const auto p : all) {
        if (auto mine = part.try_lock(p)) mine->value = 1;
      }
    });
    part_is_doomed = !whole && in.doomed() && !in.try_lock(all[0]) && !in.free(all[1]);
    EXPECT_EQ(d.attempt([](auto&) {}), rlu::outcome::log_full);
  };
  EXPECT_EQ(d.attempt(too_much), rlu::outcome::log_full);
  EXPECT_TRUE(part_is_doomed);
  EXPECT_THROW(d.update(too_much), rlu::log_full);
  EXPECT_THROW(d.update([&](auto& in) {
    d.update([&](auto&) {
      too_much(in);
      throw std::runtime_error("and this");
    });
  }),
               std::runtime_error);
  d.read([&](auto& in) {
    EXPECT_EQ(in.read(cells[0])->value, 0);
    for (const auto p : all) EXPECT_EQ(in.read(p)->value, 0);
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(d.update([&](auto& in) { in.try_lock(all[7])->value += 1; }));
  }
  for (const auto p : all) d.discard(p);
}

// A log that could not even hold one segment would never take a record.
TEST(rlu_throws, a_cap_below_a_segment_still_takes_what_fits) {
  rlu::domain d({.log_cap = 4096, .tries_when_full = 2});
  const auto p = d.make<number>({0});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(d.update([&](auto& in) {
      if (auto mine = in.try_lock(p)) mine->value += 1;
    }));
  }
  EXPECT_EQ(d.read([&](auto& in) { return in.read(p)->value; }), 1000);
  d.discard(p);
}

}  // namespace

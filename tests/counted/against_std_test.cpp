// SPDX-License-Identifier: Apache-2.0
// The same steps in any order over the standard library's pointers and over ours: pointers in
// variables, in objects, in atomic locations, weak ones, aliases, and private pointers. All of them
// always lead to the same objects, and where no atomic location has a part in an object's life, its
// count and the moment of its end are the same, too.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "counted/families.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using number = int;  // of an object; 0: none

template <class F>
struct node;

template <class F>
struct world {
  using shared = typename F::template shared<node<F>>;
  std::set<number> alive;
  std::array<shared, 8> at;
  std::array<typename F::template weak<node<F>>, 6> weak;
  std::array<typename F::template shared<int>, 4> alias;
  std::array<typename F::template atomic_shared<node<F>>, 4> place;
  std::array<typename F::template atomic_weak<node<F>>, 3> weak_place;

  static number of(const shared& p) { return p ? p->id : 0; }
  shared make(number id, std::uint64_t kind);
  void clear() {
    for (auto& p : at) p.reset();
    for (auto& p : weak) p.reset();
    for (auto& p : alias) p.reset();
    for (auto& p : place) p.store({});
    for (auto& p : weak_place) p.store({});
  }
};

template <class F>
struct node : F::template self<node<F>> {
  node(world<F>& w, number n) : home(w), id(n), part(n) { home.alive.insert(id); }
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  ~node() { home.alive.erase(id); }
  world<F>& home;
  const number id;
  int part;
  typename F::template shared<node> child;
  typename F::template atomic_shared<node> place;
  typename F::template weak<node> other;
};

template <class F>
auto world<F>::make(number id, std::uint64_t kind) -> shared {
  switch (kind) {
    case 0:
      return shared(new node<F>(*this, id));
    case 1:
      return shared(new node<F>(*this, id), [](node<F>* p) { delete p; });
    case 2:
      return std::make_unique<node<F>>(*this, id);
    case 3:
      return F::template allocate<node<F>>(std::allocator<int>(), *this, id);
    default:
      return F::template make<node<F>>(*this, id);
  }
}

class pointers_against_std : public testing::Test {
 protected:
  using theirs_at = world<standard_family>::shared;
  using ours_at = world<spolia_family>::shared;

  /// What holds an object beside the two worlds: a private pointer, and a plain one of theirs.
  struct held {
    private_ptr<node<spolia_family>> ours;
    theirs_at theirs;
  };

  template <class Array>
  std::size_t any(const Array& a) {
    return random.below(a.size());
  }
  /// The same in both worlds.
  template <class Does>
  void in_both(const Does& does) {
    does(theirs);
    does(ours);
  }
  /// An atomic location has or had it, or something that such an object holds.
  void late(const theirs_at& p) {
    if (!p || !ends_late.insert(p->id).second) return;
    late(p->child);
    late(p->place.load());
  }
  [[nodiscard]] bool exact(number id) const { return !ends_late.contains(id); }

  void point(std::size_t i, std::size_t j) {
    switch (random.below(6)) {
      case 0:
        return in_both([&](auto& w) { w.at[i] = std::move(w.at[j]); });
      case 1:
        return in_both([&](auto& w) { w.at[i].swap(w.at[j]); });
      case 2:
        return in_both([&](auto& w) { w.at[i].reset(); });
      case 3:
        return in_both([&](auto& w) {
          if (w.at[j]) w.at[i] = w.at[j]->shared_from_this();
        });
      default:
        return in_both([&](auto& w) { w.at[i] = w.at[j]; });
    }
  }
  void make() {
    const std::size_t i = any(theirs.at);
    const std::uint64_t kind = random.below(8);
    ++made;
    in_both([&](auto& w) { w.at[i] = w.make(made, kind); });
  }
  /// Younger objects hold older ones, so nothing leads to itself.
  void hold(std::size_t i, std::size_t j) {
    if (!theirs.at[i] || (theirs.at[j] && theirs.at[j]->id >= theirs.at[i]->id)) return;
    switch (random.below(3)) {
      case 0:
        if (!exact(theirs.at[i]->id)) late(theirs.at[j]);
        return in_both([&](auto& w) { w.at[i]->child = w.at[j]; });
      case 1:
        late(theirs.at[j]);
        late(theirs.at[i]->place.load());
        return in_both([&](auto& w) { w.at[i]->place.store(w.at[j]); });
      default:
        return in_both([&](auto& w) { w.at[i]->other = w.at[j]; });
    }
  }
  void follow(std::size_t i, std::size_t j) {
    if (!theirs.at[j]) return;
    switch (random.below(3)) {
      case 0:
        return in_both([&](auto& w) { w.at[i] = w.at[j]->child; });
      case 1:
        return in_both([&](auto& w) { w.at[i] = w.at[j]->place.load(); });
      default:
        return lock(i, theirs.at[j]->other, ours.at[j]->other);
    }
  }
  /// What theirs leads to ours does; what has no count left with them may have one with us.
  template <class Theirs, class Ours>
  void lock(std::size_t i, const Theirs& their_weak, const Ours& our_weak) {
    const theirs_at found = their_weak.lock();
    const ours_at mine = our_weak.lock();
    if (found || !mine || exact(mine->id)) {
      ASSERT_EQ(theirs.of(found), ours.of(mine));
      ASSERT_EQ(their_weak.expired(), our_weak.expired());
    }
    theirs.at[i] = found;
    if (found) {
      ours.at[i] = mine;
    } else {
      ours.at[i].reset();
    }
  }
  void use_weak(std::size_t i) {
    const std::size_t k = any(theirs.weak);
    switch (random.below(5)) {
      case 0:
        return in_both([&](auto& w) { w.weak[k] = w.at[i]; });
      case 1:
        return in_both([&](auto& w) { w.weak[k] = w.weak[(k + 1) % w.weak.size()]; });
      case 2:
        return in_both([&](auto& w) {
          if (w.at[i]) w.weak[k] = w.at[i]->weak_from_this();
        });
      case 3:
        return in_both([&](auto& w) { w.weak[k].reset(); });
      default:
        return lock(i, theirs.weak[k], ours.weak[k]);
    }
  }
  void use_alias(std::size_t i) {
    const std::size_t k = any(theirs.alias);
    in_both([&](auto& w) {
      using alias_type = std::remove_reference_t<decltype(w.alias[k])>;
      if (w.at[i]) w.alias[k] = alias_type(w.at[i], &w.at[i]->part);
    });
    ASSERT_EQ(theirs.alias[k] ? *theirs.alias[k] : 0, ours.alias[k] ? *ours.alias[k] : 0);
    const auto owners = [&](const auto& w) {
      const auto& other = w.at[(i + 1) % w.at.size()];
      const bool same = !w.alias[k].owner_before(other) && !other.owner_before(w.alias[k]);
      return std::pair(same, w.alias[k].owner_before(w.alias[k]));
    };
    ASSERT_EQ(owners(theirs), owners(ours));
  }
  void use_place(std::size_t i, std::size_t j) {
    const std::size_t k = any(theirs.place);
    late(theirs.at[i]);
    switch (random.below(5)) {
      case 0:
        return in_both([&](auto& w) { w.place[k].store(w.at[i]); });
      case 1:
        return in_both([&](auto& w) { w.place[k].store(std::move(w.at[i])); });
      case 2:
        return in_both([&](auto& w) { w.at[j] = w.place[k].exchange(w.at[i]); });
      case 3: {
        std::vector<bool> changed;
        in_both([&](auto& w) {
          changed.push_back(w.place[k].compare_exchange_strong(w.at[j], w.at[i]));
        });
        ASSERT_EQ(changed[0], changed[1]);
        return;
      }
      default:
        return in_both([&](auto& w) { w.at[i] = w.place[k].load(); });
    }
  }
  void use_weak_place(std::size_t i) {
    const std::size_t k = any(theirs.weak_place);
    const std::size_t n = any(theirs.weak);
    switch (random.below(3)) {
      case 0:
        return in_both([&](auto& w) { w.weak_place[k].store(w.at[i]); });
      case 1:
        return in_both([&](auto& w) { w.weak[n] = w.weak_place[k].exchange(w.weak[n]); });
      default:
        return in_both([&](auto& w) { w.weak[n] = w.weak_place[k].load(); });
    }
  }
  /// Private pointers: ours alone.
  void look(std::size_t i) {
    held& h = privately[any(privately)];
    const std::size_t k = any(theirs.place);
    const held& other = privately[any(privately)];
    switch (random.below(7)) {
      case 0:
        h = {private_ptr<node<spolia_family>>(ours.place[k]), theirs.place[k].load()};
        break;
      case 1:
        h.ours = ours.place[k];
        h.theirs = theirs.place[k].load();
        break;
      case 2:
        h.ours = ours.at[i];
        h.theirs = theirs.at[i];
        break;
      case 3:
        h = {other.ours, other.theirs};
        break;
      case 4:
        if (h.theirs) {
          const theirs_at next = h.theirs->place.load();
          h.ours = h.ours->place;  // lies in the object that it points to
          h.theirs = next;
        }
        break;
      case 5:
        theirs.at[i] = h.theirs;
        ours.at[i] = h.ours.share_out();
        break;
      default:
        h = {};
    }
    late(h.theirs);
  }

  void step() {
    const std::size_t i = any(theirs.at);
    const std::size_t j = any(theirs.at);
    switch (random.below(12)) {
      case 0:
      case 1:
        return make();
      case 2:
      case 3:
        return point(i, j);
      case 4:
        return hold(i, j);
      case 5:
        return follow(i, j);
      case 6:
        return use_weak(i);
      case 7:
        return use_alias(i);
      case 8:
      case 9:
        return use_place(i, j);
      case 10:
        return use_weak_place(i);
      default:
        return look(i);
    }
  }

  void compare() {
    for (std::size_t i = 0; i < theirs.at.size(); ++i) {
      const theirs_at& p = theirs.at[i];
      ASSERT_EQ(theirs.of(p), ours.of(ours.at[i]));
      if (p && exact(p->id)) {
        ASSERT_EQ(p.use_count(), ours.at[i].use_count());
      }
    }
    for (const held& h : privately) ASSERT_EQ(theirs.of(h.theirs), h.ours ? h.ours->id : 0);
    for (const number id : theirs.alive) ASSERT_TRUE(ours.alive.contains(id));
    for (const number id : ours.alive) {
      if (exact(id)) {
        ASSERT_TRUE(theirs.alive.contains(id));
      }
    }
  }
  /// After a drain nothing is late any more.
  void settle() {
    for (held& h : privately) h = {};
    ASSERT_TRUE(counted::drain());
    ASSERT_EQ(theirs.alive, ours.alive);
    for (std::size_t i = 0; i < theirs.at.size(); ++i) {
      ASSERT_EQ(theirs.at[i].use_count(), ours.at[i].use_count());
    }
    for (std::size_t i = 0; i < theirs.weak.size(); ++i) {
      ASSERT_EQ(theirs.weak[i].use_count(), ours.weak[i].use_count());
    }
    for (std::size_t k = 0; k < theirs.place.size(); ++k) {
      ASSERT_EQ(theirs.of(theirs.place[k].load()), ours.of(ours.place[k].load()));
    }
  }

  rng random{seed_for(0)};
  number made = 0;
  std::set<number> ends_late;
  world<standard_family> theirs;
  world<spolia_family> ours;
  std::array<held, 7> privately;
};

TEST_F(pointers_against_std, in_any_order) {
  for (int i = 0; i < 20000; ++i) {
    step();
    if (!HasFatalFailure()) compare();
    if (!HasFatalFailure() && random.chance(1, 100)) settle();
    if (HasFatalFailure()) FAIL() << "at step " << i;
  }
  in_both([](auto& w) { w.clear(); });
  settle();
  EXPECT_TRUE(ours.alive.empty());
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// index.cpp: ordered indexes: (a,b)-trees over keys of a few widths; secondary hash indexes.

#include "db/index/index.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

#include <spolia/base/short_lock.hpp>

#include "db/index/cuckoo_index.hpp"
#include "db/index/graveyard.hpp"
#include "db/index/hash_secondary.hpp"
#include "db/index/tree_keys.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

enum class walk_way : std::uint8_t { up, down };

/// What a snapshot sees of an ordered index and its graveyard, as one ascending or descending walk.
/// The entries of the index are given to show() in their order, each after it was read, and
/// finish() follows when the index has been read to its end: so what is buried meanwhile is met in
/// one of the two, and what is met in both is shown once.
///
/// `Part` says where the graveyard's entries lie that belong to a key of the tree: low(key) is at
/// or before the first, high(key) after the last.
template <class Part, std::uint32_t Words>
class joint_walk {
  using key = tree_key<Words>;

 public:
  joint_walk(const graveyard& dead, std::uint64_t time, walk_way way, slot_visitor f) noexcept
      : dead_(dead), time_(time), up_(way == walk_way::up), f_(f) {}

  /// The first of all keys: the lowest upwards, else the highest.
  void begin(const key& at) noexcept { edge_ = at; }
  bool show(const key& at, std::uint64_t slot, const std::uint64_t* words) {
    if (dead_.matters(time_) && !show_dead(at, slot)) return false;
    edge_ = at;
    inside_ = true;
    return more_ = f_(slot, words);
  }
  /// `end`: the last of all keys.
  void finish(const key& end) {
    if (more_ && dead_.matters(time_)) show_dead(end, no_slot);
  }
  [[nodiscard]] bool more() const noexcept { return more_; }

 private:
  /// Those from the edge on to `to`, whose entry in the index leads to `slot`.
  bool show_dead(const key& to, std::uint64_t slot) {
    graveyard::place before{};
    const auto each = [&](const graveyard::place& p) {
      const std::uint64_t found = Part::slot_of(p);
      // Of one slot there may be several lives: the row says which the snapshot sees.
      const bool again = Part::same(p, before) || (found == slot && Part::is_at(p, to));
      before = p;
      return again || (more_ = f_(found, p.words.data()));
    };
    if (up_) {
      dead_.up(inside_ ? Part::high(edge_) : Part::low(edge_), Part::high(to), time_,
               Part::until_at, each);
    } else {
      dead_.down(Part::low(to), inside_ ? Part::low(edge_) : Part::high(edge_), time_,
                 Part::until_at, each);
    }
    return more_;
  }

  const graveyard& dead_;
  const std::uint64_t time_;
  const bool up_;
  const slot_visitor f_;
  key edge_{};           // up to there all was shown,
  bool inside_ = false;  // and what is buried at that key as well
  bool more_ = true;
};

/// Places in the graveyard of a primary index: key, end, slot. So the life of a key that a snapshot
/// sees is the first that ended after it.
template <std::uint32_t Words>
struct by_end {
  static constexpr std::size_t until_at = most_key_words;
  static graveyard::place place(const tree_key<Words>& k, std::uint64_t until,
                                std::uint64_t slot) noexcept {
    return graveyard::at(k.words, until, slot);
  }
  static graveyard::place low(const tree_key<Words>& k) noexcept { return place(k, 0, 0); }
  static graveyard::place high(const tree_key<Words>& k) noexcept {
    return place(k, no_slot, no_slot);
  }
  static std::uint64_t slot_of(const graveyard::place& p) noexcept { return p.words.back(); }
  static bool is_at(const graveyard::place& p, const tree_key<Words>& k) noexcept {
    return std::equal(k.words.begin(), k.words.end(), p.words.begin());
  }
  static bool same(const graveyard::place&, const graveyard::place&) noexcept { return false; }
};

/// The same of a secondary index, whose keys end with the slot: key, slot, end.
template <std::uint32_t Words>
struct by_slot {
  static constexpr std::size_t until_at = most_key_words + 1;
  static graveyard::place place(const tree_key<Words>& k, std::uint64_t until) noexcept {
    std::array<std::uint64_t, Words - 1> key;
    std::copy_n(k.words.begin(), Words - 1, key.begin());
    return graveyard::at(key, k.words.back(), until);
  }
  static graveyard::place low(const tree_key<Words>& k) noexcept { return place(k, 0); }
  static graveyard::place high(const tree_key<Words>& k) noexcept { return place(k, no_slot); }
  static std::uint64_t slot_of(const graveyard::place& p) noexcept {
    return p.words[most_key_words];
  }
  static bool is_at(const graveyard::place& p, const tree_key<Words>& k) noexcept {
    return std::equal(k.words.begin(), k.words.end() - 1, p.words.begin());
  }
  static bool same(const graveyard::place& p, const graveyard::place& q) noexcept {
    return std::equal(p.words.begin(), p.words.end() - 1, q.words.begin());
  }
};

template <std::uint32_t Words>
class ordered_primary final : public primary_index {
 public:
  explicit ordered_primary(domain<>& nodes) : tree_(nodes), dead_(nodes) {}

  [[nodiscard]] std::uint64_t find(const key_words& key) const override {
    std::uint64_t slot = no_slot;
    tree_.visit(cut<Words>(key), [&](const std::uint64_t& s) { slot = s; });
    return slot;
  }
  std::uint64_t claim(const key_words& key, std::uint64_t slot) override {
    for (;;) {
      if (tree_.insert(cut<Words>(key), slot)) return slot;
      const std::uint64_t there = find(key);
      if (there != no_slot) return there;
    }
  }
  // One slot at a time has the key, and who removes it holds its row.
  bool remove(const key_words& key, std::uint64_t) noexcept override {
    try {
      tree_.erase(cut<Words>(key));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  [[nodiscard]] bool ordered() const noexcept override { return true; }
  [[nodiscard]] std::uint64_t find_buried(const key_words& key, std::uint64_t time) const override {
    std::uint64_t slot = no_slot;
    if (!dead_.matters(time)) return slot;
    const auto k = cut<Words>(key);
    dead_.up(part::place(k, time + 1, 0), part::high(k), time, part::until_at,
             [&](const graveyard::place& p) {
               slot = part::slot_of(p);
               return false;
             });
    return slot;
  }
  burial bury(const key_words& key, std::uint64_t slot, std::uint64_t until) noexcept override {
    try {
      dead_.put(part::place(cut<Words>(key), until, slot), until);
    } catch (const std::bad_alloc&) {
      return burial::no_memory;
    }
    static_cast<void>(remove(key, slot));  // else unbury() does it
    return burial::done;
  }
  bool unbury(const key_words& key, std::uint64_t slot, std::uint64_t until) noexcept override {
    try {
      if (find(key) == slot) tree_.erase(cut<Words>(key));
      return dead_.take(part::place(cut<Words>(key), until, slot));
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  void scan(const key_words& lo, const key_words& hi, std::uint64_t time,
            slot_visitor f) const override {
    const auto from = cut<Words>(lo);
    const auto to = cut<Words>(hi);
    if (to < from) return;
    joint_walk<part, Words> walk(dead_, time, walk_way::up, f);
    walk.begin(from);
    tree_.range(from, to, [&](const tree_key<Words>& key, const std::uint64_t& slot) {
      return walk.show(key, slot, key.words.data());
    });
    if (!walk.more()) return;
    const std::uint64_t last = find(hi);
    if (last != no_slot) walk.show(to, last, hi.data());
    walk.finish(to);
  }
  void scan_down(const key_words& lo, const key_words& hi, std::uint64_t time,
                 slot_visitor f) const override {
    const auto from = cut<Words>(hi);
    const auto to = cut<Words>(lo);
    if (from < to) return;
    joint_walk<part, Words> walk(dead_, time, walk_way::down, f);
    walk.begin(from);
    const std::uint64_t first = find(hi);
    if (first != no_slot && !walk.show(from, first, hi.data())) return;
    tree_.range_down(to, from, [&](const tree_key<Words>& key, const std::uint64_t& slot) {
      return walk.show(key, slot, key.words.data());
    });
    walk.finish(to);
  }

 private:
  using part = by_end<Words>;

  tree_of<Words, std::uint64_t> tree_;
  graveyard dead_;
};

/// Keys with the slot behind them.
template <std::uint32_t Words>
class ordered_secondary final : public secondary_index {
 public:
  explicit ordered_secondary(domain<>& nodes) : tree_(nodes), dead_(nodes) {}

  std::uint64_t add(const key_words& key, std::uint64_t slot, index_entry e) override {
    const std::lock_guard hold(lock_of(slot));
    if (tree_.insert(with(key, slot), e)) return e.birth;
    e.birth = entry_in(key, slot).birth;
    tree_.insert_or_assign(with(key, slot), e);
    return e.birth;
  }
  std::uint64_t add_once(const key_words& key, std::uint64_t slot, index_entry e) override {
    const std::lock_guard hold(lock_of(slot));
    return tree_.insert(with(key, slot), e) ? e.claim : entry_in(key, slot).claim;
  }
  // With the lock: a thread that builds the index, and adds an entry after that, sees that the row
  // is locked.
  [[nodiscard]] index_entry entry_of(const key_words& key, std::uint64_t slot) const override {
    const std::lock_guard hold(lock_of(slot));
    return entry_in(key, slot);
  }
  bool remove(const key_words& key, std::uint64_t slot, std::uint64_t claim) noexcept override {
    try {
      const std::lock_guard hold(lock_of(slot));
      if (entry_in(key, slot).claim == claim) tree_.erase(with(key, slot));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  burial bury(const key_words& key, std::uint64_t slot, std::uint64_t claim,
              std::uint64_t until) noexcept override {
    try {
      if (entry_of(key, slot).claim != claim) return burial::not_there;
      dead_.put(part::place(with(key, slot), until), until);
    } catch (const std::bad_alloc&) {
      return burial::no_memory;
    }
    static_cast<void>(remove(key, slot, claim));  // else unbury() does it
    return burial::done;
  }
  bool unbury(const key_words& key, std::uint64_t slot, std::uint64_t claim,
              std::uint64_t until) noexcept override {
    return remove(key, slot, claim) && dead_.take(part::place(with(key, slot), until));
  }
  void scan(const key_words& lo, const key_words& hi, std::uint64_t time,
            slot_visitor f) const override {
    walk(with(lo, 0), with(hi, no_slot), time, walk_way::up, f);
  }
  void scan_down(const key_words& lo, const key_words& hi, std::uint64_t time,
                 slot_visitor f) const override {
    walk(with(lo, 0), with(hi, no_slot), time, walk_way::down, f);
  }

 private:
  static constexpr std::size_t locks = 16;

  using part = by_slot<Words>;

  void walk(const tree_key<Words>& lo, const tree_key<Words>& hi, std::uint64_t time, walk_way way,
            slot_visitor f) const {
    if (hi < lo) return;
    joint_walk<part, Words> walk(dead_, time, way, f);
    const auto show = [&](const tree_key<Words>& key, const index_entry&) {
      return walk.show(key, key.words.back(), key.words.data());
    };
    if (way == walk_way::up) {
      walk.begin(lo);
      tree_.range(lo, hi, show);
      walk.finish(hi);
    } else {
      walk.begin(hi);
      tree_.range_down(lo, hi, show);
      walk.finish(lo);
    }
  }

  static tree_key<Words> with(const key_words& key, std::uint64_t slot) noexcept {
    tree_key<Words> k{};
    std::copy_n(key.begin(), Words - 1, k.words.begin());
    k.words.back() = slot;
    return k;
  }
  [[nodiscard]] index_entry entry_in(const key_words& key, std::uint64_t slot) const {
    index_entry found{};
    tree_.visit(with(key, slot), [&](const index_entry& e) { found = e; });
    return found;
  }
  spolia::detail::short_lock& lock_of(std::uint64_t slot) const noexcept {
    return locks_[slot % locks];
  }

  tree_of<Words, index_entry> tree_;
  graveyard dead_;
  mutable std::array<spolia::detail::short_lock, locks> locks_;
};

}  // namespace

std::unique_ptr<primary_index> make_ordered_primary(std::uint32_t words, domain<>& nodes) {
  if (words <= 2) return std::make_unique<ordered_primary<2>>(nodes);
  if (words <= 4) return std::make_unique<ordered_primary<4>>(nodes);
  return std::make_unique<ordered_primary<most_key_words>>(nodes);
}

std::unique_ptr<secondary_index> make_ordered_secondary(std::uint32_t words, domain<>& nodes) {
  if (words <= 1) return std::make_unique<ordered_secondary<2>>(nodes);
  if (words <= 4) return std::make_unique<ordered_secondary<5>>(nodes);
  return std::make_unique<ordered_secondary<most_key_words + 1>>(nodes);
}

std::unique_ptr<secondary_index> make_hash_secondary(std::uint32_t words, region_domain& nodes,
                                                     hash_kind kind) {
  if (kind == hash_kind::cuckoo) {
    return std::make_unique<hash_secondary<region_domain, cuckoo_index>>(nodes, words);
  }
  return std::make_unique<hash_secondary<>>(nodes, words);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

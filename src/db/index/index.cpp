// SPDX-License-Identifier: Apache-2.0
// index.cpp: ordered indexes: (a,b)-trees over keys of a few widths; secondary hash indexes.

#include "db/index/index.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

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
/// The entries of the index are given to show() in runs, in their order, each run after it was
/// read, and finish() follows when the index has been read to its end: so what is buried meanwhile
/// is met in one of the two, and what is met in both is shown once.
///
/// `Part` says where the graveyard's entries lie that belong to a key of the tree: low(key) is at
/// or before the first, high(key) after the last.
template <class Part>
class joint_walk {
  using key = typename Part::key;
  using place = typename Part::place;

 public:
  joint_walk(const typename Part::buried& dead, std::uint64_t time, walk_way way,
             slot_visitor f) noexcept
      : dead_(dead), time_(time), up_(way == walk_way::up), f_(f) {}

  /// The first of all keys: the lowest upwards, else the highest.
  void begin(const key& at) noexcept { edge_ = at; }
  template <class What>
  bool show(std::span<const std::pair<key, What>> run) {
    if (f_.expects()) {
      std::array<std::uint64_t, abtree_degree> next;
      const std::size_t count = std::min(run.size(), next.size());
      for (std::size_t i = 0; i < count; ++i) next[i] = Part::slot_of(run[i].first, run[i].second);
      f_.expect(std::span(next).first(count));
    }
    const bool alone = !dead_.matters(time_);
    for (const auto& [at, what] : run) {
      const std::uint64_t slot = Part::slot_of(at, what);
      if (!alone && !show_dead(at, slot)) return false;
      if (!f_(slot, at.words.data())) return more_ = false;
      if (!alone) go_to(at);
    }
    go_to(run.back().first);
    return true;
  }
  /// `end`: the last of all keys.
  void finish(const key& end) {
    if (more_ && dead_.matters(time_)) show_dead(end, no_slot);
  }
  [[nodiscard]] bool more() const noexcept { return more_; }

 private:
  void go_to(const key& at) noexcept {
    edge_ = at;
    inside_ = true;
  }
  /// Those from the edge on to `to`, whose entry in the index leads to `slot`.
  bool show_dead(const key& to, std::uint64_t slot) {
    place before{};
    const auto each = [&](const place& p) {
      const std::uint64_t found = Part::slot_of(p);
      // Of one slot there may be several lives: the row says which the snapshot sees.
      const bool again = Part::same(p, before) || (found == slot && Part::is_at(p, to));
      before = p;
      return again || (more_ = f_(found, p.words.data()));
    };
    if (up_) {
      dead_.up(inside_ ? Part::high(edge_) : Part::low(edge_), Part::high(to), time_, each);
    } else {
      dead_.down(Part::low(to), inside_ ? Part::low(edge_) : Part::high(edge_), time_, each);
    }
    return more_;
  }

  const typename Part::buried& dead_;
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
  using key = tree_key<Words>;
  using place = tree_key<Words + 2>;
  using buried = graveyard<Words + 2, Words>;

  static place at(const key& k, std::uint64_t until, std::uint64_t slot) noexcept {
    place p;
    std::copy(k.words.begin(), k.words.end(), p.words.begin());
    p.words[Words] = until;
    p.words[Words + 1] = slot;
    return p;
  }
  static place low(const key& k) noexcept { return at(k, 0, 0); }
  static place high(const key& k) noexcept { return at(k, no_slot, no_slot); }
  static std::uint64_t slot_of(const place& p) noexcept { return p.words.back(); }
  static std::uint64_t slot_of(const key&, std::uint64_t slot) noexcept { return slot; }
  static bool is_at(const place& p, const key& k) noexcept {
    return std::equal(k.words.begin(), k.words.end(), p.words.begin());
  }
  static bool same(const place&, const place&) noexcept { return false; }
};

/// The same of a secondary index, whose keys end with the slot: key, slot, end.
template <std::uint32_t Words>
struct by_slot {
  using key = tree_key<Words>;
  using place = tree_key<Words + 1>;
  using buried = graveyard<Words + 1, Words>;

  static place at(const key& k, std::uint64_t until) noexcept {
    place p;
    std::copy(k.words.begin(), k.words.end(), p.words.begin());
    p.words[Words] = until;
    return p;
  }
  static place low(const key& k) noexcept { return at(k, 0); }
  static place high(const key& k) noexcept { return at(k, no_slot); }
  static std::uint64_t slot_of(const place& p) noexcept { return p.words[Words - 1]; }
  static std::uint64_t slot_of(const key& k, const index_entry&) noexcept { return k.words.back(); }
  static bool is_at(const place& p, const key& k) noexcept {
    return std::equal(k.words.begin(), k.words.end() - 1, p.words.begin());
  }
  static bool same(const place& p, const place& q) noexcept {
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
  // One slot at a time has the key, and the thread that removes it holds its row.
  bool remove(const key_words& key, std::uint64_t) noexcept override {
    try {
      tree_.erase(cut<Words>(key));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  [[nodiscard]] bool ordered() const noexcept override { return true; }
  [[nodiscard]] std::uint64_t bytes() const noexcept override {
    return tree_.bytes_approx() + dead_.bytes();
  }
  [[nodiscard]] std::uint64_t find_buried(const key_words& key, std::uint64_t time) const override {
    std::uint64_t slot = no_slot;
    if (!dead_.matters(time)) return slot;
    const auto k = cut<Words>(key);
    dead_.up(part::at(k, time + 1, 0), part::high(k), time, [&](const auto& p) {
      slot = part::slot_of(p);
      return false;
    });
    return slot;
  }
  burial bury(const key_words& key, std::uint64_t slot, std::uint64_t since,
              std::uint64_t until) noexcept override {
    try {
      dead_.put(part::at(cut<Words>(key), until, slot), since);
    } catch (const std::bad_alloc&) {
      return burial::no_memory;
    }
    static_cast<void>(remove(key, slot));  // else unbury() does it
    return burial::done;
  }
  bool unbury(const key_words& key, std::uint64_t slot, std::uint64_t until) noexcept override {
    try {
      if (find(key) == slot) tree_.erase(cut<Words>(key));
      return dead_.take(part::at(cut<Words>(key), until, slot));
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  void scan(const key_words& lo, const key_words& hi, std::uint64_t time,
            slot_visitor f) const override {
    const auto from = cut<Words>(lo);
    const auto to = cut<Words>(hi);
    if (to < from) return;
    joint_walk<part> walk(dead_, time, walk_way::up, f);
    walk.begin(from);
    tree_.runs(from, to, [&](run of) { return walk.show(of); });
    if (!walk.more()) return;
    const pair last(to, find(hi));
    if (last.second != no_slot) walk.show(run(&last, 1));
    walk.finish(to);
  }
  void scan_down(const key_words& lo, const key_words& hi, std::uint64_t time,
                 slot_visitor f) const override {
    const auto from = cut<Words>(hi);
    const auto to = cut<Words>(lo);
    if (from < to) return;
    joint_walk<part> walk(dead_, time, walk_way::down, f);
    walk.begin(from);
    const pair first(from, find(hi));
    if (first.second != no_slot && !walk.show(run(&first, 1))) return;
    tree_.runs_down(to, from, [&](run of) { return walk.show(of); });
    walk.finish(to);
  }

 private:
  using part = by_end<Words>;
  using pair = std::pair<tree_key<Words>, std::uint64_t>;
  using run = std::span<const pair>;

  tree_of<Words, std::uint64_t> tree_;
  typename part::buried dead_;
};

/// Keys with the slot behind them.
template <std::uint32_t Words>
class ordered_secondary final : public secondary_index {
 public:
  explicit ordered_secondary(domain<>& nodes) : tree_(nodes), dead_(nodes) {}

  index_addition add(const key_words& key, std::uint64_t slot, index_entry e) override {
    const std::lock_guard hold(lock_of(slot));
    if (tree_.insert(with(key, slot), e)) return {e.birth, true};
    e.birth = entry_in(key, slot).birth;
    tree_.insert_or_assign(with(key, slot), e);
    return {e.birth, false};
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
  [[nodiscard]] std::uint64_t bytes() const noexcept override {
    return tree_.bytes_approx() + dead_.bytes();
  }
  burial bury(const key_words& key, std::uint64_t slot, std::uint64_t claim, std::uint64_t since,
              std::uint64_t until) noexcept override {
    return bury_pair(*this, dead_, part::at(with(key, slot), until), key, slot, claim, since);
  }
  bool unbury(const key_words& key, std::uint64_t slot, std::uint64_t claim,
              std::uint64_t until) noexcept override {
    return remove(key, slot, claim) && dead_.take(part::at(with(key, slot), until));
  }
  void scan(const key_words& lo, const key_words& hi, std::uint64_t time,
            slot_visitor f) const override {
    walk(with(lo, 0), with(hi, no_slot), time, walk_way::up, f);
  }
  void scan_down(const key_words& lo, const key_words& hi, std::uint64_t time,
                 slot_visitor f) const override {
    walk(with(lo, 0), with(hi, no_slot), time, walk_way::down, f);
  }
  void scan_from(const key_words& first, std::uint64_t slot, const key_words& hi,
                 std::uint64_t time, slot_visitor f) const override {
    walk(with(first, slot), with(hi, no_slot), time, walk_way::up, f);
  }
  void scan_down_from(const key_words& first, std::uint64_t slot, const key_words& lo,
                      std::uint64_t time, slot_visitor f) const override {
    // The end of a walk that is first is not in it.
    walk(with(lo, 0), with(first, slot == no_slot ? slot : slot + 1), time, walk_way::down, f);
  }

 private:
  static constexpr std::size_t locks = 16;

  using part = by_slot<Words>;

  void walk(const tree_key<Words>& lo, const tree_key<Words>& hi, std::uint64_t time, walk_way way,
            slot_visitor f) const {
    if (hi < lo) return;
    joint_walk<part> walk(dead_, time, way, f);
    const auto show = [&](std::span<const std::pair<tree_key<Words>, index_entry>> run) {
      return walk.show(run);
    };
    if (way == walk_way::up) {
      walk.begin(lo);
      tree_.runs(lo, hi, show);
      walk.finish(hi);
    } else {
      walk.begin(hi);
      tree_.runs_down(lo, hi, show);
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
  typename part::buried dead_;
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
                                                     domain<>& graves, hash_kind kind) {
  if (kind == hash_kind::cuckoo) {
    return std::make_unique<hash_secondary<region_domain, cuckoo_index>>(nodes, graves, words);
  }
  return std::make_unique<hash_secondary<>>(nodes, graves, words);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

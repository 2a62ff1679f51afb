// SPDX-License-Identifier: Apache-2.0
// chromatic_past.hpp: what is in a snapshot_tree at an instant: that of a snapshot, named by its
// time, or of a lease.
//
// What is found stays while the snapshot does; at a lease, while the session does, and when that
// was ended snapshot_expired is thrown.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/chromatic_leaves.hpp>
#include <spolia/map/detail/edited.hpp>
#include <spolia/map/detail/key_groups.hpp>
#include <spolia/version/lease.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Nodes, class Collector, class Compare, class Shortcuts>
class chromatic_past {
  using key_type = typename Nodes::key_type;
  using node = typename Nodes::node;
  using internal = typename Nodes::internal;
  using link = typename Nodes::link;
  using leaves = chromatic_leaves<Nodes, Collector, Compare>;

 public:
  using session = typename Collector::session;
  using pair = typename Nodes::pair;
  using leaf = typename Nodes::leaf;
  using pairs = typename leaves::pairs;

  /// Leaves to find in one session: a few microseconds.
  static constexpr unsigned most_leaves = 16;
  /// Leaves that follow each other in ascending order, and stay while the snapshot does. They were
  /// found by what routers say, so there may be some at which pairs_of() finds nothing within the
  /// limits, or what an earlier one has shown already.
  struct chunk {
    unsigned count = 0;
    bool ends = false;  // there are none after these
    std::array<const leaf*, most_leaves> of;
    [[nodiscard]] bool is_full() const noexcept { return count == most_leaves; }
    /// Fetches one that is looked at soon, if it is there.
    void prefetch(unsigned i) const noexcept {
      if (i < count) of[i]->prefetch();
    }
    void add(const leaf& l) noexcept {
      of[count] = &l;
      if (count < fetched_at_once) l.prefetch();
      ++count;
    }
  };
  /// A scan that looks at one leaf fetches the one that lies so many after it.
  static constexpr unsigned fetched_ahead = 2;
  static constexpr unsigned fetched_at_once = fetched_ahead + 1;

  /// Which leaves to find.
  enum class which : bool {
    all,        // without a look at them
    with_some,  // that have pairs within the limits
  };
  /// Keys from *lo on (after it, if `open`) and before *hi (or at it, if `closed`); null: no limit.
  struct limits {
    const key_type* lo = nullptr;
    const key_type* hi = nullptr;
    bool open = false;
    bool closed = false;
    [[nodiscard]] bool is_over_at(const key_type& key, const Compare& less) const {
      if (hi == nullptr) return false;
      return closed ? static_cast<bool>(less(*hi, key)) : !less(key, *hi);
    }
  };

  chromatic_past(Collector& c, const internal& entry, const Compare& less, const leaves& l,
                 const Shortcuts& s) noexcept
      : collector_(c), entry_(entry), less_(less), leaves_(l), shortcuts_(s) {}

  /// The pair of `key`, null if there was none.
  template <class K, class Instant>
  const pair* find_at(session&, const Instant& then, const K& key) const {
    node* n = first_node(then, key);
    while (n != nullptr && !n->is_leaf()) {
      const internal* const i = Nodes::as_internal(n);
      i->prefetch();
      n = at(*i, less_(key, i->key) ? 0 : 1, then);
    }
    if (n != nullptr) Nodes::as_leaf(n)->prefetch();
    return n == nullptr ? nullptr : leaves_.find(pairs_at(n, then), key).get();
  }

  /// The same for each of some keys, of which there are not more than keys_together: found(pair).
  /// They go down side by side, so that what one waits for is fetched while the others go.
  template <class F>
  void find_each_at(session&, std::uint64_t then, std::span<const key_type* const> keys,
                    F&& found) const {
    std::array<const node*, keys_together> at;
    for (std::size_t k = 0; k < keys.size(); ++k) {
      at[k] = shortcuts_.nearest(*keys[k], then);
      if (at[k] == nullptr) at[k] = top_at(then);
    }
    for (bool more = true; more;) {
      more = false;
      for (std::size_t k = 0; k < keys.size(); ++k) fetch_side(at[k], *keys[k]);
      for (std::size_t k = 0; k < keys.size(); ++k) more |= step_down(at[k], *keys[k], then);
    }
    for (std::size_t k = 0; k < keys.size(); ++k) {
      found(at[k] == nullptr ? nullptr : leaves_.find(pairs_at(at[k], then), *keys[k]).get());
    }
  }

  /// The first leaves within the limits.
  template <class Instant>
  void first_at(session&, const Instant& then, const limits& within, chunk& found, which w) const {
    found.count = 0;
    find_first(then, within, found, w);
    found.ends = !found.is_full();
  }
  /// The last ones; also in ascending order.
  void last_at(session&, std::uint64_t then, const limits& within, chunk& found, which w) const {
    found.count = 0;
    found.ends = false;
    if (node* const n = top_at(then)) descend(n, then, within, found, w);
    std::reverse(found.of.begin(), found.of.begin() + found.count);
  }
  /// The first pair of the interval (scan.hpp), or if Down the last one; null: there is none.
  template <bool Down, class Instant, class Within>
  const pair* outermost_at(session&, const Instant& then, const Within& within) const {
    const auto* const key = [&] {
      if constexpr (Down) return within.to;
      if constexpr (!Down) return within.from;
    }();
    node* const n = key == nullptr ? nullptr : first_node(then, *key);
    const pair* const beside = n == nullptr ? nullptr : outermost<Down>(n, then, within);
    if (beside != nullptr) return beside;
    node* const top = top_at(then);
    return top == nullptr ? nullptr : outermost<Down>(top, then, within);
  }
  /// The pairs of a leaf that are within the limits. Inside a session only if it is for a lease.
  template <class Instant>
  pairs pairs_of(const leaf& l, const Instant& then, const limits& within) const {
    return within_limits(l.at(time_of(then), time()), within);
  }
  /// Of the pairs of a leaf those that are within the limits.
  pairs within_limits(pairs some, const limits& l) const {
    if (some.empty()) return some;
    std::size_t first = 0;
    if (l.lo != nullptr && !less_(*l.lo, some.front().key())) {
      const auto lo = leaves_.find(some, *l.lo);
      first = lo.at + (lo.found && l.open ? 1 : 0);
    }
    std::size_t end = some.size();
    if (l.is_over_at(some.back().key(), less_)) {
      const auto hi = leaves_.find(some, *l.hi);
      end = hi.at + (hi.found && l.closed ? 1 : 0);
    }
    return some.subspan(first, (std::max)(first, end) - first);
  }

 private:
  template <class Instant>
  void find_first(const Instant& then, const limits& within, chunk& found, which w) const {
    limits rest = within;
    auto way = shortcuts_.walk_from(rest.lo, rest.hi, time_of(then));
    if (way) way.fetch_first();
    for (; way; way.step()) {
      way.fetch_ahead();
      const key_type* const end = way.end();
      const bool last = end == nullptr || rest.is_over_at(*end, less_);
      node* n = way.router();
      if (n != nullptr && !last && rest.lo != within.lo && w == which::all) {
        all_below(*Nodes::as_internal(n), then, found);
      } else {
        // Of the same table: another one's may route less.
        if (n == nullptr && rest.lo != nullptr) n = way.higher(*rest.lo, less_);
        if (n == nullptr) n = top_at(then);
        if (n != nullptr) ascend(n, then, last ? rest : limits{rest.lo, end, rest.open}, found, w);
      }
      if (found.is_full()) way.fetch_leaves();
      if (last || found.is_full()) return;
      rest.lo = end;
      rest.open = false;
    }
    if (node* const n = top_at(then)) ascend(n, then, rest, found, w);
  }
  /// On the way to a key: the first node, or one from which on the way is as from the first. Null
  /// if the tree is younger.
  template <class K, class Instant>
  node* first_node(const Instant& then, const K& key) const {
    const internal* const i = shortcuts_.nearest(key, time_of(then));
    if (i == nullptr) return top_at(then);
    const link* const l = link_at(*i, less_(key, i->key) ? 0 : 1, then);
    return l == nullptr ? nullptr : l->to;
  }
  /// Null if the tree is younger.
  template <class Instant>
  node* top_at(const Instant& then) const {
    const link* const top = link_at(entry_, 0, then);
    return top == nullptr ? nullptr : top->to;
  }
  template <class Instant>
  node* at(const internal& i, unsigned side, const Instant& then) const {
    return link_at(i, side, then)->to;
  }
  void fetch_side(const node* n, const key_type& key) const {
    if (n == nullptr || n->is_leaf()) return;
    const internal* const i = Nodes::as_internal(n);
    i->child(less_(key, i->key) ? 0 : 1).prefetch();
  }
  /// One step down; false if there is none after it.
  bool step_down(const node*& n, const key_type& key, std::uint64_t then) const {
    if (n == nullptr || n->is_leaf()) return false;
    const internal* const i = Nodes::as_internal(n);
    const link* const l = link_at(*i, less_(key, i->key) ? 0 : 1, then);
    n = l == nullptr ? nullptr : l->to;
    if (l != nullptr) Nodes::prefetch(*l);
    return l != nullptr && !l->to_leaf;
  }
  static std::uint64_t time_of(std::uint64_t then) noexcept { return then; }
  static std::uint64_t time_of(const lease& then) noexcept { return then.timestamp(); }
  const link* link_at(const internal& i, unsigned side, std::uint64_t then) const noexcept {
    return i.child(side).at(collector_.time(), then);
  }
  /// Looks at the lease after each link: if it was ended that may be an older version, and name a
  /// node that was freed long ago.
  const link* link_at(const internal& i, unsigned side, const lease& then) const {
    return then.look([&] { return link_at(i, side, then.timestamp()); });
  }

  template <class Instant>
  pairs pairs_at(const node* n, const Instant& then) const {
    return Nodes::as_leaf(n)->at(time_of(then), time());
  }

  template <class Instant>
  void add(const leaf& l, const Instant& then, const limits& within, chunk& found, which w) const {
    if (w == which::all || !pairs_of(l, then, within).empty()) found.add(l);
  }

  // As deep as the tree is high, all three.
  template <class Instant>
  void ascend(node* n, const Instant& then, limits within, chunk& found, which w) const {
    if (n->is_leaf()) return add(*Nodes::as_leaf(n), then, within, found, w);
    const internal* const i = Nodes::as_internal(n);
    const bool goes_left = within.lo == nullptr || less_(*within.lo, i->key);
    const bool goes_right = !within.is_over_at(i->key, less_);
    i->prefetch();
    const link* const left = goes_left ? link_at(*i, 0, then) : nullptr;
    const link* const right = goes_right ? link_at(*i, 1, then) : nullptr;
    if (left != nullptr) Nodes::prefetch(*left);
    if (right != nullptr) Nodes::prefetch(*right);  // comes while the left side is walked
    if (left != nullptr) {
      // What is on this side is before what is on the other one.
      const key_type* const hi = goes_right ? nullptr : within.hi;
      ascend(left->to, then, {within.lo, hi, within.open, within.closed}, found, w);
      within.lo = nullptr;  // what comes is after it
    }
    if (right != nullptr && !found.is_full()) ascend(right->to, then, within, found, w);
  }
  /// All leaves below a router. It may have got keys beyond the limits since it was noted.
  template <class Instant>
  void all_below(const internal& i, const Instant& then, chunk& found) const {
    const std::array<const link*, 2> sides{link_at(i, 0, then), link_at(i, 1, then)};
    for (const link* const l : sides) {
      if (l == nullptr || found.is_full()) return;
      if (l->to_leaf) {
        found.add(*Nodes::as_leaf(l->to));
      } else {
        Nodes::as_internal(l->to)->prefetch();
        all_below(*Nodes::as_internal(l->to), then, found);
      }
    }
  }
  void descend(node* n, std::uint64_t then, limits within, chunk& found, which w) const {
    if (n->is_leaf()) return add(*Nodes::as_leaf(n), then, within, found, w);
    const internal* const i = Nodes::as_internal(n);
    if (!within.is_over_at(i->key, less_)) {
      descend(at(*i, 1, then), then, within, found, w);
      within.hi = nullptr;
    }
    if (found.is_full()) return;
    if (within.lo == nullptr || less_(*within.lo, i->key)) {
      descend(at(*i, 0, then), then, within, found, w);
    }
  }

  template <bool Down, class Instant, class Within>
  const pair* outermost(node* n, const Instant& then, const Within& within) const {
    if (n->is_leaf()) return outermost_of<Down>(pairs_at(n, then), within);
    const internal* const i = Nodes::as_internal(n);
    i->prefetch();
    const bool goes_left = within.from == nullptr || less_(*within.from, i->key);
    const bool goes_right = !within.is_over_at(i->key, less_);
    if (Down ? goes_right : goes_left) {
      const pair* const beside = outermost<Down>(at(*i, Down ? 1 : 0, then), then, within);
      if (beside != nullptr) return beside;
    }
    if (Down ? !goes_left : !goes_right) return nullptr;
    return outermost<Down>(at(*i, Down ? 0 : 1, then), then, within);
  }
  template <bool Down, class Within>
  const pair* outermost_of(pairs some, const Within& within) const {
    const auto place = std::partition_point(some.begin(), some.end(), [&](const pair& p) {
      return Down ? !within.is_over_at(p.key(), less_) : within.is_after(p.key(), less_);
    });
    if (place == (Down ? some.begin() : some.end())) return nullptr;
    const pair& found = Down ? *(place - 1) : *place;
    return within.template is_left_at<Down>(found.key(), less_) ? nullptr : &found;
  }

  auto& time() const noexcept { return collector_.time(); }

  Collector& collector_;
  const internal& entry_;
  const Compare& less_;
  const leaves& leaves_;
  const Shortcuts& shortcuts_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

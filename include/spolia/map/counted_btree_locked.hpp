// SPDX-License-Identifier: Apache-2.0
/// \file
/// counted_btree_locked: the B+ tree over counted pointers (counted_btree.hpp) with a lock in each
/// node: writers of different leaves do not wait for each other, and readers for no writer.
///
///     spolia::counted_btree_locked<std::string, int> stock;
///     stock.insert("nails", 100);                        // by any number of threads
///     stock.visit("nails", [](const int& n) { ... });    // the value stays while this runs
///
/// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 4.4.2.
/// Idea:        an update goes down without locks, locks the leaf of its key, and certifies it. If
///              the leaf has to be replaced, the node above is locked and certified, too, and so on
///              upwards, as far as nodes change; then one link is swung, and all is let go of. What
///              was taken out is marked by a state of its lock. Look-ups walk by views, which for
///              Spolia's own pointers count nothing, and lock nothing.
/// Departures:
///   1. The paper replaces a leaf at each update. Here a leaf takes a pair in, and gives one up, by
///      one store to a word (counted_btree.hpp): so the node above is locked once in some 16
///      insertions, and a copy of it is made once in some 200.
///   2. For the same reason leaves join a node that stays. So to be certified a leaf must be
///      current, and no leaf have joined the node since the search chose one of its children: it
///      may be a lower half. A look-up that has not found its key asks the same.
///   3. An update that comes upon a node that was taken out begins anew; the paper goes on from the
///      place that it remembers.
///   4. What a node leads to is cut off once it was taken out and its children hang elsewhere, as
///      in counted_tree.hpp, and for the same reason. A look-up that comes upon such a link begins
///      anew: so its steps are not bounded, as the paper's are, but its memory is.
///   5. Leaves that are empty go when there are some of them in one node, and nodes that would be
///      empty with them. (The paper does not say when.) Leaves with few pairs are not merged.
/// Protects:    nothing itself; nodes stay as long as a thread views them.
/// Locks:       a thread waits for the lock of a node only if it has none, or that of one of the
///              node's children: so there is no circle. To take out empty leaves it tries their
///              locks while it has that of the node above, and leaves alone those that are taken.
/// Progress:    look-ups are lock-free: they wait for no lock, and begin anew only if a leaf was
///              divided or a node taken out while they were at it. Updates wait for updates of the
///              same leaf, and, if a leaf or a node has to be replaced, of the same node above.
/// Linearizability: an update at its store to the leaf's word or to a link, or of how many leaves
///              there are, under its locks. Since these are plain stores, one that has changed
///              something ends in a full fence (detail/after_update.hpp). A look-up at its look at
///              the leaf's word, or, if the leaf was taken out before, when that was: from then on
///              its word stays as it is. Each node on the way was in the tree at some moment of the
///              call, since a node that was taken out leads to what it led to then, or nowhere.
///              While a leaf is being divided, its upper half is both in it and in the new leaf: no
///              look-up that begins then is led to the former, and one that was led there before
///              has begun before.
/// Order:       what finds a pair by its place in the order, and scans: leaf by leaf, each as it
///              is at one moment, as map/concepts.hpp says of maps without snapshots.
/// Memory:      a thread holds up two nodes while it looks up, one of them a leaf, and all nodes on
///              its way while it updates or scans; in the middle of an update also those that the
///              update replaces. A node that was taken out holds up nothing, so this is the bound
///              however long a thread is stopped: for keys and values of 8 bytes 0.5 KiB a leaf,
///              and at most 8.4 KiB a node above. What was taken out and is held up by no thread
///              waits as counted pointers do (docs/memory.md): 16 384 references of each thread, or
///              1 MiB of large values, and a quarter of a second in a program that does nothing
///              else. If memory is short as a node is cut off, it is not.
/// Errors:      std::bad_alloc, and what copying and comparing keys and values throws: then nothing
///              has changed.
/// Fork:        in the child, locks of threads that were lost go to the next thread that wants
///              them. The map is as before what they did, or as after it; size_approx() may count a
///              pair too many for each lost insertion.
/// Values that own memory are out of line, as in counted_btree.
/// Keys are copied, compared and destroyed while nodes are locked, and values are copied: what that
/// does must not change the same map. A value's destructor may: over Spolia's own pointers it runs
/// after the locks, also where a later copy fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/counted_btree_base.hpp>
#include <spolia/map/detail/counted_face.hpp>
#include <spolia/map/detail/counted_writer.hpp>
#include <spolia/map/detail/ordered_reads.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/map/detail/writers_turn.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Key, class Value, class Family = thin_family, class Compare = default_order<Key>>
class counted_btree_locked
    : private detail::map::kinds_counted_by_order<Key, Family, Compare>,
      public detail::map::counted_face<counted_btree_locked<Key, Value, Family, Compare>, Key,
                                       Value>,
      public detail::map::counted_btree_base<Key, Value, Family, Compare,
                                             detail::map::writers_turn>,
      public detail::map::ordered_reads<counted_btree_locked<Key, Value, Family, Compare>, Key,
                                        Value, detail::map::by_order<Key, Compare>, false> {
  friend detail::map::counted_face<counted_btree_locked, Key, Value>;
  friend detail::map::ordered_reads<counted_btree_locked, Key, Value,
                                    detail::map::by_order<Key, Compare>, false>;
  using turn = detail::map::writers_turn;
  using turn_held = detail::map::turn_held;
  using base = detail::map::counted_btree_base<Key, Value, Family, Compare, turn>;
  using base::less_;
  using base::root_;
  using base::set_inner;
  using typename base::inner;
  using typename base::inner_location;
  using typename base::inner_row;
  using typename base::kept_leaves;
  using typename base::leaf;
  using typename base::leaf_pointer;
  using typename base::new_leaves;
  using typename base::stamp;

 public:
  explicit counted_btree_locked(Compare less = {}) : base(std::move(less)) {}
  /// Of pairs, things with `first` and `second`, whose keys ascend, in linear time. Throws
  /// std::invalid_argument if a key is not after the one before it, std::bad_alloc, and what
  /// copying and comparing throw; then there is no map, and the range is as it was.
  template <std::forward_iterator Iterator>
  counted_btree_locked(sorted_unique_t /*are*/, Iterator first, Iterator last, Compare less = {})
      : base(std::move(less)) {
    auto& mine = size_.here();
    this->begin_with("counted_btree_locked", first, last, mine.stamped);
    mine.added.add(static_cast<std::uint64_t>(std::distance(first, last)));
  }
  /// Not beside anything.
  ~counted_btree_locked() = default;

  /// May lag behind changes under way.
  [[nodiscard]] std::size_t size_approx() const noexcept { return size_.approx(); }

 private:
  /// How an attempt has ended.
  enum class attempt : std::uint8_t { again, changed_nothing, changed };

  /// One node on an update's way down, or, above the root, the map itself.
  struct hop {
    inner* node;           // null: the map
    inner_location* link;  // leads to the node
    hop* above;
    std::size_t child = 0;    // which one the way goes on to
    std::uint32_t late = 0;   // of how many
    std::uint64_t began = 0;  // by which thread, of which process
    turn_held held{};
  };

  // ---- in order

  [[nodiscard]] const counted_btree_locked& ordered() const noexcept { return *this; }
  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    detail::map::scan_in_batches<Down, Key, Value>(
        within, less_, leaf::most,
        [&](const auto& rest, auto& some) { return gather<Down>(rest, some); }, f);
  }
  template <bool Down, class Within>
  [[nodiscard]] auto outermost(const Within& within) const {
    detail::map::one_pair<Key, Value> found;
    gather<Down>(within, found);
    return found.taken();
  }
  template <bool Down, class Rest, class Some>
  bool gather(const Rest& rest, Some& some) const {
    detail::map::progress<Key> on;
    return gather_on<Down>(rest, some, on);
  }
  /// Of the first leaf that has any.
  template <bool Down, class Rest, class Some, class On>
  bool gather_on(Rest rest, Some& some, On& on) const {
    std::optional<Key> from;
    for (;;) {
      std::optional<Key> end;
      while (!gather_of_leaf<Down>(rest, some, end)) end.reset();
      if (!some.empty()) return true;
      if (!end || !on.template goes_on<Down>(*end, less_)) return false;
      from.swap(end);
      auto others = rest.template beyond<Down>(*from);
      if constexpr (!Down) others.with_from = true;
      if constexpr (std::is_same_v<Rest, decltype(others)>) {
        rest = others;
      } else {
        return gather_on<Down>(others, some, on);
      }
    }
  }
  /// Of the leaf where the interval begins, or if Down ends. `end`: where what belongs to that leaf
  /// ends or, if Down, begins, if another one lies beyond. False: that is to be done anew.
  template <bool Down, class Rest, class Some>
  bool gather_of_leaf(const Rest& rest, Some& some, std::optional<Key>& end) const {
    const auto child_of = [&](const inner& at, std::uint32_t late) -> std::size_t {
      if constexpr (Down) {
        const auto begins = [&](const Key& begin) { return !rest.is_over_at(begin, less_); };
        return at.last_child(begins, late, less_);
      } else {
        return rest.from == nullptr ? 0 : at.child(*rest.from, late, less_);
      }
    };
    const auto note = [&](const Key* edge) {
      if (edge != nullptr) end.emplace(*edge);
    };
    auto at = Family::template look<inner>(root_);
    while (at->over_inners()) {
      const std::size_t i = child_of(*at, 0);
      note(Down ? at->begin(i) : at->bound(i, 0, less_));
      if (!detail::map::follow<inner>(Family(), at, at->inner(i))) return false;
    }
    const inner& above = *at;  // stays while `in` is where it begins
    const std::uint32_t late = above.late();
    const std::size_t i = child_of(above, late);
    const Key* const bound = above.bound(i, late, less_);
    note(Down ? above.begin(i) : bound);
    const auto in = Family::template onward<leaf, inner>(std::move(at), above.leaf(i));
    if (!in) return false;
    auto order =
        in->order_seen(SPOLIA_FAULT("counted_btree_locked.no_bound") ? nullptr : bound, less_);
    if (!above.has_still(late) && !SPOLIA_FAULT("counted_btree_locked.one_look")) return false;
    if constexpr (Down) order.reverse();
    for (const std::uint8_t slot : order) {
      const Key& key = in->key(slot);
      if (rest.template begins_beyond<Down>(key, less_)) continue;
      if (rest.template is_left_at<Down>(key, less_)) {
        end.reset();
        break;
      }
      some.emplace_back(key, in->value(slot));
      if constexpr (detail::map::room_of<Some> == 1) break;
    }
    return true;
  }

  // ---- updates

  /// then(hop of the lowest inner node) until it answers something else than `again`. What a failed
  /// attempt has made ends before the next one, while there are no locks.
  template <class K, class Then, class... Made>
  attempt go_down(const K& key, const Then& then, Made&... in_vain) {
    detail::map::set_quietly<Family> quietly;
    for (;;) {
      quietly.to_set();
      hop top{nullptr, nullptr, nullptr};
      top.began = threads::identity();
      const attempt how = go_on(key, top, root_, then);
      if (how != attempt::again) return how;
      (in_vain.reset(), ...);
    }
  }
  template <class K, class Then>
  attempt go_on(const K& key, hop& above, inner_location& link, const Then& then) {
    const auto at = Family::template look<inner>(link);
    if (!at) return attempt::again;
    hop here{std::addressof(*at), std::addressof(link), std::addressof(above)};
    here.began = above.began;
    if (!at->over_inners()) {
      here.late = at->late();
      here.child = at->child(key, here.late, less_);
      return then(here);
    }
    here.child = at->child(key, 0, less_);
    return go_on(key, here, at->inner(here.child), then);
  }

  /// In a child of a fork, a thread that was lost may have taken the node out and not said so. It
  /// has not if a search that has begun in the child has found the node.
  static turn::entered enter(turn& of, const hop& by) {
    const auto how = of.enter([&](std::uint64_t self) { return self == by.began; });
    // acquire ← the release in close: a new search finds what has come in the node's place.
    if (how == turn::entered::never) static_cast<void>(of.is_closed());
    return how;
  }
  /// Locks a node, and certifies it: false: it was taken out. Until it is let go of, its links
  /// change by this thread alone.
  [[nodiscard]] bool lock(hop& at) {
    turn& of = at.node == nullptr ? root_turn_ : at.node->lock;
    if (enter(of, at) == turn::entered::never) return false;
    at.held.hold(of);
    return true;
  }

  /// change(hop above the leaf, leaf, its lock) of the key's leaf, which is locked, and certified.
  template <class K, class Change>
  bool at_leaf(const K& key, kept_leaves& fresh, const Change& change) {
    const auto at_hop = [&](hop& above) {
      const auto in = Family::template look<leaf>(above.node->leaf(above.child));
      if (!in) return attempt::again;
      const auto how = enter(in->lock, above);
      if (how == turn::entered::never) return attempt::again;
      turn_held held(in->lock);
      if (!above.node->has_still(above.late) && !SPOLIA_FAULT("counted_btree_locked.not_certified"))
        return attempt::again;
      if (how == turn::entered::after_lost) [[unlikely]] {
        in->take_out_from(above.node->bound(above.child, above.late, less_), less_);
      }
      return change(above, *in, held);
    };
    return go_down(key, at_hop, fresh) == attempt::changed;
  }

  /// Counts a pair before it is there, so that there are never fewer.
  class one_more {
   public:
    one_more(detail::map::size_counter::mine& of, bool at_all) : of_(of), counts_(at_all) {
      if (counts_) of_.added.add(1);
    }
    one_more(const one_more&) = delete;
    one_more& operator=(const one_more&) = delete;
    ~one_more() {
      if (counts_) of_.removed.add(1);
    }
    void stays() noexcept { counts_ = false; }

   private:
    detail::map::size_counter::mine& of_;
    bool counts_;  // and will take it back
  };

  template <class K, class... Seen>
  bool put(const K& key, const Value& value, bool assign, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    auto& mine = size_.here();
    bool was_there = false;
    kept_leaves fresh;
    const bool changed = at_leaf(key, fresh, [&](hop& above, leaf& in, turn_held& held) {
      const std::size_t i = in.find(key, less_);
      was_there = i != leaf::absent;
      if (was_there ? !assign || !(in.has(i, was) && ...) : only_for_seen)
        return attempt::changed_nothing;
      one_more grown(mine, !was_there);
      const auto how = put_at(above, in, held, fresh, i, stays(in, i, key), value,
                              detail::map::next_stamp<Value>(mine.stamped));
      if (how == attempt::changed) grown.stays();
      return how;
    });
    return changed && (only_for_seen || !was_there);
  }

  /// The key that is in the slot, or, where none is, the given one.
  static const Key& stays(const leaf& in, std::size_t i, const Key& given) noexcept {
    return i != leaf::absent ? in.key(i) : given;
  }
  /// Of another type: it is there.
  template <class K>
  static const Key& stays(const leaf& in, std::size_t i, const K&) noexcept {
    return in.key(i);
  }

  /// Into the leaf; `instead` of the pair in a slot, or of none.
  attempt put_at(hop& above, leaf& old, turn_held& held, kept_leaves& kept, std::size_t instead,
                 const Key& key, const Value& value, stamp s) {
    if (old.has_room() && (leaf::forgets || instead == leaf::absent)) {
      old.add(key, value, s, instead);
      return attempt::changed;
    }
    return base::with_leaves(kept, [&](new_leaves& fresh) {
      return put_anew(above, old, held, fresh, instead, key, value, s);
    });
  }
  SPOLIA_NOINLINE attempt put_anew(hop& above, leaf& old, turn_held& held, new_leaves& fresh,
                                   std::size_t instead, const Key& key, const Value& value,
                                   stamp s) {
    const auto order = old.in_order_with(key, instead, nullptr, less_);
    if (order.size <= leaf::crowded) {
      fresh.fill(old, order.begin(), order.end(), key, value, s);
      return put_leaf(above, held, fresh.low);
    }
    fresh.divide(old, order, key, value, s);
    if (!lock(above)) return attempt::again;
    inner& node = *above.node;
    if (node.has_room()) {
      node.add_leaf(fresh.first(), std::move(fresh.high));
      set_leaf(above, std::move(fresh.low));
    } else {
      auto more = node.leaf_row(less_, [](std::size_t) { return true; });
      more.replace_by_two(fresh.low, fresh.first(), fresh.high, less_);
      if (!replace(above, std::move(more))) return attempt::again;
    }
    held.close();
    return attempt::changed;
  }
  /// In the place of the one that is locked by `held`.
  attempt put_leaf(hop& above, turn_held& held, leaf_pointer& fresh) {
    if (!lock(above)) return attempt::again;
    set_leaf(above, std::move(fresh));
    held.close();
    return attempt::changed;
  }
  static void set_leaf(const hop& above, leaf_pointer p) {
    Family::template set<leaf>(above.node->leaf(above.child), std::move(p));
  }

  /// Sets the node, which is locked, anew, and those above it if it has become too large. False:
  /// nothing has changed, since one of them was taken out.
  template <class Row>
  bool replace(hop& at, Row fresh) {
    hop& above = *at.above;
    if (fresh.children.size() <= inner::most) {
      auto made = Family::template make<inner>(std::move(fresh));
      if (!lock(above)) return false;
      set_inner(*at.link, std::move(made));
    } else {
      typename base::template split<Row> two(std::move(fresh));
      if (!lock(above)) return false;
      if (above.node == nullptr) {
        set_inner(*at.link, two.as_root());
      } else {
        inner_row more = above.node->inner_row(less_, [](std::size_t) { return true; });
        more.replace_by_two(std::move(two.low), two.middle, std::move(two.high), less_);
        if (!replace(above, std::move(more))) return false;
      }
    }
    take_out(at);
    return true;
  }
  /// Of a node that the tree has no more. First no thread gets its lock, then it leads nowhere.
  static void take_out(hop& at) {
    at.held.close();
    detail::map::let_fail([&] { at.node->cut_off(); });
  }

  template <class K, class... Seen>
  bool remove(const K& key, const Seen&... was) {
    auto& mine = size_.here();
    bool tidies = false;
    kept_leaves fresh;
    const bool gone = at_leaf(key, fresh, [&](hop& above, leaf& in, turn_held& held) {
      const std::size_t i = in.find(key, less_);
      if (i == leaf::absent || !(in.has(i, was) && ...)) return attempt::changed_nothing;
      const bool last = in.size() == 1;
      if constexpr (leaf::forgets) {
        in.take_out(i);
      } else {
        auto order = in.in_order(nullptr, less_);
        order.erase(i);
        fresh.fill(in, order.begin(), order.end(), in.key(i), in.value(i), {});
        const auto how = put_leaf(above, held, fresh.low);
        if (how == attempt::again) return how;
      }
      mine.removed.add(1);
      tidies = last && above.node->has_emptied();
      return attempt::changed;
    });
    // Leaves stay, empty, if that takes memory, or a copy of a key, that cannot be had.
    if (tidies) detail::map::let_fail([&] { tidy(key); });
    return gone;
  }

  /// An empty leaf that is locked, which no view holds.
  struct kept_empty {
    leaf_pointer leaf_there;
    turn_held held;
  };
  /// Takes out the empty leaves of the node that the key is below.
  template <class K>
  void tidy(const K& key) {
    go_down(key, [&](hop& at) {
      if (!lock(at)) return attempt::again;
      std::vector<kept_empty> empty;
      const auto is_kept = [&](std::size_t i) {
        const auto& link = at.node->leaf(i);
        leaf& in = *detail::map::peek<Family, leaf>(link);
        if (in.size() != 0) return true;
        if (SPOLIA_FAULT("counted_btree_locked.empties_not_locked")) return false;
        // A thread that waits for this node may have it.
        if (!in.lock.try_enter()) return true;
        turn_held held(in.lock);
        if (in.size() != 0) return true;
        empty.push_back({SPOLIA_FAULT("counted_btree_locked.empties_not_held")
                             ? leaf_pointer()
                             : detail::map::copy<Family, leaf>(link),
                         std::move(held)});
        return false;
      };
      auto rest = at.node->leaf_row(less_, is_kept);
      if (rest.children.size() == at.node->children()) return attempt::changed_nothing;
      if (!put_rest(at, std::move(rest))) return attempt::again;
      for (kept_empty& each : empty) each.held.close();
      return attempt::changed;
    });
  }
  /// What is left of a node that is locked, in its place; if that is nothing, it goes.
  template <class Row>
  bool put_rest(hop& at, Row rest) {
    if (!rest.children.empty()) return replace(at, std::move(rest));
    hop& above = *at.above;
    if (above.node == nullptr) {
      auto made = base::first_root();
      if (!lock(above)) return false;
      set_inner(*at.link, std::move(made));
    } else {
      if (!lock(above)) return false;
      inner_row others =
          above.node->inner_row(less_, [&](std::size_t i) { return i != above.child; });
      if (!put_rest(above, std::move(others))) return false;
    }
    take_out(at);
    return true;
  }

  detail::map::size_counter size_;
  turn root_turn_;  // for the link to the root
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

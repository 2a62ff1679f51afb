// SPDX-License-Identifier: Apache-2.0
/// \file
/// counted_tree: a binary search tree over counted pointers, not balanced, whose nodes have locks:
/// writers of different places do not wait for each other, and readers for no writer.
///
///     spolia::counted_tree<std::string, int> stock;
///     stock.insert("nails", 100);                        // by any number of threads
///     stock.visit("nails", [](const int& n) { ... });    // the value stays while this runs
///
/// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 4.1, Listing 2 (insertion)
///              and section 4.4.1 (removal: the way down from the pivot to its minimal descendant
///              is locked and built anew, and one link is swung).
/// Idea:        a node never changes but for its links. A pair is put in at a null link of its
///              parent; a value is replaced with its node. Updates lock in two phases: first all
///              nodes that they change or replace, from above, then they change one link, and let
///              go of all. A node that was locked is certified: if it is current no more, the
///              update searches anew. Look-ups walk by views, which for Spolia's own pointers count
///              nothing, and lock nothing.
/// Departures:
///   1. The paper's bool `current` is a state of the lock: no thread gets the lock of a node that
///      was taken out. So there is one word, and certification is a part of locking.
///   2. A value is not overwritten in place, as Listing 2 does, since look-ups may be reading it:
///      its node is replaced by one with the same children. For that the parent is locked, too.
///   3. What hangs below a node that was taken out is cut off once it hangs elsewhere. In the paper
///      such a node leads on to what it led to: nodes that are taken out later stay as long as it
///      does, then those below them, and where keys ascend and the lowest ones are erased, a reader
///      that stalls keeps all nodes that come after it. Here a look-up that finds the end of a way
///      at a node that was taken out begins anew. So its steps are not bounded, as the paper's are,
///      but its memory is.
///   4. An insertion that finds another one in its place under the lock begins anew, where Listing
///      2 goes on from there: so there is one way down that has to be right.
/// Protects:    nothing itself; nodes stay as long as a thread views them.
/// Locks:       are taken from parent to child, and all but the first one while the parent's is
///              held, whose links do not change then. A thread that waits for a lock has certified
///              all that it holds, and waits for the child of one of these, or holds none. So
///              threads that wait for each other in a circle would have a circle of parents and
///              children in the tree. (The paper does not say why there is no deadlock.)
/// Progress:    look-ups are lock-free: they wait for no lock, and begin anew only if a node was
///              taken out while they were at it. Updates wait for updates of the same nodes: an
///              insertion for those of its parent, an erasure also for those of its node and, if it
///              has two children, of the nodes on the way to the next key.
/// Linearizability: an update at the setting of its link, under its locks. A look-up at a moment at
///              which the node where it ends was in the tree: while a node is in the tree, the keys
///              that are searched for through it can become more, never less (nodes are put in at
///              ends of ways, and what is left of an erased node's children goes where that was);
///              when it is taken out, it is locked, so its links are those of that moment until
///              they are cut.
/// Order:       what finds a pair by its place in the order, and scans: one search for each pair,
///              as map/concepts.hpp says of maps without snapshots.
/// Memory:      a node has 40 bytes with a key and value of 8 each, and the pointers' count.
///              A thread holds up two nodes while it looks up, and four while it updates or scans,
///              however long it is stopped; in the middle of an update also those that the update
///              replaces, which are as many as the way is long. What was taken out and is held up
///              by no thread waits as counted pointers do (docs/memory.md): 16 384 references of
///              each thread, or 1 MiB of large values, and a quarter of a second in a program that
///              does nothing else. If there is no memory to cut a node off, it stays as it is.
/// Errors:      std::bad_alloc, and what copying and comparing keys and values throws: then nothing
///              has changed.
/// Fork:        in the child, locks of threads that were lost go to the next thread that wants
///              them. Each change is one setting of a link, so the map is as before it or as after
///              it; size_approx() may count a pair too many for each lost update.
/// Cost:        logarithmic in a tree that was filled in random order, linear in one that was
///              filled in ascending order.
/// Keys and values that erasures of nodes with two children, and replacements of values, copy are
/// copied while nodes are locked: what these copies do must not change the same map, nor must a
/// key's destructor, which runs there where the value beside it cannot be copied. A value's
/// destructor may: over Spolia's own pointers it runs after the locks, also where a later copy
/// fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/counted_face.hpp>
#include <spolia/map/detail/counted_look.hpp>
#include <spolia/map/detail/counted_writer.hpp>
#include <spolia/map/detail/ordered_reads.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/map/detail/stamped_pair.hpp>
#include <spolia/map/detail/writers_turn.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Key, class Value, class Family = thin_family, class Compare = default_order<Key>>
class counted_tree
    : private detail::map::kinds_counted_by_order<Key, Family, Compare>,
      public detail::map::counted_face<counted_tree<Key, Value, Family, Compare>, Key, Value>,
      public detail::map::counted_looks<counted_tree<Key, Value, Family, Compare>, Key, Value,
                                        Family, detail::map::by_order<Key, Compare>>,
      public detail::map::ordered_reads<counted_tree<Key, Value, Family, Compare>, Key, Value,
                                        detail::map::by_order<Key, Compare>, false> {
  friend detail::map::counted_face<counted_tree, Key, Value>;
  friend detail::map::counted_looks<counted_tree, Key, Value, Family,
                                    detail::map::by_order<Key, Compare>>;
  friend detail::map::ordered_reads<counted_tree, Key, Value, detail::map::by_order<Key, Compare>,
                                    false>;
  template <class F, class Map, class K>
  friend auto detail::map::seek_by_any(const Map&, detail::map::key_handed<K>);
  template <class Fam, class Map, class K, class F>
  friend bool detail::map::look_at(const Map&, const K&, F&&);
  struct node;
  using location = typename Family::template location<node>;
  using pointer = typename Family::template pointer<node>;
  using view = typename Family::template view<node>;
  using stamp = detail::map::value_stamp<Value>;

  /// What a node is to those below it.
  struct parent_of_two {
    parent_of_two() = default;
    detail::map::writers_turn lock;  // closed: it is not current
    location left{};
    location right{};
  };
  struct node : parent_of_two, detail::map::stamped_pair<Key, Value> {
    /// The links last: if a copy fails, the caller still has what would hang below.
    node(const Key& k, const Value& v, stamp s, pointer&& l, pointer&& r)
        : node::stamped_pair(k, v, s) {
      hang(this->left, std::move(l));
      hang(this->right, std::move(r));
    }
    static void hang(location& below, pointer&& p) {
      if (!p) return;
      std::destroy_at(std::addressof(below));
      std::construct_at(std::addressof(below), std::move(p));
    }
    static constexpr bool is_weighed_late = !weightless<Key, Value>;
  };

 public:
  using key_compare = Compare;

  explicit counted_tree(Compare less = {}) : less_(std::move(less)) {}
  /// Not beside anything.
  ~counted_tree() = default;

  /// May lag behind changes under way.
  [[nodiscard]] std::size_t size_approx() const noexcept { return size_.approx(); }

 private:
  static constexpr auto publishes = detail::map::published::by_exchange;

  // ---- look-ups

  /// then(view) of the key's node, or of null.
  template <class K, class Views, class Then>
  SPOLIA_ALWAYS_INLINE auto seek(Views by, const K& key, const Then& then) const {
    for (;;) {
      auto at = by.template look<node>(root());
      if (!at) return then(at);
      for (;;) {
        const auto left = static_cast<bool>(less_(key, at->key));
        if (!left && !less_(at->key, key)) return then(at);
        if (!detail::map::follow<node>(by, at, left ? at->left : at->right)) break;
      }
      if (is_cut_off(*at)) [[unlikely]]
        continue;
      by.template step<node>(at, nothing());
      return then(at);
    }
  }
  /// For a thread that finds the end of a way there: whether that says nothing.
  static bool is_cut_off(const parent_of_two& at) noexcept {
    return at.lock.is_closed() && !SPOLIA_FAULT("counted_tree.one_look");
  }

  // ---- in order

  [[nodiscard]] const counted_tree& ordered() const noexcept { return *this; }
  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    detail::map::scan_in_batches<Down, Key, Value>(
        within, less_, detail::map::scan_batch,
        [&](const auto& rest, auto& some) { return gather<Down>(rest, some); }, f);
  }
  template <bool Down, class Within>
  [[nodiscard]] auto outermost(const Within& within) const {
    detail::map::one_pair<Key, Value> found;
    append_next<Down>(within, found);
    return found.taken();
  }
  template <bool Down, class Rest, class Some>
  bool gather(const Rest& rest, Some& some) const {
    bool more = append_next<Down>(rest, some);
    while (more && some.size() < detail::map::room_of<Some>) {
      more = append_next<Down>(rest.template beyond<Down>(some.back().first), some);
    }
    return !some.empty();
  }
  /// The first pair of the interval, or if Down its last.
  template <bool Down, class Rest, class Some>
  bool append_next(const Rest& rest, Some& some) const {
    for (;;) {
      view one = Family::template look<node>(root());
      view other = Family::template look<node>(nothing());
      view* at = &one;
      view* nearest = &other;  // of those in the interval that were passed
      bool anew = false;
      while (*at) {
        const node& here = **at;
        if (rest.template begins_beyond<Down>(here.key, less_)) {
          if (detail::map::follow<node>(Family(), *at, Down ? here.left : here.right)) continue;
          anew = is_cut_off(here);
          break;
        }
        // What was nearest until now goes on from here.
        Family::template step<node>(*nearest, Down ? here.right : here.left);
        std::swap(at, nearest);
        anew = !*at && is_cut_off(here);
      }
      if (anew) continue;
      if (!*nearest) return false;
      const node& found = **nearest;
      if (rest.template is_left_at<Down>(found.key, less_)) return false;
      some.emplace_back(found.key, found.value);
      return true;
    }
  }

  // ---- updates

  /// Listing 2's way down, by private pointers to the parent and the current node. The two step by
  /// turns, so neither is copied.
  class way_down {
   public:
    template <class K>
    way_down(counted_tree& in, const K& key)
        : one_(Family::template look<node>(in.nothing())),
          other_(Family::template look<node>(in.nothing())) {
      do {
        parent_ = &in.head_;
        link_ = &in.head_.left;
        began_ = threads::identity();
        while (!ends_below(in, key)) {
        }
      } while (curr == nullptr && is_cut_off(*parent_));
    }

    /// The first lock of an update, and its certification: that the parent is current, and leads to
    /// what was found. Nothing: search anew.
    [[nodiscard]] detail::map::turn_held lock_parent() {
      // In a child of a fork, a thread that was lost may have taken the parent out and not said so.
      // It has not if a search that has begun in the child has found the parent.
      const auto in_this_process = [&](std::uint64_t self) { return self == began_; };
      using entered = detail::map::writers_turn::entered;
      if (parent_->lock.enter(in_this_process) == entered::never) {
        // acquire ← the release in close: the search finds what has come in the parent's place.
        static_cast<void>(parent_->lock.is_closed());
        return {};
      }
      detail::map::turn_held held(parent_->lock);
      if (peek(*link_) != curr && !SPOLIA_FAULT("counted_tree.not_certified")) return {};
      return held;
    }
    location& link() const noexcept { return *link_; }

    node* curr = nullptr;  // null: the link is the end of the way

   private:
    template <class K>
    bool ends_below(counted_tree& in, const K& key) {
      Family::template step<node>(one_is_parent_ ? other_ : one_, *link_);
      one_is_parent_ = !one_is_parent_;
      view& at = one_is_parent_ ? one_ : other_;
      curr = at ? &*at : nullptr;
      if (curr == nullptr) return true;
      const auto left = static_cast<bool>(in.less_(key, curr->key));
      if (!left && !in.less_(curr->key, key)) return true;
      parent_ = curr;
      link_ = left ? &curr->left : &curr->right;
      return false;
    }

    view one_;
    view other_;
    bool one_is_parent_ = false;
    parent_of_two* parent_ = nullptr;
    location* link_ = nullptr;  // currRef
    std::uint64_t began_ = 0;   // by which thread, of which process
  };

  template <class K, class... Seen>
  bool put(const K& key, const Value& value, bool assign, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    auto& mine = size_.here();
    detail::map::set_quietly<Family> quietly;
    pointer fresh{};
    for (;;) {
      way_down at(*this, key);
      if (at.curr != nullptr ? !assign || !(at.curr->has(was) && ...) : only_for_seen) return false;
      if constexpr (!only_for_seen) {
        if (at.curr == nullptr) {
          // Before the lock, and once.
          if (!fresh) {
            fresh = made(key, value, detail::map::next_stamp<Value>(mine.stamped), {}, {});
          }
          quietly.to_set();
          const auto parent = at.lock_parent();
          if (!parent) continue;
          mine.added.add(1);
          Family::template set<node>(at.link(), std::move(fresh));
          return true;
        }
      }
      quietly.to_set();
      auto parent = at.lock_parent();
      if (!parent) continue;
      auto locked = lock(*at.curr);
      const node& old = *at.curr;
      set(at.link(), made(old.key, value, detail::map::next_stamp<Value>(mine.stamped),
                          child(old.left), child(old.right)));
      take_out(*at.curr, locked);
      return only_for_seen;
    }
  }

  template <class K, class... Seen>
  bool remove(const K& key, const Seen&... was) {
    auto& mine = size_.here();
    detail::map::set_quietly<Family> quietly;
    pointer rest{};  // before the locks: copies that were not needed end after them
    for (;;) {
      way_down at(*this, key);
      if (at.curr == nullptr || !(at.curr->has(was) && ...)) return false;
      quietly.to_set();
      const auto parent = at.lock_parent();
      if (!parent) continue;
      remove_locked(at.link(), *at.curr, rest);
      mine.removed.add(1);
      return true;
    }
  }

  /// For the thread that has the parent's lock, in which the link to the pivot is. If it throws,
  /// `rest` has what was copied until then.
  void remove_locked(location& link, node& pivot, pointer& rest) {
    auto locked = lock(pivot);
    if (peek(pivot.left) == nullptr || peek(pivot.right) == nullptr) {
      set(link, child(peek(pivot.left) == nullptr ? pivot.right : pivot.left));
      return take_out(pivot, locked);
    }
    std::vector<std::pair<node*, detail::map::turn_held>> way;
    way.reserve(16);  // seldom more
    for (node* at = peek(pivot.right); at != nullptr; at = peek(at->left)) {
      way.emplace_back(at, lock(*at));
      if (SPOLIA_FAULT("counted_tree.way_not_locked")) at->lock.leave();
    }
    make_without(pivot, way, rest);
    set(link, std::move(rest));
    // No thread gets a lock of these any more, then none of them leads anywhere: from below, for
    // what a node leads to may end with its link.
    for (auto& [at, held] : way) held.close();
    locked.close();
    for (; !way.empty(); way.pop_back()) cut(*way.back().first);
    cut(pivot);
  }
  /// A copy of the way without its last node's pair, which comes in the pivot's place.
  template <class Way>
  static void make_without(const node& pivot, const Way& way, pointer& rest) {
    const node& next = *way.back().first;
    rest = child(next.right);
    for (std::size_t i = way.size() - 1; i-- > 0;) {
      const node& n = *way[i].first;
      rest = made(n.key, n.value, n.which, std::move(rest), child(n.right));
    }
    rest = made(next.key, next.value, next.which, child(pivot.left), std::move(rest));
  }

  /// For the thread that has the parent's lock: the child is current then, and is its child until
  /// it lets go. So a lost thread's lock is taken over unasked.
  static detail::map::turn_held lock(node& n) {
    n.lock.enter();
    return detail::map::turn_held(n.lock);
  }
  static void set(location& link, pointer to) {
    if (SPOLIA_FAULT("counted_tree.two_steps")) Family::template set<node>(link, pointer());
    Family::template set<node>(link, std::move(to));
  }
  static void take_out(node& n, detail::map::turn_held& locked) {
    if (SPOLIA_FAULT("counted_tree.cut_while_current")) cut(n);
    locked.close();
    cut(n);
  }
  /// Of a node that is closed, and hangs in the tree no more.
  static void cut(node& n) {
    detail::map::let_fail([&] {
      if (peek(n.left) != nullptr) Family::template set<node>(n.left, pointer());
      if (peek(n.right) != nullptr) Family::template set<node>(n.right, pointer());
    });
  }

  static pointer made(const Key& key, const Value& value, stamp which, pointer&& left,
                      pointer&& right) {
    return Family::template make<node>(key, value, which, std::move(left), std::move(right));
  }
  static pointer child(const location& from) { return detail::map::copy<Family, node>(from); }
  static node* peek(const location& from) { return detail::map::peek<Family, node>(from); }

  [[nodiscard]] const location& root() const noexcept { return head_.left; }
  /// Is always null.
  [[nodiscard]] const location& nothing() const noexcept { return head_.right; }

  [[no_unique_address]] Compare less_;
  detail::map::size_counter size_;
  parent_of_two head_;  // rootParent
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

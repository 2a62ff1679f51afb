// SPDX-License-Identifier: Apache-2.0
// avl_tree.hpp: the searches of an avl tree, and its updates but for the balance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/attempts.hpp>
#include <spolia/map/detail/avl_balance.hpp>
#include <spolia/map/detail/avl_nodes.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Every step takes place inside a guard, and what it returns may be used as long as that lives.
///
/// A search stands on a node and knows a version of it, at which the key belonged under that node.
/// It reads a link there, and goes on only if the version is the same afterwards. So the key still
/// belonged under the node when the link was read: a node's range may grow unnoticed, which does no
/// harm, but not shrink. Before it goes on to the child it reads the child's version, then the link
/// again: so the key belonged under the child at that version, or the child has another one now.
template <class Key, class Value, class Domain, class Compare>
class avl_tree {
  using nodes = avl_nodes<Key, Value, Domain>;
  using balance = avl_balance<nodes, Domain>;
  using guard = typename Domain::guard;

 public:
  using joint = typename nodes::joint;
  using node = typename nodes::node;
  using content = typename nodes::content;
  using prepared = typename content::prepared;

  /// Where a search ended: at the key's node `hit`; or, if that is null, at `at`, where the key's
  /// node would hang on `side` if `at` has the version `seen`.
  struct place {
    joint* at;
    std::uint64_t seen;
    unsigned side;
    node* hit;
  };

  avl_tree(Domain& home, Compare less) : home_(home), less_(std::move(less)), balance_(entry_) {}
  avl_tree(const avl_tree&) = delete;
  avl_tree& operator=(const avl_tree&) = delete;

  /// No other thread may be there any more. Turns the tree into a list as it goes.
  ~avl_tree() {
    node* top = entry_.child[0].load_relaxed();
    while (top != nullptr) {
      node* const left = top->child[0].load_relaxed();
      if (left != nullptr) {
        top->child[0].store_relaxed(left->child[1].load_relaxed());
        left->child[1].store_relaxed(top);
        top = left;
      } else {
        node* const gone = std::exchange(top, top->child[1].load_relaxed());
        gone->value.end(home_);
        home_.destroy(gone);
      }
    }
  }

  Domain& home() const noexcept { return home_; }
  const Compare& less() const noexcept { return less_; }
  const joint& entry() const noexcept { return entry_; }

  /// Finds the key's place. Busy: a rotation is under way there.
  template <class K>
  outcome search(const K& key, place& p) const {
    p = {&entry_, 0, 0, nullptr};
    for (;;) {
      node* const c = p.side == 0 ? follow(*p.at, 0) : follow(*p.at, 1);
      if (c == nullptr) return still(p.at, p.seen) ? outcome::done : outcome::changed;
      unsigned side = 0;
      if (!less_(key, c->key)) {
        if (!less_(c->key, key)) {
          // However we came here: it was in the tree since we began, and is the only one with this
          // key until it is unlinked, at which moment the key is absent.
          p.hit = c;
          return outcome::done;
        }
        side = 1;
      }
      const outcome o = step(p.at, p.seen, p.side, c);
      if (o != outcome::done) return o;
      if (p.at == c) p.side = side;
    }
  }

  /// The first node of the interval, with a value or without; its other end is not looked at. If
  /// Down, the last one: all the same with sides exchanged. Null: none.
  template <bool Down, class Rest>
  outcome first(const Rest& rest, const node*& found) const {
    constexpr unsigned towards = Down ? 1 : 0;
    joint* at = &entry_;
    std::uint64_t seen = 0;
    unsigned side = 0;  // of the entry, where the root is
    found = nullptr;
    for (;;) {
      node* const c = follow(*at, side);
      if (c == nullptr) {
        // Nothing hangs where `from` would be, so what comes next is the last node where the way
        // went left, or right if Down; unless that was unlinked meanwhile.
        if (!still(at, seen)) return outcome::changed;
        return found != nullptr && found->is_unlinked() ? outcome::changed : outcome::done;
      }
      const unsigned next =
          rest.template begins_beyond<Down>(c->key, less_) ? 1 - towards : towards;
      const outcome o = step(at, seen, side, c);
      if (o != outcome::done) return o;
      if (at != c) continue;
      if (next == towards) found = c;
      side = next;
    }
  }

  /// Hangs a node with the key and the value at the place.
  outcome add(guard& g, const place& p, const Key& key, prepared& value) {
    auto made = make_fresh<node>(home_, key);
    if (!p.at->try_lock()) return outcome::busy;
    if (!still(p.at, p.seen) || p.at->child[p.side].load_relaxed() != nullptr) {
      p.at->unlock();
      return outcome::changed;
    }
    made->value.put(value);
    made->hang_under(p.at);
    p.at->lead(p.side, made.release());
    const bool damaged = is_damaged(*p.at);
    p.at->unlock();
    if (damaged) balance_.settle(g, p.at);
    return outcome::done;
  }

  /// Gives the node a value. `if_absent`: unless it has one. `had` says whether it had. With a
  /// value seen: if it has that one.
  template <class... Seen>
  outcome assign(guard& g, node& n, prepared& value, bool if_absent, bool& had,
                 const Seen&... was) noexcept {
    if (!n.try_lock()) return outcome::busy;
    if (n.is_unlinked()) {
      n.unlock();
      return outcome::changed;
    }
    had = n.value.is_there() && (n.value.has(was) && ...);
    const bool change = sizeof...(Seen) != 0 ? had : !had || !if_absent;
    const typename content::leftover old = change ? n.value.put(value) : nullptr;
    n.unlock();
    retire(g, old);
    return outcome::done;
  }

  /// Takes the node's value away, and the node too if it is not needed to route.
  template <class... Seen>
  outcome erase(guard& g, node& n, bool& had, const Seen&... was) noexcept {
    if (!n.try_lock()) return outcome::busy;
    // An unlinked node has none, and when it was unlinked the key had none.
    had = n.value.is_there() && (n.value.has(was) && ...);
    const typename content::leftover old = had ? n.value.clear() : nullptr;
    const bool damaged = had && is_damaged(n);
    n.unlock();
    retire(g, old);
    if (damaged) balance_.settle(g, &n);
    return outcome::done;
  }

 private:
  static node* follow(const joint& at, unsigned side) noexcept {
    // acquire ← the release in lead(): we see the child constructed; and if the link is part of a
    // rotation, that the node shrinks, when we look at its version next.
    node* const c = at.child[side].load_acquire();
    memory::note_access(c);
    return c;
  }

  /// Has the range not shrunk since? To be asked after a link was read by follow().
  static bool still(const joint* at, std::uint64_t seen) noexcept {
    return at->version.load_relaxed() == seen || SPOLIA_FAULT("avl.no_version_check");
  }

  /// Goes from `at` on to its child c; stays if c is no longer its child.
  static outcome step(joint*& at, std::uint64_t& seen, unsigned side, node* c) noexcept {
    // acquire ← the releases in end_shrink() and unlink(): the link, read again, is at least as new
    // as this version.
    const std::uint64_t version = c->version.load_acquire();
    if ((version & joint::shrinking) != 0) return outcome::busy;
    const bool linked = (version & joint::unlinked) == 0 && follow(*at, side) == c;
    if (!still(at, seen)) return outcome::changed;
    if (linked) {
      at = c;
      seen = version;
    }
    return outcome::done;
  }

  bool is_damaged(const joint& j) const noexcept {
    return &j != &entry_ && balance::judge(static_cast<const node&>(j)) != balance::damage::none;
  }

  template <class Leftover>
  static void retire(guard& g, Leftover old) noexcept {
    if constexpr (!std::is_same_v<Leftover, std::nullptr_t>) {
      if (old != nullptr) g.retire(old);
    }
  }

  Domain& home_;
  [[no_unique_address]] Compare less_;
  alignas(cache_line) mutable joint entry_;  // a search hands it out like any other
  balance balance_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

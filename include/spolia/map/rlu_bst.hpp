// SPDX-License-Identifier: Apache-2.0
// rlu_bst.hpp: an ordered map as an unbalanced binary search tree over read-log-update: reads see
// one instant of it, and several operations, on several containers, can be one.
//
// Source:      the tree of Kim et al.: MV-RLU, ASPLOS 2019, section 6.2.
//
//     spolia::rlu_bst<int, std::string> names;
//     names.insert(7, "seven");
//     names.range(0, 10, [](int key, const std::string& name) { ... });     // one instant
//
// Operations:  see map/detail/face.hpp and rlu_list.hpp.
// Cost:        the depth of the key, which is logarithmic for keys that come in random order and
//              linear for sorted ones.
// Why no balance and no marks. Each update locks what it changes and what it frees, so that two
// updates that touch the same links conflict. A node with two children is replaced by the next
// larger one, which moves up; a search that is under way sees the tree as it was.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/face.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/key_handed.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/rlu_chain.hpp>
#include <spolia/map/detail/rlu_scan.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/rlu/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value, class Domain, class Compare>
class rlu_bst_core {
  struct node {
    using fixed = rlu_entry<Key, Value>;
    rlu::ptr<node> left;
    rlu::ptr<node> right;
  };
  /// What hangs below it is its left child.
  struct root {
    rlu::ptr<node> left;
  };
  using reader = typename Domain::reader;
  using writer = typename Domain::writer;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using key_compare = Compare;
  using seen = seen_value<Value>;

  rlu_bst_core(Domain& home, Compare less)
      : home_(home), less_(std::move(less)), root_(home.template make<root>({})) {}
  rlu_bst_core(const rlu_bst_core&) = delete;
  rlu_bst_core& operator=(const rlu_bst_core&) = delete;
  ~rlu_bst_core() {
    discard_below(home_.alone(root_).left);
    home_.discard(root_);
  }

  Domain& home() const noexcept { return home_; }

  template <bool Assign, class K, class V, class... Seen>
  bool put(K&& key, V&& value, const Seen&... was) {
    return home_.update([&](writer& in) {
      const auto done = put_in<Assign>(in, std::forward<K>(key), std::forward<V>(value), was...);
      return is_done(in, done, wanted_by<Seen...>, size_);
    });
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    return home_.update([&](writer& in) {
      rlu_change done = rlu_change::none;
      const place p = find(in, key);
      if (p.at && (has(in.fixed(p.at), was) && ...)) {
        done = take_out(in, p) ? rlu_change::removed : rlu_change::doomed;
      }
      return is_done(in, done, rlu_change::removed, size_);
    });
  }

  template <class K>
  bool contains(const K& key) const {
    return home_.read([&](reader& in)
                          SPOLIA_INLINE_LAMBDA { return static_cast<bool>(locate(in, key).at); });
  }

  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    return home_.read([&](reader& in) SPOLIA_INLINE_LAMBDA {
      const place p = locate(in, key);
      if (p.at) f(in.fixed(p.at).value);
      return static_cast<bool>(p.at);
    });
  }

  template <class K>
  bool look(const K& key, seen& to) const {
    return home_.read([&](reader& in) {
      const place p = locate(in, key);
      if (p.at) to.look(in.fixed(p.at).value, in.fixed(p.at).stamp);
      return static_cast<bool>(p.at);
    });
  }

  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    show_copies<Key, Value>(f, [&](auto& copies) {
      home_.read([&](reader& in) {
        std::vector<rlu::view<node>> up;  // whose nearer side has been shown
        auto n = in.read(in.read(root_)->left);
        for (;;) {
          while (n) {
            const bool before = within.template begins_beyond<Down>(n.fixed().key, less_);
            if (!before) up.push_back(n);
            n = in.read(before != Down ? n->right : n->left);
          }
          if (up.empty()) return;
          n = up.back();
          up.pop_back();
          if (within.template is_left_at<Down>(n.fixed().key, less_)) return;
          copies.push_back({n.fixed().key, n.fixed().value});
          n = in.read(Down ? n->left : n->right);
        }
      });
    });
  }

  template <bool Down, class Within>
  auto outermost(const Within& within) const {
    return home_.read([&](reader& in) {
      std::optional<std::pair<Key, Value>> found;
      rlu::view<node> last;
      for (auto n = in.read(in.read(root_)->left); n;) {
        const bool before = within.template begins_beyond<Down>(n.fixed().key, less_);
        if (!before) last = n;
        n = in.read(before != Down ? n->right : n->left);
      }
      if (last && !within.template is_left_at<Down>(last.fixed().key, less_)) {
        found.emplace(last.fixed().key, last.fixed().value);
      }
      return found;
    });
  }

  std::size_t size_approx() const noexcept { return size_.approx(); }

 private:
  /// Where a key is, or would be.
  struct place {
    rlu::ptr<node> above;  // null: the root is
    bool left;             // of `above`
    rlu::ptr<node> at;     // null if the key is absent
  };

  template <class K>
  SPOLIA_ALWAYS_INLINE place locate(reader& in, const K& given) const {
    const key_handed<K> key = given;
    rlu::ptr<node> above;
    bool left = true;
    rlu::ptr<node> at = in.get(root_, &root::left);
    while (at) {
      const Key& here = in.fixed(at).key;
      const auto smaller = static_cast<bool>(less_(key, here));
      if (!smaller && !less_(here, key)) break;
      above = at;
      left = smaller;
      if constexpr (std::is_arithmetic_v<Key>) {
        // The processor would guess the side, and be wrong every other time. So both links are read
        // beside the key, which has only to choose.
        at = in.get(at, [smaller](const node& n) SPOLIA_INLINE_LAMBDA {
          return rlu::detail::access::either(smaller, n.left, n.right);
        });
      } else {
        at = smaller ? in.get(at, &node::left) : in.get(at, &node::right);
      }
    }
    return {above, left, at};
  }

  template <class K>
  SPOLIA_ALWAYS_INLINE place find(writer& in, const K& key) const {
    return in.search([&](reader& here) SPOLIA_INLINE_LAMBDA { return locate(here, key); });
  }

  template <bool Assign, class K, class V, class... Seen>
  SPOLIA_ALWAYS_INLINE rlu_change put_in(writer& in, K&& key, V&& value, const Seen&... was) {
    const place p = find(in, key);
    if (p.at ? !Assign || !(has(in.fixed(p.at), was) && ...) : sizeof...(Seen) != 0) {
      return rlu_change::none;
    }
    const node below = p.at ? *in.read(p.at) : node{};
    rlu::ptr<node>* const link = lock(in, p.above, p.left);
    if (link == nullptr || (p.at && !in.free(p.at))) return rlu_change::doomed;
    with_key_there<sizeof...(Seen) != 0>(
        p.at ? std::addressof(in.fixed(p.at).key) : nullptr, std::forward<K>(key), [&](auto&& k) {
          *link = in.template make<node>(
              {std::forward<decltype(k)>(k), std::forward<V>(value), next_stamp<Value>(size_)},
              below);
        });
    return p.at ? rlu_change::replaced : rlu_change::added;
  }

  /// The link that is to change, locked; null: the section is doomed.
  rlu::ptr<node>* lock(writer& in, rlu::ptr<node> above, bool left) const {
    if (above) {
      const auto mine = in.try_lock(above);
      if (!mine) return nullptr;
      return left ? &mine->left : &mine->right;
    }
    const auto mine = in.try_lock(root_);
    return mine ? &mine->left : nullptr;
  }

  bool take_out(writer& in, const place& p) const {
    rlu::ptr<node>* const link = lock(in, p.above, p.left);
    if (link == nullptr) return false;
    const node below = *in.read(p.at);
    if (!below.left || !below.right) {
      *link = below.left ? below.left : below.right;
      return in.free(p.at);
    }
    return move_next_up(in, p, *link);
  }

  /// The smallest node on the right takes the place of the one at `p`, which has two children.
  bool move_next_up(writer& in, const place& p, rlu::ptr<node>& link) const {
    const node below = *in.read(p.at);
    rlu::ptr<node> above = p.at;
    auto next = in.read(below.right);
    while (next->left) {
      above = next;
      next = in.read(next->left);
    }
    const auto moved = in.try_lock(next.self());
    if (!moved) return false;
    if (above != p.at) {
      const auto gives = in.try_lock(above);
      if (!gives) return false;
      gives->left = moved->right;
      moved->right = below.right;
    }
    moved->left = below.left;
    link = moved;
    return in.free(p.at);
  }

  /// Turns the left side over to the right as it goes: needs no memory, however deep the tree is.
  void discard_below(rlu::ptr<node> top) noexcept {
    while (top) {
      node& here = home_.alone(top);
      const rlu::ptr<node> left = here.left;
      if (left) {
        node& below = home_.alone(left);
        here.left = below.right;
        below.right = top;
        top = left;
      } else {
        const rlu::ptr<node> right = here.right;
        home_.discard(top);
        top = right;
      }
    }
  }

  Domain& home_;
  [[no_unique_address]] Compare less_;
  detail::map::size_counter size_;
  const rlu::ptr<root> root_;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = rlu::domain, class Compare = default_order<Key>>
class rlu_bst
    : private detail::map::kinds_of_logs_by_order<Key, Domain, Compare>,
      public detail::map::map_face<detail::map::rlu_bst_core<Key, Value, Domain, Compare>> {
  using face = detail::map::map_face<detail::map::rlu_bst_core<Key, Value, Domain, Compare>>;

 public:
  using face::face;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

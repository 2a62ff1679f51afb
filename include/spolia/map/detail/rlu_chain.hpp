// SPDX-License-Identifier: Apache-2.0
// rlu_chain.hpp: a sorted chain of read-log-update objects from a root on: a list, or a bucket of a
// table. All functions run inside a section of the caller's.
#pragma once

#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/key_handed.hpp>
#include <spolia/rlu/array.hpp>
#include <spolia/rlu/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value>
struct rlu_entry {
  Key key;
  Value value;
};

template <class Key, class Value, class Domain, class Compare>
class rlu_chain {
 public:
  /// The entry never changes: what replaces a value is another node. So a copy is a pointer long.
  struct node {
    using fixed = rlu_entry<Key, Value>;
    rlu::ptr<node> next;
  };
  struct root : rlu::element {
    rlu::ptr<node> next;
  };
  using roots = rlu::array<root, Domain>;
  using start = rlu::ptr<root>;
  using reader = typename Domain::reader;
  using writer = typename Domain::writer;

  /// Where a key is or would be.
  struct place {
    rlu::ptr<node> before;  // null: the root is
    rlu::ptr<node> at;      // the first whose key is not less; null at the end
    bool found;
  };

  SPOLIA_ALWAYS_INLINE static place locate(reader& in, start from, const Key& given,
                                           const Compare& less) {
    const key_handed<Key> key = given;
    rlu::ptr<node> before;
    rlu::ptr<node> at = in.get(from, &root::next);
    while (at && less(in.fixed(at).key, key)) {
      before = at;
      at = in.get(at, &node::next);
    }
    return {before, at, at && !less(key, in.fixed(at).key)};
  }

  /// True if the key was absent. The value is moved from once nothing can fail but memory.
  template <bool Assign, class K, class V>
  static bool put(writer& in, start from, K&& key, V&& value, const Compare& less) {
    const place p = find(in, from, key, less);
    if (p.found && !Assign) return false;
    rlu::ptr<node>* const link = lock(in, from, p.before);
    if (link == nullptr) return false;
    rlu::ptr<node> next = p.at;
    if (p.found) {
      next = in.get(p.at, &node::next);
      if (!in.free(p.at)) return false;
    }
    *link = in.template make<node>({std::forward<K>(key), std::forward<V>(value)}, {next});
    return !p.found;
  }

  /// True if the key was present.
  static bool erase(writer& in, start from, const Key& key, const Compare& less) {
    const place p = find(in, from, key, less);
    if (!p.found) return false;
    const rlu::ptr<node> next = in.get(p.at, &node::next);
    rlu::ptr<node>* const link = lock(in, from, p.before);
    if (link == nullptr || !in.free(p.at)) return false;
    *link = next;
    return true;
  }

  /// Gives back all nodes. No other thread may use the chain any more.
  static void discard(Domain& home, start from) noexcept {
    rlu::ptr<node> n = home.alone(from).next;
    while (n) {
      const rlu::ptr<node> next = home.alone(n).next;
      home.discard(n);
      n = next;
    }
  }

 private:
  SPOLIA_ALWAYS_INLINE static place find(writer& in, start from, const Key& key,
                                         const Compare& less) {
    return in.search([&](reader& here)
                         SPOLIA_INLINE_LAMBDA { return locate(here, from, key, less); });
  }

  /// The link that is to change, locked; null: the section is doomed.
  static rlu::ptr<node>* lock(writer& in, start from, rlu::ptr<node> before) {
    if (before) {
      const auto mine = in.try_lock(before);
      return mine ? &mine->next : nullptr;
    }
    const auto mine = in.try_lock(from);
    return mine ? &mine->next : nullptr;
  }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

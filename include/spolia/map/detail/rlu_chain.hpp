// SPDX-License-Identifier: Apache-2.0
// rlu_chain.hpp: a sorted chain of read-log-update objects from a root on: a list, or a bucket of a
// table. All functions run inside a section of the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/key_handed.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/rlu/array.hpp>
#include <spolia/rlu/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value>
struct rlu_entry {
  Key key;
  Value value;
  [[no_unique_address]] value_stamp<Value> stamp{};

  [[nodiscard]] std::size_t owned_bytes() const noexcept
    requires(!weightless<Key, Value>)
  {
    return weigh(key, value);
  }
};

/// Whether an entry has the value that was seen.
template <class Key, class Value>
bool has(const rlu_entry<Key, Value>& e, const seen_value<Value>& seen) noexcept {
  return seen.is(e.value, e.stamp);
}

/// What has become of a change that a section began. `doomed`: the section starts over, and what is
/// answered until then means nothing.
enum class rlu_change : std::uint8_t { none, added, replaced, removed, doomed };

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

  template <class K>
  SPOLIA_ALWAYS_INLINE static place locate(reader& in, start from, const K& given,
                                           const Compare& less) {
    const key_handed<K> key = given;
    rlu::ptr<node> before;
    rlu::ptr<node> at = in.get(from, &root::next);
    while (at && less(in.fixed(at).key, key)) {
      before = at;
      at = in.get(at, &node::next);
    }
    return {before, at, at && !less(key, in.fixed(at).key)};
  }

  /// The value is moved from once nothing can fail but memory.
  template <bool Assign, class K, class V, class... Seen>
  static rlu_change put(writer& in, start from, K&& key, V&& value, value_stamp<Value> stamp,
                        const Compare& less, const Seen&... was) {
    const place p = find(in, from, key, less);
    if (p.found ? !Assign || !(has(in.fixed(p.at), was) && ...) : sizeof...(Seen) != 0) {
      return rlu_change::none;
    }
    rlu::ptr<node>* const link = lock(in, from, p.before);
    if (link == nullptr) return rlu_change::doomed;
    rlu::ptr<node> next = p.at;
    if (p.found) {
      next = in.get(p.at, &node::next);
      if (!in.free(p.at)) return rlu_change::doomed;
    }
    with_key_there<sizeof...(Seen) != 0>(
        p.found ? std::addressof(in.fixed(p.at).key) : nullptr, std::forward<K>(key),
        [&](auto&& k) {
          *link = in.template make<node>(
              {std::forward<decltype(k)>(k), std::forward<V>(value), stamp}, {next});
        });
    return p.found ? rlu_change::replaced : rlu_change::added;
  }

  template <class K, class... Seen>
  static rlu_change erase(writer& in, start from, const K& key, const Compare& less,
                          const Seen&... was) {
    const place p = find(in, from, key, less);
    if (!p.found || !(has(in.fixed(p.at), was) && ...)) return rlu_change::none;
    const rlu::ptr<node> next = in.get(p.at, &node::next);
    rlu::ptr<node>* const link = lock(in, from, p.before);
    if (link == nullptr || !in.free(p.at)) return rlu_change::doomed;
    *link = next;
    return rlu_change::removed;
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
  template <class K>
  SPOLIA_ALWAYS_INLINE static place find(writer& in, start from, const K& key,
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

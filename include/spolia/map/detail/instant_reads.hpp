// SPDX-License-Identifier: Apache-2.0
// instant_reads.hpp: what snapshot maps show of a key at a snapshot and at a lease, said once.
//
// A map that inherits this has instants(), an object with
//
//   find_at(snapshot, key)       the value that the key mapped to, null if none
//   visit_at(lease, key, f)      calls f(value) under a guard, and says whether the key was present
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/map/detail/in_parallel.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/version/lease.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class T>
concept an_instant = std::derived_from<T, snapshot> || std::derived_from<T, lease>;

/// Whether `then` is an instant of that timeline. Of another one a map shows nothing. A lease that
/// was moved from is one that has ended: reading at it throws snapshot_expired.
template <class Timeline>
bool is_instant_of(const Timeline& time, const lease& then) {
  then.expect_held();
  if (then.belongs_to(time)) return true;
  if (SPOLIA_CHECKS) misuse::report("a lease of another timeline", threads::number());
  return false;
}
template <class Timeline>
bool is_instant_of(const Timeline& time, const snapshot& then) noexcept {
  if (then.belongs_to(time)) return true;
  if (SPOLIA_CHECKS) {
    misuse::report(
        then ? "a snapshot of another timeline" : "a snapshot that was moved from, or none",
        threads::number());
  }
  return false;
}

template <class Map, class Key, class Value, class Keys>
class instant_reads {
 public:
  /// The value that `key` mapped to, null if none. It stays while the snapshot and the map live.
  const Value* find(const snapshot& then, const Key& key) const { return in().find_at(then, key); }
  bool contains(const snapshot& then, const Key& key) const { return find(then, key) != nullptr; }

  // At a lease each throws snapshot_expired when it was ended, and gives nothing that outlives it.

  /// A copy of the value that `key` mapped to.
  std::optional<Value> find(const lease& then, const Key& key) const
    requires std::copy_constructible<Value>
  {
    return copied(then, key);
  }
  bool contains(const lease& then, const Key& key) const {
    return visit(then, key, [](const Value&) {});
  }
  /// Calls f(const Value&) under a guard if `key` was present, and says whether it was.
  template <std::invocable<const Value&> F>
  bool visit(const lease& then, const Key& key, F&& f) const {
    return in().visit_at(then, key, std::forward<F>(f));
  }

  // The same with a key of another type, of which no key is made (map/keys.hpp).

  template <other_key<Key, Keys> K>
  const Value* find(const snapshot& then, const K& key) const {
    const Value* found = nullptr;
    if constexpr (checked_key<Keys, K>()) found = in().find_at(then, key);
    return found;
  }
  template <other_key<Key, Keys> K>
  bool contains(const snapshot& then, const K& key) const {
    return find(then, key) != nullptr;
  }
  template <other_key<Key, Keys> K>
    requires std::copy_constructible<Value>
  std::optional<Value> find(const lease& then, const K& key) const {
    return copied(then, key);
  }
  template <other_key<Key, Keys> K>
  bool contains(const lease& then, const K& key) const {
    return visit(then, key, [](const Value&) {});
  }
  template <other_key<Key, Keys> K, std::invocable<const Value&> F>
  bool visit(const lease& then, const K& key, F&& f) const {
    bool found = false;
    if constexpr (checked_key<Keys, K>()) found = in().visit_at(then, key, std::forward<F>(f));
    return found;
  }

  /// Calls f(key, value) for every pair of the snapshot, once each, in no order, in `threads`
  /// threads at once: the caller's, and others that it starts, or as many as there can be. f
  /// returns nothing, or false to stop; it runs outside of guards and locks, and may do all that
  /// the map lets it. When f throws, the others stop at their next pair, and when all have, the
  /// first exception is thrown here. May also throw std::bad_alloc. Each thread takes 64 pairs at a
  /// time, one after the other: f should take longer than finding a pair does.
  template <std::invocable<const Key&, const Value&> F>
  void for_each(const snapshot& then, std::size_t threads, F&& f) const {
    show_in_threads(self().all(then), f, threads);
  }
  /// The same in threads of the program's: `execute` is given `helpers` functions without
  /// arguments, to be called once each by any thread, at once or later, or not at all. Those that
  /// are called after the end do nothing. The caller does its part, and waits for those that have
  /// begun; what `execute` throws it throws when these have stopped.
  template <class Execute, std::invocable<const Key&, const Value&> F>
  void for_each(const snapshot& then, std::size_t helpers, Execute&& execute, F&& f) const {
    show_with_helpers(self().all(then), f, helpers, execute);
  }

 protected:
  instant_reads() = default;
  ~instant_reads() = default;

 private:
  template <class K>
  std::optional<Value> copied(const lease& then, const K& key) const {
    std::optional<Value> found;
    visit(then, key, [&](const Value& value) { found.emplace(value); });
    return found;
  }
  [[nodiscard]] const Map& self() const noexcept { return static_cast<const Map&>(*this); }
  [[nodiscard]] const auto& in() const noexcept { return self().instants(); }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

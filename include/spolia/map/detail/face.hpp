// SPDX-License-Identifier: Apache-2.0
// face.hpp: what all ordered maps show their users, said once. Each map is a core under this face.
//
// A core lives in a domain that it is given, Core(Domain&, Compare), and has
//
//   key_type, mapped_type, domain_type, key_compare
//   home()             the domain
//   put<Assign>(key, value)   true if the key was absent; if it was not, replaces the value where
//                      Assign, and else changes nothing
//   erase(key), contains(key), visit(key, f), size_approx()   as below
//   seen               remembers a value (seen_value.hpp): look(key, seen) copies that of the key,
//                      if it is there
//   put<true>(key, value, seen), erase(key, seen)   true if the key still had the value seen, and
//                      has this one now, or none; else nothing has changed
//   scan, outermost    see ordered_reads.hpp; where there is no order, scan<false>(all_keys, f)
//   is_linear          if they are asked for upwards only
//   publishes          if it does so by_store: see after_update.hpp
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/ordered_reads.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/tried_in_vain.hpp>
#include <spolia/map/updates.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Core>
inline constexpr bool is_linear = requires { Core::is_linear; };

template <class Core>
struct found_by_of {
  using type = by_order<typename Core::key_type, typename Core::key_compare>;
};
template <class Core>
  requires requires { typename Core::found_by; }
struct found_by_of<Core> {
  using type = typename Core::found_by;
};

template <class Core>
class map_face
    : public value_updates<map_face<Core>, typename Core::key_type, typename Core::mapped_type>,
      public ordered_reads<map_face<Core>, typename Core::key_type, typename Core::mapped_type,
                           typename found_by_of<Core>::type, is_linear<Core>>,
      public tried_in_vain {
 public:
  using found_by = typename found_by_of<Core>::type;
  using key_type = typename Core::key_type;
  using mapped_type = typename Core::mapped_type;
  using domain_type = typename Core::domain_type;
  using key_compare = typename Core::key_compare;

  /// An empty map with a domain of its own. May throw std::bad_alloc.
  explicit map_face(key_compare less = key_compare())
      : own_(std::make_unique<domain_type>()), core_(*own_, std::move(less)) {}

  /// An empty map whose nodes go through `shared`, which must outlive it. May throw std::bad_alloc.
  explicit map_face(domain_type& shared, key_compare less = key_compare())
      : core_(shared, std::move(less)) {}

  map_face(const map_face&) = delete;
  map_face& operator=(const map_face&) = delete;

  domain_type& domain() const noexcept { return core_.home(); }

  /// True if `key` was absent and now maps to `value`; false: nothing has changed. `value` is moved
  /// from only after the key was found absent.
  template <class V = mapped_type>
    requires std::constructible_from<mapped_type, V>
  bool insert(const key_type& key, V&& value) {
    return told(core_.template put<false>(key, std::forward<V>(value)));
  }

  /// True if `key` was absent; false if its value was replaced. Either way it now maps to `value`.
  template <class V = mapped_type>
    requires std::constructible_from<mapped_type, V>
  bool insert_or_assign(const key_type& key, V&& value) {
    return told<true>(core_.template put<true>(key, std::forward<V>(value)));
  }

  /// True if `key` was present and is no more.
  bool erase(const key_type& key) { return told(core_.erase(key)); }

  /// A copy of the value that `key` maps to.
  std::optional<mapped_type> find(const key_type& key) const
    requires std::copy_constructible<mapped_type>
  {
    std::optional<mapped_type> found;
    core_.visit(key, [&](const mapped_type& value) { found.emplace(value); });
    return found;
  }

  bool contains(const key_type& key) const { return core_.contains(key); }

  /// Calls f(const Value&) if `key` is present, and says whether it was. f runs under a guard,
  /// which holds up the freeing of what others remove: keep it short, and take no lock. f may use
  /// this map.
  template <std::invocable<const mapped_type&> F>
  bool visit(const key_type& key, F&& f) const {
    return core_.visit(key, std::forward<F>(f));
  }

  // The same with a key of another type, of which no key is made (map/keys.hpp).

  template <other_key<key_type, found_by> K>
  bool erase(const K& key) {
    bool gone = false;
    if constexpr (checked_key<found_by, K>()) gone = told(core_.erase(key));
    return gone;
  }
  template <other_key<key_type, found_by> K>
    requires std::copy_constructible<mapped_type>
  std::optional<mapped_type> find(const K& key) const {
    std::optional<mapped_type> found;
    visit(key, [&](const mapped_type& value) { found.emplace(value); });
    return found;
  }
  template <other_key<key_type, found_by> K>
  bool contains(const K& key) const {
    bool found = false;
    if constexpr (checked_key<found_by, K>()) found = core_.contains(key);
    return found;
  }
  template <other_key<key_type, found_by> K, std::invocable<const mapped_type&> F>
  bool visit(const K& key, F&& f) const {
    bool found = false;
    if constexpr (checked_key<found_by, K>()) found = core_.visit(key, std::forward<F>(f));
    return found;
  }

  /// Calls f(key, value) for every pair in ascending order; f returns nothing, or false to stop.
  /// concepts.hpp says what it may miss. Copies in batches, since f runs outside of guards: it may
  /// take long, wait, and use this map.
  template <std::invocable<const key_type&, const mapped_type&> F>
    requires std::copy_constructible<key_type> && std::copy_constructible<mapped_type>
  void for_each(F&& f) const {
    core_.template scan<false>(all_keys<key_type>, f);
  }

  /// How many pairs there are. Updates under way may be counted or not, and while there are any the
  /// sum can be off by as many. Linear in the number of threads.
  std::size_t size_approx() const noexcept { return core_.size_approx(); }
  bool empty_approx() const noexcept { return size_approx() == 0; }

 protected:
  /// For cores that have more to be told.
  template <class... Arguments>
  explicit map_face(std::in_place_t, Arguments&&... arguments)
      : core_(std::forward<Arguments>(arguments)...) {}

  ~map_face() = default;

  static constexpr published how = [] {
    if constexpr (requires { Core::publishes; }) return Core::publishes;
    return published::by_exchange;
  }();
  /// The answer of an update that has changed something if it is `true`, or Anyhow.
  template <bool Anyhow = false>
  SPOLIA_ALWAYS_INLINE static bool told(bool answer) noexcept {
    after_update_if<how>(Anyhow || answer);
    return answer;
  }

  Core& core() noexcept { return core_; }
  const Core& core() const noexcept { return core_; }

 private:
  friend class value_updates<map_face, key_type, mapped_type>;
  friend class ordered_reads<map_face, key_type, mapped_type, found_by, is_linear<Core>>;
  using seen = typename Core::seen;

  const Core& ordered() const noexcept { return core_; }
  static seen nothing_seen() { return {}; }
  template <class K>
  bool look_at(const K& key, seen& to) const {
    return core_.look(key, to);
  }
  bool put_if_absent(const key_type& key, mapped_type&& value) {
    return told(core_.template put<false>(key, std::move(value)));
  }
  template <class K>
  bool put_for(const K& key, mapped_type&& value, const seen& was) {
    return told(core_.template put<true>(key, std::move(value), was));
  }
  template <class K>
  bool erase_seen(const K& key, const seen& was) {
    return told(core_.erase(key, was));
  }

  std::unique_ptr<domain_type> own_;
  Core core_;  // goes first: it gives its nodes back to the domain
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

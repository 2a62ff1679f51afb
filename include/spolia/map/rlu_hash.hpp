// SPDX-License-Identifier: Apache-2.0
// rlu_hash.hpp: a map as a table of sorted chains over read-log-update: as rlu_list.hpp, with a
// fixed number of buckets.
//
// Source:      the hash table of Kim et al.: MV-RLU, ASPLOS 2019, section 6.2.
// Departure:   there a key's bucket is the remainder of its hash by their number. Here each row of
//              so many hashes begins at another bucket, which the map's seed decides: else keys
//              that are multiples of that number, as addresses may be, are all in one bucket.
//
//     spolia::rlu_hash<std::uint64_t, int> counts(1024);         // buckets
//
// Operations:  see map/detail/face.hpp and rlu_list.hpp; there is no range, and for_each comes in
//              no order. Keys have a hash and an order.
// Cost:        linear in the number of keys in a bucket. The number of buckets does not change.
// Memory:      three words for each bucket, from the beginning on.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/hash_face.hpp>
#include <spolia/map/detail/hash_spread.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/rlu_chain.hpp>
#include <spolia/map/detail/rlu_scan.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/map/hash_seeds.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/rlu/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// How keys are spread; stands where ordered maps have their comparison.
template <class Hash, class Compare>
struct rlu_bucketing {
  std::size_t buckets;
  hash_spread spread;
  [[no_unique_address]] Hash hash{};
  [[no_unique_address]] Compare less{};
};

template <class Key, class Value, class Domain, class Hash, class Compare>
class rlu_hash_core {
  using chain = rlu_chain<Key, Value, Domain, Compare>;
  using reader = typename Domain::reader;
  using writer = typename Domain::writer;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using key_compare = rlu_bucketing<Hash, Compare>;
  using found_by = by_hash_and_order<Key, Hash, Compare>;
  using seen = seen_value<Value>;

  rlu_hash_core(Domain& home, key_compare how)
      : home_(home), how_(std::move(how)), roots_(home, checked(how_.buckets)) {}
  rlu_hash_core(const rlu_hash_core&) = delete;
  rlu_hash_core& operator=(const rlu_hash_core&) = delete;
  ~rlu_hash_core() {
    for (std::size_t i = 0; i < roots_.size(); ++i) chain::discard(home_, roots_[i]);
  }

  Domain& home() const noexcept { return home_; }

  template <bool Assign, class K, class V, class... Seen>
  bool put(K&& key, V&& value, const Seen&... was) {
    const auto root = root_of(key);
    return home_.update([&](writer& in) {
      const auto done =
          chain::template put<Assign>(in, root, std::forward<K>(key), std::forward<V>(value),
                                      next_stamp<Value>(size_), how_.less, was...);
      return is_done(in, done, wanted_by<Seen...>, size_);
    });
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    const auto root = root_of(key);
    return home_.update([&](writer& in) {
      return is_done(in, chain::erase(in, root, key, how_.less, was...), rlu_change::removed,
                     size_);
    });
  }

  template <class K>
  bool contains(const K& key) const {
    return home_.read([&](reader& in) SPOLIA_INLINE_LAMBDA {
      return chain::locate(in, root_of(key), key, how_.less).found;
    });
  }

  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    return home_.read([&](reader& in) SPOLIA_INLINE_LAMBDA {
      const auto p = chain::locate(in, root_of(key), key, how_.less);
      if (p.found) f(in.fixed(p.at).value);
      return p.found;
    });
  }

  template <class K>
  bool look(const K& key, seen& to) const {
    return home_.read([&](reader& in) {
      const auto p = chain::locate(in, root_of(key), key, how_.less);
      if (p.found) to.look(in.fixed(p.at).value, in.fixed(p.at).stamp);
      return p.found;
    });
  }

  /// All of it, whatever the interval.
  template <bool, class F>
  void scan(const interval<Key>&, F& f) const {
    show_copies<Key, Value>(f, [&](auto& copies) {
      home_.read([&](reader& in) {
        for (std::size_t i = 0; i < roots_.size(); ++i) {
          for (auto n = in.read(in.read(roots_[i])->next); n; n = in.read(n->next)) {
            copies.push_back({n.fixed().key, n.fixed().value});
          }
        }
      });
    });
  }

  std::size_t size_approx() const noexcept { return size_.approx(); }

 private:
  template <class K>
  typename chain::start root_of(const K& key) const {
    const auto hash = static_cast<std::uint64_t>(how_.hash(key));
    return roots_[how_.spread.bucket_of(hash, roots_.size())];
  }
  static std::size_t checked(std::size_t buckets) {
    if (buckets == 0) throw std::invalid_argument("rlu_hash: there must be a bucket");
    return buckets;
  }

  Domain& home_;
  const key_compare how_;
  detail::map::size_counter size_;
  typename chain::roots roots_;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = rlu::domain, class Hash = default_hash<Key>,
          class Compare = default_order<Key>>
class rlu_hash : private detail::map::kinds_of_logs_by_hash<Key, Domain, Hash, Compare>,
                 public detail::map::unordered_face<
                     detail::map::rlu_hash_core<Key, Value, Domain, Hash, Compare>> {
  using face =
      detail::map::unordered_face<detail::map::rlu_hash_core<Key, Value, Domain, Hash, Compare>>;

 public:
  using typename face::domain_type;

  /// Throws std::invalid_argument if there is no bucket, std::bad_alloc. For the seed see
  /// map/hash_seeds.hpp.
  explicit rlu_hash(std::size_t buckets, std::uint64_t seed = detail::map::next_hash_seed())
      : face({.buckets = buckets, .spread = detail::map::hash_spread(seed)}) {}
  rlu_hash(domain_type& shared, std::size_t buckets,
           std::uint64_t seed = detail::map::next_hash_seed())
      : face(shared, {.buckets = buckets, .spread = detail::map::hash_spread(seed)}) {}
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// michael_hash.hpp: a map as a table of sorted lists, lock-free, under every reclamation scheme.
// The number of lists does not change.
//
//     spolia::michael_hash<std::uint64_t, std::string> names(1024);      // buckets
//     names.insert(7, "seven");
//     if (auto name = names.find(7)) ...
//
// Source:      Michael: High performance dynamic lock-free hash tables and list-based sets, SPAA
//              2002: a table T of lists, where each operation is that of the list T[h(key)]. The
//              lists are those of list.hpp.
// Departures:  D1  There h(key) is a known function. Here it depends on a seed (hash_seeds.hpp), so
//                  that keys which meet in one list cannot be chosen beforehand.
//              D2  There a link has a tag against addresses that come again. Here the domain's
//                  guards see to that.
//              D3  insert_or_assign puts a new node in the place of the old one; for_each.
// Operations:  see concepts.hpp; there is no range, and for_each comes in no order. Keys have a
//              hash and an order. All but for_each and clear are linearizable. What a thread did
//              before an update happens before what another does after having seen the update.
// for_each:    goes from one list to the next, and through each as for_each of a list. So each key
//              comes at most once, one that is present during the whole call comes, and a value
//              shown was the key's value at some moment during the call.
// Cost:        linear in the number of keys in the bucket, half of them on average: choose about as
//              many buckets as there will be keys. A guard of for_each copies up to 64 pairs (8
//              under a restartable scheme) of one bucket.
// Progress:    as list.hpp: lock-free, and find, contains and visit wait-free but for keys that
//              come in ahead of them, under schemes that protect what is unlinked
//              (protects_optimistic_search).
// Memory:      a word for each bucket, from the beginning on. A node for each pair: the header of
//              the scheme, a link, the key and the value: 40 bytes for 8-byte keys and values (8
//              more under robust_token, and 16 under eras, which stamp each block).
// Retires:     one node for each erase and each replacement, by whichever thread unlinks it. At
//              most one deleted node per update under way stays linked.
// Bound:       buckets are never garbage, and nothing but nodes is: what waits beside a stalled
//              reader are garbage_bound() nodes of the domain, of the size above, and what their
//              keys and values own.
// Errors:      std::bad_alloc, and whatever the user's copies, moves, hashes and comparisons throw:
//              then the map is as it was before. Under a restartable scheme comparisons must
//              neither throw nor allocate nor lock, since they may be abandoned half-way. Hashes
//              are asked outside of guards.
// User code:   comparisons, visit's f, and the copies that find, insert and for_each make run
//              inside a guard and hold up freeing for as long as they take; f of for_each does not.
//              Destructors of keys and values run wherever the domain frees, possibly after the map
//              is gone if the domain is shared; they must not throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/detail/hash_face.hpp>
#include <spolia/map/detail/hash_spread.hpp>
#include <spolia/map/detail/list_chain.hpp>
#include <spolia/map/detail/list_map.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/hash_seeds.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// How keys are spread; stands where ordered maps have their comparison.
template <class Hash, class Compare>
struct michael_bucketing {
  std::size_t buckets;
  hash_spread spread;
  [[no_unique_address]] Hash hash{};
  [[no_unique_address]] Compare less{};
};

template <class Key, class Value, class Domain, class Hash, class Compare>
class michael_hash_core : public list_map<michael_hash_core<Key, Value, Domain, Hash, Compare>, Key,
                                          Value, Domain, by_key<Compare>> {
  using all = list_map<michael_hash_core, Key, Value, Domain, by_key<Compare>>;
  using typename all::chain;
  using typename all::counters;
  using typename all::guard;
  using typename all::link;

 public:
  using key_compare = michael_bucketing<Hash, Compare>;
  using found_by = by_hash_and_order<Key, Hash, Compare>;

  michael_hash_core(Domain& home, key_compare how)
      : all(home, by_key<Compare>(std::move(how.less))),
        spread_(how.spread),
        hash_(std::move(how.hash)),
        table_(checked(how.buckets)) {}
  ~michael_hash_core() {
    for (const atomic<link>& head : table_) this->chains().end(head);
  }

  std::size_t bucket_count() const noexcept { return table_.size(); }

  /// All of it, whatever the interval.
  template <bool, class F>
  void scan(const interval<Key>& whole, F& f) const {
    pairs<Key, Value> batch;
    batch.reserve(chain::batch_size);
    for (atomic<link>& head : table_) {
      // relaxed: what was put there before the call is seen, and nothing is followed.
      if (head.load_relaxed() == link()) continue;
      const auto some = [&](const auto& rest, auto& to) { return this->copy_some(head, rest, to); };
      if (!scan_in_batches<false>(batch, whole, this->chains().order().less(), some, f)) return;
    }
  }

 private:
  friend all;

  struct way : way_by_key<typename chain::rank> {
    std::size_t h;
  };
  template <class K>
  way way_to(const K& key) const {
    return {{}, spread_.bucket_of(static_cast<std::uint64_t>(hash_(key)), table_.size())};
  }
  atomic<link>& head_to_read(way to) const noexcept { return table_[to.h]; }
  atomic<link>& head_to_put(guard&, way to) const noexcept { return table_[to.h]; }
  static void note_added(const counters&) noexcept {}

  static std::size_t checked(std::size_t buckets) {
    if (buckets == 0) throw std::invalid_argument("michael_hash: there must be a bucket");
    return buckets;
  }

  const hash_spread spread_;
  [[no_unique_address]] const Hash hash_;
  // T. Lookups take deleted nodes out too, under some schemes.
  mutable std::vector<atomic<link>> table_;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = domain<>, class Hash = default_hash<Key>,
          class Compare = default_order<Key>>
class michael_hash : private detail::map::kinds_by_hash<Key, Domain, Hash, Compare>,
                     public detail::map::hash_face<
                         detail::map::michael_hash_core<Key, Value, Domain, Hash, Compare>> {
  using face =
      detail::map::hash_face<detail::map::michael_hash_core<Key, Value, Domain, Hash, Compare>>;

 public:
  /// An empty map with a domain of its own. Throws std::invalid_argument if there is no bucket,
  /// std::bad_alloc. For the seed see map/hash_seeds.hpp.
  explicit michael_hash(std::size_t buckets, std::uint64_t seed = detail::map::next_hash_seed(),
                        Hash hash = Hash(), Compare less = Compare())
      : face({buckets, detail::map::hash_spread(seed), std::move(hash), std::move(less)}) {}

  /// The same with nodes that go through `shared`, which must outlive the map.
  michael_hash(Domain& shared, std::size_t buckets,
               std::uint64_t seed = detail::map::next_hash_seed(), Hash hash = Hash(),
               Compare less = Compare())
      : face(shared, {buckets, detail::map::hash_spread(seed), std::move(hash), std::move(less)}) {}
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// split_ordered_hash.hpp: a hash map that grows with its pairs and never moves one, lock-free,
// under every reclamation scheme.
//
//     spolia::split_ordered_hash<std::uint64_t, std::string> names;   // with a domain of its own
//     names.reserve(1'000'000);                                       // if it is known
//     names.insert(7, "seven");
//     if (auto name = names.find(7)) ...
//
// Source:      Shalev, Shavit: Split-ordered lists: lock-free extensible hash tables, Journal of
//              the ACM 53(3), 2006. All pairs lie in one list, that of list.hpp, in the order of
//              their hashes with the bits reversed. In this order the keys of a bucket lie
//              together, and when the number of buckets doubles, those of its two halves do: a
//              bucket is divided by a pointer to its middle. A dummy node stands before each
//              bucket's keys, so that the pointer never leads to a node that goes. It is put there
//              when the bucket is used first, by a search from its parent, which is the bucket it
//              was a part of.
// Departures:  D1  A bucket is put in order by updates that may add a pair, and not by what reads
//                  or erases: these begin at the nearest bucket before it that is in order, so they
//                  need no memory and cannot fail.
//              D2  Parents that are not in order yet are put in order by a loop from the top, not
//                  by recursion.
//              D3  Pairs are counted by each thread for itself, not by one counter. A thread adds
//                  the counts up after some of its insertions (note_added), so a table may double
//                  a little late.
//              D4  The array of segments is one of several levels, so a small table takes little,
//                  and a large one is not limited by the array (segment_table.hpp).
//              D5  There keys are equal if their hashes are. Here keys of equal hashes are told
//                  apart, and sorted, by the comparison.
//              D6  There the hash is the key. Here it is mixed with a seed (hash_seeds.hpp), so
//                  that keys which meet in one bucket cannot be chosen beforehand.
//              D7  insert_or_assign puts a new node in the place of the old one; for_each; reserve.
// Operations:  see concepts.hpp; there is no range, and for_each comes in no order. Keys have a
//              hash and an order. All but for_each and clear are linearizable. What a thread did
//              before an update happens before what another does after having seen the update.
// for_each:    goes through the list, which growth does not change. So each key comes at most once,
//              one that is present during the whole call comes, and a value shown was the key's
//              value at some moment during the call.
// Growth:      a table doubles when there are more pairs than `load` for each bucket. That is one
//              change of one number; what it asks for is done by the insertions after it.
//              reserve(n) doubles it at once, until it has buckets for n pairs. A table of
//              `most_buckets` does not grow: its lists do, and all is right, but takes longer.
// Shrinking:   none, as in the paper: buckets and dummy nodes stay until the map goes. Look-ups
//              take no longer for that. for_each passes all dummy nodes, so it takes as long as for
//              the most pairs that there were. Where the memory is to go, make another map.
// Cost:        a constant number of steps, expected; a search for a key passes a dummy node and
//              about as many pairs as `load`. A guard of for_each copies up to 64 pairs (8 under a
//              restartable scheme) of one bucket.
// Progress:    as list.hpp: lock-free, and find, contains and visit wait-free but for keys that
//              come in ahead of them, under schemes that protect what is unlinked
//              (protects_optimistic_search). No thread waits for one that doubles the table or puts
//              a bucket in order.
// Memory:      a node for each pair: the header of the scheme, a link, the hash, the key and the
//              value: 48 bytes for 8-byte keys and values (8 more under robust_token, and 16 under
//              eras, which stamp each block). For each bucket that was used: a word, and a dummy
//              node of 32 bytes (more under these schemes, as above). Words come in segments of up
//              to 4096. 0.6 KiB for the table itself.
// Retires:     one node for each erase and each replacement, by whichever thread unlinks it. At
//              most one deleted node per update under way stays linked.
// Bound:       dummy nodes and words are never garbage, and nothing but nodes of pairs is: what
//              waits beside a stalled reader are garbage_bound() nodes of the domain, of the size
//              above, and what their keys and values own.
// Errors:      std::bad_alloc, and whatever the user's copies, moves, hashes and comparisons throw:
//              then the map has the pairs that it had before. Under a restartable scheme hashes and
//              comparisons must neither throw nor allocate nor lock, since they may be abandoned
//              half-way.
// User code:   comparisons, visit's f, and the copies that find, insert and for_each make run
//              inside a guard and hold up freeing for as long as they take; f of for_each does not.
//              Destructors of keys and values run wherever the domain frees, possibly after the map
//              is gone if the domain is shared; they must not throw.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/hash_face.hpp>
#include <spolia/map/detail/hash_spread.hpp>
#include <spolia/map/detail/list_chain.hpp>
#include <spolia/map/detail/list_map.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/segment_table.hpp>
#include <spolia/map/hash_seeds.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// Of a split_ordered_hash.
struct split_ordered_options {
  std::uint64_t buckets = 2;  ///< to begin with; rounded up to a power of two
  std::uint32_t load = 2;     ///< pairs a bucket, on average, when the table doubles
  /// As many as it grows to; rounded down to a power of two.
  std::uint64_t most_buckets = std::uint64_t{1} << 40U;
  std::optional<std::uint64_t> seed{};  ///< none: it draws one; hash_seeds.hpp
};

namespace detail::map {

// ---------------------------------------------------------------------------------- the split
// order

constexpr std::uint64_t reversed_bits(std::uint64_t x) noexcept {
  const auto swap = [&](unsigned by, std::uint64_t these) {
    x = ((x >> by) & these) | ((x & these) << by);
  };
  swap(1, 0x5555555555555555U);
  swap(2, 0x3333333333333333U);
  swap(4, 0x0F0F0F0F0F0F0F0FU);
  swap(8, 0x00FF00FF00FF00FFU);
  swap(16, 0x0000FFFF0000FFFFU);
  return x >> 32U | x << 32U;
}

/// The key of a pair in the split order: odd, so that it stands after the dummy node of its bucket.
/// (What the first bit of the hash says is lost. It says nothing of the bucket.)
constexpr std::uint64_t so_regularkey(std::uint64_t hash) noexcept {
  return reversed_bits(hash) | 1U;
}
/// And of a bucket's dummy node: even, since there are fewer buckets than hashes.
constexpr std::uint64_t so_dummykey(std::uint64_t bucket) noexcept { return reversed_bits(bucket); }

/// The bucket that `bucket` was a part of, in the smallest table that has not had it.
constexpr std::uint64_t get_parent(std::uint64_t bucket) noexcept {
  return bucket & ~std::bit_floor(bucket);
}
/// The next one on the way from `from`, a parent of `bucket` or of its parents, to `bucket`.
constexpr std::uint64_t next_child(std::uint64_t from, std::uint64_t bucket) noexcept {
  const std::uint64_t rest = from ^ bucket;
  return from | (rest & (~rest + 1));
}

/// How keys are spread, and how those are sorted that meet.
template <class Hash, class Compare>
struct split_ordering {
  hash_spread spread;
  split_ordered_options options;
  [[no_unique_address]] Hash hash{};
  [[no_unique_address]] Compare less{};

  template <class K>
  [[nodiscard]] std::uint64_t hash_of(const K& key) const {
    return spread.mixed(static_cast<std::uint64_t>(hash(key)));
  }
  /// The order of pairs in the list.
  template <class A, class B>
  [[nodiscard]] bool operator()(const A& a, const B& b) const {
    const std::uint64_t one = so_regularkey(hash_of(a));
    const std::uint64_t other = so_regularkey(hash_of(b));
    return one != other ? one < other : static_cast<bool>(less(a, b));
  }
};

/// For list_chain. What is sought is a rank, where a dummy node stands or belongs, or a rank and a
/// key.
template <class Hash, class Compare>
class by_split_order {
 public:
  struct rank {
    std::uint64_t so_key;
  };
  template <class K>
  struct sought {
    std::uint64_t so_key;
    const K& key;
  };

  explicit by_split_order(split_ordering<Hash, Compare> how) : how_(std::move(how)) {}

  [[nodiscard]] const split_ordering<Hash, Compare>& less() const noexcept { return how_; }

  template <class Node, class K>
  [[nodiscard]] bool is_before(const typename Node::joint& j, const sought<K>& s) const {
    if (j.so_key != s.so_key) return j.so_key < s.so_key;
    return static_cast<bool>(how_.less(Node::of(j).key, s.key));
  }
  template <class Node, class K>
  [[nodiscard]] bool is_after(const typename Node::joint& j, const sought<K>& s) const {
    if (j.so_key != s.so_key) return j.so_key > s.so_key;
    return static_cast<bool>(how_.less(s.key, Node::of(j).key));
  }
  template <class Node>
  [[nodiscard]] bool is_before(const typename Node::joint& j, rank s) const noexcept {
    return j.so_key < s.so_key;
  }
  template <class Node>
  [[nodiscard]] bool is_after(const typename Node::joint& j, rank s) const noexcept {
    return j.so_key > s.so_key;
  }
  static constexpr bool is_pair(rank r) noexcept { return (r.so_key & 1U) != 0; }
  static constexpr bool is_surely_after(rank r, rank other) noexcept {
    return r.so_key > other.so_key;
  }

 private:
  split_ordering<Hash, Compare> how_;
};

// --------------------------------------------------------------------------------------- the table

template <class Key, class Value, class Domain, class Hash, class Compare>
class split_ordered_hash_core
    : public list_map<split_ordered_hash_core<Key, Value, Domain, Hash, Compare>, Key, Value,
                      Domain, by_split_order<Hash, Compare>> {
  using order = by_split_order<Hash, Compare>;
  using all = list_map<split_ordered_hash_core, Key, Value, Domain, order>;
  using typename all::chain;
  using typename all::counters;
  using typename all::guard;
  using typename all::link;
  using rank = typename chain::rank;
  using dummy = typename chain::joint;

 public:
  using key_compare = split_ordering<Hash, Compare>;
  using found_by = by_hash_and_order<Key, Hash, Compare>;

  split_ordered_hash_core(Domain& home, key_compare how)
      : all(home, order(how)),
        load_(checked(how.options).load),
        most_(std::bit_floor(how.options.most_buckets)),
        first_(make_dummy(0)),
        size_(std::bit_ceil(how.options.buckets)) {
    set_bucket(0, *first_);
  }
  ~split_ordered_hash_core() { this->chains().end(first_->next); }

  /// The size of the table.
  std::size_t bucket_count() const noexcept {
    // relaxed: any size is right, since a bucket that is not in order has a parent that is.
    return size_.load_relaxed();
  }

  /// Until there are buckets for so many pairs, or no more can be.
  void reserve(std::uint64_t pairs) noexcept {
    while (pairs / load_ > bucket_count() && bucket_count() < most_) twice_of(bucket_count());
  }

  /// All of it, whatever the interval: what lies after each dummy node until the next one.
  template <bool, class F>
  void scan(const interval<Key>& whole, F& f) const {
    pairs<Key, Value> batch;
    batch.reserve(chain::batch_size);
    for (dummy* from = first_.get(); from != nullptr;) {
      dummy* next = nullptr;
      bool over = false;
      const auto some = [&](const auto& rest, auto& to) {
        if (over) return false;
        const bool found = this->copy_some(from->next, rest, to, &next);
        over = next != nullptr || to.size() < chain::batch_size;
        return found;
      };
      if (!scan_in_batches<false>(batch, whole, this->chains().order().less(), some, f)) return;
      from = next;
    }
  }

 private:
  friend all;

  struct way {
    std::uint64_t hash;
    std::uint64_t so_key;

    [[nodiscard]] typename chain::rank rank() const noexcept { return {so_key}; }
    template <class K>
    [[nodiscard]] auto sought(const K& key) const noexcept {
      return typename order::template sought<K>{so_key, key};
    }
  };
  template <class K>
  way way_to(const K& key) const {
    const std::uint64_t hash = this->chains().order().less().hash_of(key);
    return {hash, so_regularkey(hash)};
  }

  atomic<link>& head_to_read(const way& to) const noexcept {
    std::uint64_t bucket = to.hash & (bucket_count() - 1);
    for (;;) {
      if (dummy* const d = get_bucket(bucket)) return d->next;
      bucket = get_parent(bucket);
    }
  }
  atomic<link>& head_to_put(guard& g, const way& to) {
    const std::uint64_t bucket = to.hash & (bucket_count() - 1);
    if (dummy* const d = get_bucket(bucket)) return d->next;
    return initialize_bucket(g, bucket).next;
  }

  dummy* get_bucket(std::uint64_t bucket) const noexcept { return buckets_.get(bucket); }
  void set_bucket(std::uint64_t bucket, dummy& d) { buckets_.set(bucket, &d); }

  /// Puts it in order, and before it those of its parents that are not yet, each from its parent.
  SPOLIA_NOINLINE dummy& initialize_bucket(guard& g, std::uint64_t bucket) {
    std::uint64_t at = bucket;
    dummy* there = get_bucket(at);
    while (there == nullptr) {
      at = get_parent(at);
      there = get_bucket(at);
    }
    while (at != bucket) {
      at = next_child(at, bucket);
      there = &insert_dummy(g, at, *there);
      set_bucket(at, *there);
    }
    return *there;
  }

  /// The dummy node of the bucket, which another thread may have put there. It is never deleted, so
  /// it needs no protection.
  dummy& insert_dummy(guard& g, std::uint64_t bucket, dummy& parent) {
    auto fresh = make_dummy(bucket);
    dummy& mine = *fresh;
    if (SPOLIA_FAULT("split_ordered.set_before_linked")) set_bucket(bucket, mine);
    for (;;) {
      const auto p = this->chains().search(g, parent.next, mine.rank());
      if (p.found && !SPOLIA_FAULT("split_ordered.own_dummy")) return *p.cur;
      if (p.found) return *fresh.release();
      if (this->chains().publish(parent.next, p, fresh)) return mine;
    }
  }
  typename chain::fresh_joint make_dummy(std::uint64_t bucket) const {
    return make_fresh<dummy>(this->home(), rank{so_dummykey(bucket)});
  }

  /// The counts of all threads are added up after each insertion into a small table, and each 64th
  /// of a thread into a large one.
  void note_added(const counters& mine) noexcept {
    const std::uint64_t size = bucket_count();
    const std::uint64_t every = std::clamp<std::uint64_t>(size / 8, 1, 64);
    if (mine.added.value() % every != 0) return;
    if (this->size_approx() / load_ > size && size < most_) twice_of(size);
  }
  void twice_of(std::uint64_t size) noexcept {
    // relaxed: see bucket_count(). If another thread has doubled it, it is large enough for now.
    size_.cas_strong_relaxed(size, 2 * size);
  }

  static const split_ordered_options& checked(const split_ordered_options& o) {
    constexpr std::uint64_t most = std::uint64_t{1} << segment_table<dummy>::most_bits;
    if (o.load == 0) throw std::invalid_argument("split_ordered_hash: a load of 0");
    if (o.buckets == 0 || o.buckets > most || o.most_buckets == 0 || o.most_buckets > most) {
      throw std::invalid_argument("split_ordered_hash: from 1 to 2^40 buckets");
    }
    if (std::bit_ceil(o.buckets) > std::bit_floor(o.most_buckets)) {
      throw std::invalid_argument("split_ordered_hash: more buckets than most_buckets");
    }
    return o;
  }

  const std::uint64_t load_;
  const std::uint64_t most_;
  const typename chain::fresh_joint first_;  // of bucket 0: here the list begins
  segment_table<dummy> buckets_;
  alignas(cache_line) atomic<std::uint64_t> size_;  // of the table: how many buckets it has
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = domain<>, class Hash = default_hash<Key>,
          class Compare = default_order<Key>>
class split_ordered_hash
    : private detail::map::kinds_by_hash<Key, Domain, Hash, Compare>,
      public detail::map::hash_face<
          detail::map::split_ordered_hash_core<Key, Value, Domain, Hash, Compare>> {
  using face = detail::map::hash_face<
      detail::map::split_ordered_hash_core<Key, Value, Domain, Hash, Compare>>;

 public:
  using options = split_ordered_options;

  /// An empty map with a domain of its own. Throws std::bad_alloc, and std::invalid_argument if an
  /// option makes no sense.
  explicit split_ordered_hash(const options& o = {}, Hash hash = Hash(), Compare less = Compare())
      : face(ordering(o, std::move(hash), std::move(less))) {}

  /// The same with nodes that go through `shared`, which must outlive the map.
  explicit split_ordered_hash(Domain& shared, const options& o = {}, Hash hash = Hash(),
                              Compare less = Compare())
      : face(shared, ordering(o, std::move(hash), std::move(less))) {}

  /// From now on there are buckets for so many pairs, and the table does not double before it has
  /// more, unless it would be larger than `most_buckets`. Takes no memory: each bucket does when it
  /// is used first. Any thread may call it at any time.
  void reserve(std::uint64_t pairs) noexcept { this->core().reserve(pairs); }

 private:
  static detail::map::split_ordering<Hash, Compare> ordering(const options& o, Hash hash,
                                                             Compare less) {
    const std::uint64_t seed = o.seed ? *o.seed : detail::map::next_hash_seed();
    return {detail::map::hash_spread(seed), o, std::move(hash), std::move(less)};
  }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

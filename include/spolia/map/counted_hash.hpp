// SPDX-License-Identifier: Apache-2.0
/// \file
/// counted_hash: a hash map over counted pointers. Readers walk by views, which for Spolia's own
/// pointers count nothing; writers take turns, a partition each.
///
/// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 4.4 (the hash map: chains
///              in partitions with a lock each).
/// Idea:        a partition has a table of chains. A pair is put in at the begin of its chain, and
///              taken out of it by setting the location before it; a table that is full is copied
///              into one twice as large. Old tables are emptied, and stay as long as the map: so
///              no thread needs to hold them, and all together are as large as the newest.
/// Protects:    nothing itself; cells stay as long as a thread views them.
/// Scans:       for_each copies the pairs of one partition, a sixty-fourth of the map, at a time.
/// Progress:    look-ups never wait; they are as lock-free as the family's views. One that finds
///              nothing while its table is replaced looks again. Writers of one partition wait for
///              each other.
/// Linearizability: writers by their lock, at the setting of the location. A look-up that walks in
///              cells or a table that were taken out meanwhile sees the chain as it was then, which
///              is a moment of the call: what a cell led to when it was taken out, it leads to for
///              ever, and what is put in later is put in elsewhere. Or it finds the chain emptied,
///              and then sees that there is another table.
/// Errors:      std::bad_alloc, and what copying keys and values throws: then nothing has changed.
///              A table that cannot grow stays, and what cannot be emptied ends with the map.
/// Keys and values are copied, compared and hashed while the writer has its turn: what they do then
/// must not change the same map.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/shown_to.hpp>
#include <spolia/base/unwind.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/counted_face.hpp>
#include <spolia/map/detail/counted_look.hpp>
#include <spolia/map/detail/counted_writer.hpp>
#include <spolia/map/detail/hash_spread.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/stamped_pair.hpp>
#include <spolia/map/hash_seeds.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Key, class Value, class Family = thin_family, class Hash = default_hash<Key>>
class counted_hash
    : public detail::map::counted_face<counted_hash<Key, Value, Family, Hash>, Key, Value> {
  friend detail::map::counted_face<counted_hash, Key, Value>;
  template <class F, class Map, class K>
  friend auto detail::map::seek_by_any(const Map&, detail::map::key_handed<K>);
  template <class Fam, class Map, class K, class F>
  friend bool detail::map::look_at(const Map&, const K&, F&&);
  template <class T>
  using location = typename Family::template location<T>;
  template <class T>
  using pointer = typename Family::template pointer<T>;

  struct cell : detail::map::stamped_pair<Key, Value> {
    cell(const Key& k, const Value& v, detail::map::value_stamp<Value> s, pointer<cell> n)
        : cell::stamped_pair(k, v, s), next(std::move(n)) {}
    static constexpr bool is_weighed_late = !weightless<Key, Value>;
    location<cell> next;
  };
  struct table {
    explicit table(std::size_t n) : size(n), chains(new location<cell>[n]) {}
    location<cell>& chain(std::uint64_t h) const noexcept { return chains[h & (size - 1)]; }
    const std::size_t size;
    const std::unique_ptr<location<cell>[]> chains;
    std::unique_ptr<const table> older;
  };
  struct alignas(cache_line) partition {
    partition() : newest(new table(first_size)) {}
    partition(const partition&) = delete;
    partition& operator=(const partition&) = delete;
    ~partition() { delete newest.load_relaxed(); }

    /// For a look-up.
    [[nodiscard]] const table* current() const noexcept {
      // acquire ← the release in replace: we see the table whole.
      return newest.load_acquire();
    }
    /// For the writer.
    [[nodiscard]] const table& table_now() const noexcept { return *newest.load_relaxed(); }
    void replace(std::unique_ptr<table> fresh) noexcept {
      const table* const old = newest.load_relaxed();
      fresh->older.reset(old);
      // release → the acquire in current: its chains. And a thread that sees a chain of the old one
      // emptied, by the family's set, sees that there is a new one.
      newest.store_release(fresh.release());
    }

    detail::map::writers writers;
    atomic<const table*> newest;
  };

 public:
  using found_by = detail::map::by_hash<Key, Hash, std::equal_to<>>;

  /// Throws std::bad_alloc. For the seed see map/hash_seeds.hpp.
  explicit counted_hash(Hash hash = {}, std::uint64_t seed = detail::map::next_hash_seed())
      : hash_(std::move(hash)), spread_(seed) {}
  /// Not beside anything.
  ~counted_hash() = default;

  /// f(const Value&); true if the key is there. The value stays while f runs.
  template <class F>
  SPOLIA_ALWAYS_INLINE bool visit(const Key& key, F&& f) const {
    return detail::map::look_up<Family>(*this, key, std::forward<F>(f));
  }
  /// The same with a key of another type (map/keys.hpp).
  template <class F, detail::map::other_key<Key, found_by> K>
  bool visit(const K& key, F&& f) const {
    if constexpr (detail::map::checked_key<found_by, K>()) {
      return detail::map::look_up<Family>(*this, key, std::forward<F>(f));
    }
    return false;
  }

  /// May lag behind changes under way.
  [[nodiscard]] std::size_t size_approx() const noexcept {
    std::size_t sum = 0;
    for (const partition& p : *partitions_) sum += p.writers.size();
    return sum;
  }

 private:
  static constexpr auto publishes = detail::map::published::by_exchange;

#if defined(SPOLIA_MODEL)
  static constexpr std::size_t partitions = 1;
  static constexpr std::size_t first_size = 1;
#else
  static constexpr std::size_t partitions = 64;
  static constexpr std::size_t first_size = 8;
#endif

  struct place {
    location<cell>* link;  // leads to `found`, or is the chain's last
    cell* found;
  };

  /// then(view) of the key's cell, or of null.
  template <class K, class Views, class Then>
  SPOLIA_ALWAYS_INLINE auto seek(Views by, const K& key, const Then& then) const {
    const std::uint64_t h = hash_of(key);
    const partition& p = partition_of(h);
    for (const table* in = p.current();;) {
      auto at = by.template look<cell>(in->chain(h));
      while (at && !same(at->key, key)) by.template step<cell>(at, at->next);
      if (!at) {
        const table* const now = p.current();
        if (now != in && !SPOLIA_FAULT("counted_hash.one_look")) {
          in = now;
          continue;
        }
      }
      return then(at);
    }
  }

  /// For the partition's writer: the cells of the chain stay while it is that.
  template <class K>
  static place search(location<cell>& chain, const K& key) {
    location<cell>* link = &chain;
    while (cell* const at = detail::map::peek<Family, cell>(*link)) {
      if (same(at->key, key)) return {link, at};
      link = &at->next;
    }
    return {link, nullptr};
  }

  bool look(const Key& key, detail::map::seen_value<Value>& to) const {
    return detail::map::look_at<Family>(*this, key,
                                        [&](const cell& at) { to.look(at.value, at.which); });
  }

  /// A partition at a time, in no order.
  template <bool, class F>
  void scan(const detail::map::interval<Key>&, F& f) const {
    std::vector<std::pair<Key, Value>> some;
    for (partition& p : *partitions_) {
      some.clear();
      {
        const detail::map::writing<Family> turn(p.writers);
        const table& in = p.table_now();
        for (std::size_t i = 0; i < in.size; ++i) {
          const cell* at = detail::map::peek<Family, cell>(in.chains[i]);
          for (; at != nullptr; at = detail::map::peek<Family, cell>(at->next)) {
            some.emplace_back(at->key, at->value);
          }
        }
      }
      for (const auto& [key, value] : some) {
        if (!detail::shown_to(f, key, value)) return;
      }
    }
  }

  template <class K, class... Seen>
  bool remove(const K& key, const Seen&... was) {
    const std::uint64_t h = hash_of(key);
    partition& p = partition_of(h);
    const detail::map::writing<Family> turn(p.writers);
    const table& in = p.table_now();
    const place where = search(in.chain(h), key);
    if (where.found == nullptr || !(where.found->has(was) && ...)) return false;
    Family::template set<cell>(*where.link, detail::map::copy<Family, cell>(where.found->next));
    p.writers.shrank();
    return true;
  }

  template <class... Seen>
  bool put(const Key& key, const Value& value, bool assign, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    const std::uint64_t h = hash_of(key);
    partition& p = partition_of(h);
    const detail::map::writing<Family> turn(p.writers);
    const table& in = p.table_now();
    const place where = search(in.chain(h), key);
    if (where.found != nullptr ? !assign || !(where.found->has(was) && ...) : only_for_seen) {
      return false;
    }
    const auto stamp = detail::map::next_stamp<Value>(p.writers.stamped());
    if (where.found != nullptr) {
      auto rest = detail::map::copy<Family, cell>(where.found->next);
      Family::template set<cell>(*where.link, Family::template make<cell>(where.found->key, value,
                                                                          stamp, std::move(rest)));
      return only_for_seen;
    }
    p.writers.grow_by([&] { push(in.chain(h), key, value, stamp); });
    if (p.writers.size() > in.size) grow(p, in);
    return true;
  }

  static void push(location<cell>& chain, const Key& key, const Value& value,
                   detail::map::value_stamp<Value> stamp) {
    auto rest = detail::map::copy<Family, cell>(chain);
    Family::template set<cell>(chain,
                               Family::template make<cell>(key, value, stamp, std::move(rest)));
  }

  /// Copies: look-ups may be under way in the cells.
  void grow(partition& p, const table& old) {
    try {
      auto twice = std::make_unique<table>(2 * old.size);
      for (std::size_t i = 0; i < old.size; ++i) {
        const cell* at = detail::map::peek<Family, cell>(old.chains[i]);
        for (; at != nullptr; at = detail::map::peek<Family, cell>(at->next)) {
          push(twice->chain(hash_of(at->key)), at->key, at->value, at->which);
        }
      }
      if (SPOLIA_FAULT("counted_hash.empties_first")) empty(old);
      p.replace(std::move(twice));
      empty(old);
    } catch (...) {
      let_unwinding_pass();
      // The pair is in. Chains get longer, until another insertion succeeds in this; or an old
      // table keeps its cells.
    }
  }
  static void empty(const table& old) {
    for (std::size_t i = 0; i < old.size; ++i) Family::template set<cell>(old.chains[i], {});
  }

  static bool same(const Key& a, const Key& b) { return default_equal<Key>()(a, b); }
  template <class K>
  static bool same(const Key& a, const K& b) {
    return static_cast<bool>(a == b);
  }
  template <class K>
  [[nodiscard]] std::uint64_t hash_of(const K& key) const {
    return spread_.mixed(static_cast<std::uint64_t>(hash_(key)));
  }
  /// By other bits than the chain.
  [[nodiscard]] partition& partition_of(std::uint64_t h) const noexcept {
    return (*partitions_)[(h >> 40U) % partitions];
  }

  [[no_unique_address]] Hash hash_;
  const detail::map::hash_spread spread_;
  const std::unique_ptr<std::array<partition, partitions>> partitions_ =
      std::make_unique<std::array<partition, partitions>>();
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

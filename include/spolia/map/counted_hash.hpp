// SPDX-License-Identifier: Apache-2.0
/// \file
/// counted_hash: a hash map over counted pointers. Readers walk by views, which for Spolia's own
/// pointers count nothing; writers take turns, a partition each.
///
/// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 4.4 (the hash map: chains
///              in partitions with a lock each).
/// Idea:        a partition has a table of chains. A pair is put in at the begin of its chain, and
///              taken out of it by setting the location before it; a table that is full is copied
///              into one twice as large, and one with eight places for each pair or more into a
///              smaller one. Old tables are emptied, are used again when the map gets back to
///              their size, and their addresses stay as long as the map, so that no thread needs
///              to hold them: but the system gets the memory of whole pages, if the family's
///              locations are words that look-ups only read.
/// Memory:      4 KiB for an empty map; 16 bytes a pair on top of key and value (24 where a value
///              is not told by its bytes, and has a stamp), and one to two words in the table after
///              growing, eight at most after erasing. A map that was emptied has up to 64 tables of
///              8 words; what it was made of is the system's again, but for what the pool of
///              counted blocks keeps (counted/detail/pool.hpp), and of the largest table that each
///              partition had and those before it 4 KiB and two pages each: some 3 MiB after a
///              million pairs.
/// Protects:    nothing itself; cells stay as long as a thread views them.
/// Scans:       for_each copies the pairs of one partition, a sixty-fourth of the map, at a time.
/// Progress:    look-ups never wait; they are as lock-free as the family's views. One that finds
///              nothing while its table is replaced looks again. Writers of one partition wait for
///              each other.
/// Linearizability: writers by their lock, at the setting of the location. A look-up that walks in
///              cells or a table that were taken out meanwhile sees the chain as it was then, which
///              is a moment of the call: what a cell led to when it was taken out, it leads to for
///              ever, and what is put in later is put in elsewhere. Or it finds the chain emptied,
///              and then sees that there is another table, or that there was. A table that is used
///              again has only what the map has.
/// Errors:      std::bad_alloc, and what copying keys and values throws: then nothing has changed.
///              A table that cannot grow stays, and what cannot be emptied ends with the map.
/// Keys and values are copied, compared and hashed while the writer has its turn: what they do then
/// must not change the same map, nor must a key's destructor, which runs there where the value
/// beside it cannot be copied. A value's destructor may: over Spolia's own pointers it runs after
/// the turn, also where a later copy fails.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/shown_to.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/counted_face.hpp>
#include <spolia/map/detail/counted_look.hpp>
#include <spolia/map/detail/counted_writer.hpp>
#include <spolia/map/detail/hash_spread.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/stamped_pair.hpp>
#include <spolia/map/hash_seeds.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Key, class Value, class Family = thin_family, class Hash = default_hash<Key>>
class counted_hash
    : private detail::map::kinds_counted_by_hash<Key, Family, Hash>,
      public detail::map::counted_face<counted_hash<Key, Value, Family, Hash>, Key, Value>,
      public detail::map::counted_looks<counted_hash<Key, Value, Family, Hash>, Key, Value, Family,
                                        detail::map::by_hash<Key, Hash, std::equal_to<>>> {
  friend detail::map::counted_face<counted_hash, Key, Value>;
  friend detail::map::counted_looks<counted_hash, Key, Value, Family,
                                    detail::map::by_hash<Key, Hash, std::equal_to<>>>;
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
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t partitions = 1;
  static constexpr std::size_t first_size = 1;
  static constexpr std::size_t sparse = 2;
#else
  static constexpr std::size_t partitions = 64;
  static constexpr std::size_t first_size = 8;
  static constexpr std::size_t sparse = 8;  // chains for each pair
#endif

  /// Its chains follow it, in the same block.
  struct alignas(64) table {
    /// Throws std::bad_alloc.
    static table* make(std::size_t n, table* others) {
      return ::new (memory::allocate(bytes_of(n), align_of(n))) table(n, others);
    }
    void end() noexcept {
      const std::size_t n = size();
      std::destroy_n(chains(), n);
      memory::deallocate(this, bytes_of(n), align_of(n));
    }

    [[nodiscard]] location<cell>* chains() noexcept {
      return std::launder(reinterpret_cast<location<cell>*>(this + 1));
    }
    location<cell>& chain(std::uint64_t h) noexcept { return chains()[h & mask]; }
    [[nodiscard]] std::size_t size() const noexcept { return mask + 1; }

    const std::size_t mask;
    table* const another;    // of the partition
    bool is_emptied = true;  // the writer's, of those that are not current

   private:
    table(std::size_t n, table* others) noexcept : mask(n - 1), another(others) {
      std::uninitialized_value_construct_n(reinterpret_cast<location<cell>*>(this + 1), n);
    }
    static constexpr std::size_t bytes_of(std::size_t n) noexcept {
      return sizeof(table) + n * sizeof(location<cell>);
    }
    /// So that the system can have most pages of large ones.
    static constexpr std::size_t align_of(std::size_t n) noexcept {
      constexpr std::size_t page = 4096;
      return bytes_of(n) < page ? alignof(table) : page;
    }
  };
  struct alignas(cache_line / 2) partition {
    partition() = default;
    partition(const partition&) = delete;
    partition& operator=(const partition&) = delete;
    ~partition() {
      for (table* t = tables; t != nullptr;) std::exchange(t, t->another)->end();
    }

    /// For a look-up: what changes when the current table does. To be asked before it and, if
    /// nothing was found, once more.
    [[nodiscard]] std::uint64_t moves() const noexcept {
      // acquire ← the release in replace: we see that table, or a newer one.
      return moved.load_acquire();
    }
    [[nodiscard]] table& current() const noexcept {
      // acquire ← the release in replace: we see the table whole.
      return *newest.load_acquire();
    }
    /// For the writer.
    [[nodiscard]] table& table_now() const noexcept { return *newest.load_relaxed(); }
    /// For the writer.
    void replace(table& by) noexcept {
      // release → the acquire in current: its chains.
      newest.store_release(&by);
      // A number, and not the table, since a table may come back: a look-up that finds a chain
      // emptied, and its table current again, must not take that for the truth. release → the
      // acquire in moves: the table. And a thread that sees a chain emptied or filled that is not
      // the current table's, by the family's set, sees that there was another one.
      const std::uint64_t next = moved.load_relaxed() + 1;
      moved.store_release(SPOLIA_FAULT("counted_hash.numbers_by_size") ? by.size() : next);
    }
    /// For the writer: a table of that size that is not the current one. Throws std::bad_alloc.
    table& other_of(std::size_t n) {
      for (table* t = tables; t != nullptr; t = t->another) {
        if (t->size() == n) return *t;
      }
      tables = table::make(n, tables);
      return *tables;
    }

    detail::map::writers writers;
    table* tables = nullptr;  // the writer's: of different sizes
    atomic<table*> newest{nullptr};
    atomic<std::uint64_t> moved{0};
    std::size_t least = first_size;  // the writer's: the smallest table that is wanted
  };
  /// Until something is put in, a partition's table is one that all of them share and nothing is
  /// put in.
  struct all_partitions {
    all_partitions() : none(table::make(1, nullptr)) {
      for (partition& p : each) p.newest.store_relaxed(none);
    }
    all_partitions(const all_partitions&) = delete;
    all_partitions& operator=(const all_partitions&) = delete;
    ~all_partitions() { none->end(); }

    std::array<partition, partitions> each;  // first: a look-up adds nothing to find one
    table* const none;
  };

 public:
  /// Throws std::bad_alloc. For the seed see map/hash_seeds.hpp.
  explicit counted_hash(Hash hash = {}, std::uint64_t seed = detail::map::next_hash_seed())
      : hash_(std::move(hash)), spread_(seed) {}
  /// Not beside anything.
  ~counted_hash() = default;

  /// Makes room for n pairs: until shrink(), the tables do not grow before there are as many, by
  /// chance a few less, nor become smaller than for that many. Copies what is there, a partition at
  /// a time. Throws std::length_error if n is above 2^40, and std::bad_alloc; then no pair is lost,
  /// and some partitions may have the room. A word a pair, up to two by rounding.
  void reserve(std::size_t n) {
    if (n > std::size_t{1} << 40U) throw std::length_error("counted_hash: room for more than 2^40");
    // What is spread by chance over partitions is a little more in some.
    const std::size_t each = n / partitions + n / (8 * partitions);
    for (partition& p : partitions_->each) {
      const detail::map::writing<Family> turn(p.writers);
      const std::size_t least = (std::max)(first_size, std::bit_ceil(each));
      if (table_of(p, least).size() < least) move(p, least);
      p.least = (std::max)(p.least, least);
    }
  }
  /// Gives back what tables have beyond their pairs, and what reserve() made. Copies what is there,
  /// a partition at a time. A table that cannot be made for want of memory stays as it is; throws
  /// std::bad_alloc as updates do. Updates do the same to a partition that has an eighth of the
  /// pairs that its table is for, but for what was reserved.
  void shrink() {
    for (partition& p : partitions_->each) {
      const detail::map::writing<Family> turn(p.writers);
      p.least = first_size;
      if (size_for(p) < p.table_now().size()) try_to_move(p, size_for(p));
    }
  }

  /// May lag behind changes under way.
  [[nodiscard]] std::size_t size_approx() const noexcept {
    std::size_t sum = 0;
    for (const partition& p : partitions_->each) sum += p.writers.size();
    return sum;
  }

 private:
  static constexpr auto publishes = detail::map::published::by_exchange;

  struct place {
    location<cell>* link;  // leads to `found`, or is the chain's last
    cell* found;
  };

  /// then(view) of the key's cell, or of null.
  template <class K, class Views, class Then>
  SPOLIA_ALWAYS_INLINE auto seek(Views by, const K& key, const Then& then) const {
    const std::uint64_t h = hash_of(key);
    const partition& p = partition_of(h);
    for (;;) {
      const std::uint64_t moves = p.moves();
      auto at = by.template look<cell>(p.current().chain(h));
      while (at && !same(at->key, key)) by.template step<cell>(at, at->next);
      if (!at && p.moves() != moves && !SPOLIA_FAULT("counted_hash.one_look")) [[unlikely]]
        continue;
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

  /// A partition at a time, in no order.
  template <bool, class F>
  void scan(const detail::map::interval<Key>&, F& f) const {
    std::vector<std::pair<Key, Value>> some;
    for (partition& p : partitions_->each) {
      some.clear();
      {
        const detail::map::writing<Family> turn(p.writers);
        some.reserve(p.writers.size());  // copies that a vector moves end in the turn
        table& in = p.table_now();
        for (const location<cell>& chain : std::span(in.chains(), in.size())) {
          const cell* at = detail::map::peek<Family, cell>(chain);
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
    table& in = p.table_now();
    const place where = search(in.chain(h), key);
    if (where.found == nullptr || !(where.found->has(was) && ...)) return false;
    Family::template set<cell>(*where.link, detail::map::copy<Family, cell>(where.found->next));
    p.writers.shrank();
    if (p.writers.size() < in.size() / sparse && in.size() > p.least) [[unlikely]]
      try_to_move(p, size_for(p));
    return true;
  }

  template <class K, class... Seen>
  bool put(const K& key, const Value& value, bool assign, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    const std::uint64_t h = hash_of(key);
    partition& p = partition_of(h);
    const detail::map::writing<Family> turn(p.writers);
    table& in = p.table_now();
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
    if constexpr (!only_for_seen) {
      table& to = table_of(p, first_size);
      p.writers.grow_by([&] { push(to.chain(h), key, value, stamp); });
      if (p.writers.size() > to.size()) [[unlikely]]
        try_to_move(p, 2 * to.size());
    }
    return true;
  }

  /// For the writer: the partition's own; if it has none, one of n chains. Throws std::bad_alloc.
  SPOLIA_ALWAYS_INLINE static table& table_of(partition& p, std::size_t n) {
    return p.tables != nullptr ? p.table_now() : first_table(p, n);
  }
  SPOLIA_NOINLINE static table& first_table(partition& p, std::size_t n) {
    table& first = p.other_of(n);
    first.is_emptied = false;
    p.replace(first);
    return first;
  }

  static void push(location<cell>& chain, const Key& key, const Value& value,
                   detail::map::value_stamp<Value> stamp) {
    auto rest = detail::map::copy<Family, cell>(chain);
    Family::template set<cell>(chain,
                               Family::template make<cell>(key, value, stamp, std::move(rest)));
  }

  /// For the writer: the pairs go to a table of n chains. Copies: look-ups may be under way in the
  /// cells. If it throws nothing has changed.
  void move(partition& p, std::size_t n) {
    table& from = p.table_now();
    if (n == from.size()) return;
    table& to = p.other_of(n);
    if (!to.is_emptied) empty(to);  // what was left when it failed
    to.is_emptied = false;
    [[maybe_unused]] detail::map::set_quietly<Family> quietly;
    for (const location<cell>& chain : std::span(from.chains(), from.size())) {
      const cell* at = detail::map::peek<Family, cell>(chain);
      for (; at != nullptr; at = detail::map::peek<Family, cell>(at->next)) {
        // Else a copy might end here, in the turn, for want of memory to set its link.
        if constexpr (!std::is_trivially_destructible_v<Value>) quietly.to_set();
        push(to.chain(hash_of(at->key)), at->key, at->value, at->which);
      }
    }
    if (SPOLIA_FAULT("counted_hash.empties_first")) empty(from);
    p.replace(to);
    from.is_emptied = false;
    detail::map::let_fail([&] { empty(from); });
  }
  /// Chains get longer, until another insertion succeeds in this; or a table stays as it is.
  SPOLIA_NOINLINE void try_to_move(partition& p, std::size_t n) {
    detail::map::let_fail([&] { move(p, n); });
  }
  /// At most half full, so that it does not grow at once.
  static std::size_t size_for(const partition& p) noexcept {
    return (std::max)(p.least, std::bit_ceil(2 * p.writers.size()));
  }
  static void empty(table& old) {
    const std::span all(old.chains(), old.size());
    for (location<cell>& chain : all) Family::template set<cell>(chain, {});
    old.is_emptied = true;
    // Look-ups under way find what they would find. Only where these do not write into locations,
    // as families with locks in them do.
    if constexpr (requires { Family::template peek<cell>(all.front()); }) {
      memory::forget_zeros(all.data(), all.size_bytes());
    }
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
    return partitions_->each[(h >> 40U) % partitions];
  }

  [[no_unique_address]] Hash hash_;
  const detail::map::hash_spread spread_;
  const std::unique_ptr<all_partitions> partitions_ = std::make_unique<all_partitions>();
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

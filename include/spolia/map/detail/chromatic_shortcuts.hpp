// SPDX-License-Identifier: Apache-2.0
// chromatic_shortcuts.hpp: ways into the midst of a chromatic tree: a sorted table of routers some
// levels below the root, with the first key of each. A search begins at one of them and not at the
// root: a few cache lines that are read all the time, instead of two for each level. So do searches
// and scans at a snapshot, unless that is older than the table.
//
// Idea:     the table says only where to begin, so it may be out of date. It is made by whoever
//           changes the tree's shape for the n-th time, and never changes.
// Cost:     a search: log2 of the table's size, in one array. Making one: about two looks at each
//           router above those in it, once for half as many changes of shape as it has entries.
// Progress: searches never wait; one thread at a time makes a table, others go on without.
// Bound:    the table holds its routers (owner.hpp): at most Most removed routers, with what hangs
//           on them, stay until the next table, or renew().
//
// Why a search may begin there. An entry says: router R routes (at least) these keys.
//   1. It was true when the entry was made. The maker went down from the root. A node that was in
//      the tree when its parent's link was read had at least the keys that the way to it gives. If
//      the parent had been removed before, its links stand still, and what hung on it has come
//      under a node that was put in the parent's place.
//   2. It stays true while R is in the tree: all steps, and folds, leave subtrees as they are or
//      give them more keys.
//   3. R is in the tree when it is found not to be marked: marks come before the link is changed.
//      Under the guard that protects the table this look cannot be older than the end of anything
//      that may have been freed, as with each other look into the structure. From there on it is a
//      search like any other.
// Why snapshots may go past it. A search settles the stamps of the links that it follows. A link
//   above R that came after the table may be without a stamp still, and get one above the time of a
//   snapshot that is taken when our operation is over. That snapshot goes the way from before. For
//   the keys of the entry this leads to R as well (1, 2), and all below R that our operation relied
//   on is settled. Nodes whose own first link is not settled are not reached: the maker settled
//   those above, and the search those below; so what removes a node has settled what published it.
// Why a search at a snapshot may begin there. The table has a time that is not below the stamps of
//   the links that its maker followed; the snapshot's is not below that. So all changes that made
//   the way to R are in the snapshot, and by 1 R routed the keys at the table's time, or had been
//   removed. By 2 it routed them at the snapshot's, if it was still there: R was found not to be
//   marked when the snapshot had been taken, so the stamp of its removal is above its time
//   (internal::mark()). From R on links are followed at the snapshot's time, like any others, and
//   what that comes to is kept for it like anything else that it sees.
// Why the memory is there. The table is read under a guard, and retired when it was replaced. Its
//   holds are dropped afterwards, so R is retired later than our guard began.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/kept_pair.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// How many shortcuts a tree has at most; 0: none, since comparing keys would look elsewhere.
template <class Key>
inline constexpr std::size_t usual_shortcuts =
#if defined(SPOLIA_MODEL)
    0;  // scenarios that want some say so
#else
    is_plain_bytes<Key> && std::is_default_constructible_v<Key> && std::is_copy_assignable_v<Key> &&
            sizeof(Key) <= 16
        ? 2048
        : 0;
#endif

template <class Nodes, class Collector, std::size_t Most>
class chromatic_shortcuts {
  static_assert(std::has_single_bit(Most));
  using key_type = typename Nodes::key_type;
  using internal = typename Nodes::internal;
  using link = typename Nodes::link;
  using session = typename Collector::session;

  struct place {
    key_type from;
    internal* at;
    bool is_final;
  };
  struct table final : Nodes::domain_type::header {
    std::uint64_t since = 0;  // not below the stamp of any link that its maker went by
    std::size_t count = 0;
    std::size_t half = 0;  // of the least power of two that is not below the count
    std::array<key_type, Most> from;
    std::array<internal*, Most> at;  // null: it was retired
  };

 public:
  chromatic_shortcuts(Collector& c, internal& entry) noexcept : collector_(c), entry_(entry) {}
  chromatic_shortcuts(const chromatic_shortcuts&) = delete;
  chromatic_shortcuts& operator=(const chromatic_shortcuts&) = delete;

  /// A router that routes `key`; null: none is known. Inside a session.
  template <class Compare>
  internal* near(const key_type& key, const Compare& less) const {
    const table* const t = current();
    if (t == nullptr) return nullptr;
    internal* const r = t->at[place_of(*t, key, less)];
    // relaxed: it may be removed at once in any case; and see 3 above.
    if (r == nullptr || (r->marked.load_relaxed() && !SPOLIA_FAULT("shortcuts.removed")))
      return nullptr;
    return r;
  }

  /// One that routed it at a snapshot's time, too.
  template <class Compare>
  const internal* near(const key_type& key, const Compare& less, std::uint64_t then) const {
    const table* const t = at_time(then);
    return t == nullptr ? nullptr : seen_at(*t, place_of(*t, key, less));
  }

  /// A router that routed all keys from some point in front of `lo` (null: the first key), or
  /// there, up to `end`, which lies behind it (null: all that follow). Null: none is known.
  struct stretch_of_keys {
    internal* router = nullptr;
    const key_type* end = nullptr;
  };
  template <class Compare>
  stretch_of_keys stretch(const key_type* lo, const Compare& less, std::uint64_t then) const {
    const table* const t = at_time(then);
    if (t == nullptr) return {};
    const std::size_t at = lo == nullptr ? 0 : place_of(*t, *lo, less);
    return {seen_at(*t, at), at + 1 < t->count ? &t->from[at + 1] : nullptr};
  }

  /// The tree has got another shape.
  void changed(session& here) noexcept {
    // relaxed, both: they only say when it is time for another table.
    if (changes_.fetch_add_relaxed(1) + 1 >= due_.load_relaxed()) [[unlikely]]
      renew(here);
  }

  /// Makes a new table, of what is in the tree; without memory, or if somebody else is doing that,
  /// the old one stays.
  SPOLIA_NOINLINE void renew(session& here) noexcept {
    // acquire ← the release below: we see the last table made.
    if (busy_.exchange_acquire(true)) return;
    try {
      replace(here, make());
    } catch (...) {
    }
    changes_.store_relaxed(0);
    // release → the acquire above.
    busy_.store_release(false);
  }

  /// The collector is closed, and the nodes in the tree end next.
  void clear() noexcept {
    table* const t = now_.load_relaxed();
    if (t == nullptr) return;
    for (std::size_t i = 0; i < t->count; ++i) {
      // The last hold: it was removed, and waited for us alone.
      if (t->at[i] != nullptr && t->at[i]->drop()) t->at[i]->destroy_in(collector_.nodes());
    }
    collector_.nodes().destroy(t);
  }

 private:
  const table* current() const {
    // acquire ← the release in replace(): we see the table made.
    const table* const t = now_.load_acquire();
    if (t != nullptr) memory::note_access(t);
    return t;
  }
  /// Null: it may be younger than that.
  const table* at_time(std::uint64_t then) const {
    const table* const t = current();
    if (t == nullptr || (t->since > then && !SPOLIA_FAULT("shortcuts.any_time"))) return nullptr;
    return t;
  }
  /// Null: it was removed, perhaps before the snapshot.
  static internal* seen_at(const table& t, std::size_t at) {
    internal* const r = t.at[at];
    if (r == nullptr || (r->is_removed() && !SPOLIA_FAULT("shortcuts.removed"))) return nullptr;
    return r;
  }
  /// The last one with a first key that is not behind this.
  template <class Compare>
  static std::size_t place_of(const table& t, const key_type& key, const Compare& less) {
    std::size_t at = 0;
    for (std::size_t step = t.half; step != 0; step /= 2) {
      // Computed, not branched on: nobody could foretell it.
      at += less(key, t.from[at + step]) ? 0 : step;
    }
    return at;
  }

  const link& follow(internal* at, unsigned side) const noexcept {
    return at->child(side).newest(collector_.time())->value;
  }

  /// Null: the tree is too small.
  table* make() {
    const std::vector<place> all = choose();
    due_.store_relaxed(all.size() / 2 + least_changes);
    if (all.empty()) return nullptr;
    table* const t = collector_.nodes().template make<table>();
    t->since = collector_.time().latest();
    t->count = all.size();
    t->half = std::bit_ceil(all.size()) / 2;
    for (std::size_t i = 0; i < 2 * t->half || i < t->count; ++i) {
      if (i >= t->count) {  // searches may come to any of a power of two
        t->from[i] = t->from[i - 1];
        t->at[i] = t->at[i - 1];
        continue;
      }
      t->from[i] = all[i].from;
      const bool held = SPOLIA_FAULT("shortcuts.not_held") || all[i].at->hold();
      t->at[i] = held ? all[i].at : nullptr;
    }
    return t;
  }

  /// Level by level, as long as there is room and leaves are two links away at least. (Updates want
  /// to know two links above a leaf.) Inside of a session. Throws std::bad_alloc.
  std::vector<place> choose() const {
    std::vector<place> level;
    if (const link& top = follow(&entry_, 0); !top.to_leaf) {
      level.push_back({key_type(), Nodes::as_internal(top.to), false});
      if (!may_open(*level[0].at)) return {};
    }
    std::vector<place> next;
    for (bool grows = !level.empty(); grows; level.swap(next)) {
      grows = false;
      next.clear();
      for (std::size_t i = 0; i < level.size(); ++i) {
        place& p = level[i];
        const bool room = next.size() + (level.size() - i) < Most;
        grows = (!p.is_final && room && open(p, next)) || grows;
        if (p.at != nullptr) next.push_back(p);
      }
    }
    return level;
  }

  /// Puts a router's children in its place, if both may be.
  bool open(place& p, std::vector<place>& next) const {
    p.is_final = true;
    const std::array<link, 2> to{follow(p.at, 0), follow(p.at, 1)};
    for (const link& l : to) {
      if (l.to_leaf || !may_open(*Nodes::as_internal(l.to))) return false;
    }
    next.push_back({p.from, Nodes::as_internal(to[0].to), false});
    next.push_back({p.at->key, Nodes::as_internal(to[1].to), false});
    p.at = nullptr;
    return true;
  }
  /// No child is a leaf.
  bool may_open(internal& r) const noexcept {
    return !follow(&r, 0).to_leaf && !follow(&r, 1).to_leaf;
  }

  void replace(session& here, table* fresh) noexcept {
    // release → the acquire in near(); acquire: we see the old one made.
    table* const old = now_.exchange_acq_rel(fresh);
    if (old == nullptr) return;
    for (std::size_t i = 0; i < old->count; ++i) {
      const bool held = old->at[i] != nullptr && !SPOLIA_FAULT("shortcuts.not_held");
      if (held) collector_.let_go(here, *old->at[i]);
    }
    if (SPOLIA_FAULT("shortcuts.freed_at_once")) return collector_.nodes().destroy(old);
    here.guard().retire(old);
  }

  /// Before the first table; later that, and half as many as it has entries.
  static constexpr std::size_t least_changes = 1 + Most / 16;

  Collector& collector_;
  internal& entry_;
  alignas(cache_line) atomic<table*> now_{nullptr};
  alignas(cache_line) atomic<std::size_t> changes_{0};
  atomic<std::size_t> due_{least_changes};
  atomic<bool> busy_{false};
};

/// None.
template <class Nodes, class Collector>
class chromatic_shortcuts<Nodes, Collector, 0> {
  using internal = typename Nodes::internal;
  using session = typename Collector::session;

 public:
  chromatic_shortcuts(Collector&, internal&) noexcept {}
  template <class Key, class Compare>
  internal* near(const Key&, const Compare&) const noexcept {
    return nullptr;
  }
  template <class Key, class Compare>
  const internal* near(const Key&, const Compare&, std::uint64_t) const noexcept {
    return nullptr;
  }
  struct stretch_of_keys {
    internal* router = nullptr;
    const typename Nodes::key_type* end = nullptr;
  };
  template <class Key, class Compare>
  stretch_of_keys stretch(const Key*, const Compare&, std::uint64_t) const noexcept {
    return {};
  }
  void changed(session&) noexcept {}
  void renew(session&) noexcept {}
  void clear() noexcept {}
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

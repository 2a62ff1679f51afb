// SPDX-License-Identifier: Apache-2.0
// chromatic_shortcuts.hpp: a table of internal nodes in the middle of a chromatic tree. It is
// sorted by the first key of each, and has nodes far below the root; in all but the largest trees,
// nearly all nodes that have a leaf. A search begins at one of these and not at the root: it reads
// a few cache lines that are read all the time, instead of two for each level. So do searches and
// scans at a snapshot, unless that is older than the table.
//
// Idea:     the table says only where to begin, so it may be out of date. The thread that changes
//           the tree's shape for the n-th time makes it, and it never changes. If a node of it was
//           removed, the search begins at a higher one, of which the table has some, too.
// Cost:     a search: a few looks into one array, with integers for keys (chromatic_ways.hpp),
//           otherwise log2 of the table's size. Making a table: about two looks at each internal
//           node above those in it, once for a quarter as many changes of shape as it has entries.
//           That is done a piece at a time (chromatic_chooser.hpp), so that no update looks at more
//           than some 400 nodes.
// Progress: searches never wait; one thread at a time makes a table, others go on without it.
// Bound:    the table holds its nodes (owner.hpp): those that were removed since it was made stay,
//           with their subtrees, until the next table is made, or renew(). The next one is begun
//           when leaves were split or merged `least_changes` times and a quarter as often as the
//           table has entries, and takes some 60 such changes more. Meanwhile both tables hold
//           nodes.
//
// Why a search may begin there. An entry says: internal node R routes (at least) these keys.
//   1. It was true when the entry was made. The maker went down from the root. A node that was in
//      the tree when its parent's link was read had at least the keys that the path to it gives. If
//      the parent had been removed before, its links do not change any more, and its subtrees were
//      put under a node that has replaced it.
//   2. It stays true while R is in the tree: all steps, and merges, leave subtrees as they are or
//      give them more keys.
//   3. R is in the tree when it is found not to be marked: marks come before the link is changed.
//      Under the guard that protects the table this look cannot be older than the end of anything
//      that may have been freed, as with each other look into the structure. From there on it is a
//      search like any other.
// Why the links above R need no stamps. A search sets the stamps of the links that it follows. A
//   link above R that is newer than the table may still be without a stamp, and get one above the
//   time of a snapshot that is taken when our operation is over. That snapshot takes the path from
//   before that link. For the keys of the entry this leads to R as well (1, 2), and all links below
//   R on which our operation relied are stamped. Nodes whose own first link is not stamped are not
//   reached: the maker stamped those above, and the search those below. So an operation that
//   removes a node has stamped the link that published it.
// Why a search at a snapshot may begin there. The table has a time that is not below the stamps of
//   the links that its maker followed, and the snapshot's time is not below the table's. So all
//   changes that made the path to R are in the snapshot, and by 1 R routed the keys at the table's
//   time, or had been removed. By 2 it routed them at the snapshot's time, if it was still there: R
//   was found not to be marked when the snapshot had been taken, so the stamp of its removal is
//   above the snapshot's time (internal::mark()). From R on links are followed at the snapshot's
//   time, like any others, and the nodes to which they lead are kept for it like all that it sees.
// Why the memory is there. The table is read under a guard, and retired when it was replaced. Its
//   holds are dropped afterwards, so R is retired later than our guard began.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/map/detail/chromatic_chooser.hpp>
#include <spolia/map/detail/chromatic_ways.hpp>
#include <spolia/map/detail/kept_pair.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// How many shortcuts a tree has at most. 0: none, since a comparison would read keys out of line.
template <class Key>
inline constexpr std::size_t usual_shortcuts =
#if defined(SPOLIA_MODEL)
    0;  // scenarios that want some say so
#else
    is_plain_bytes<Key> && std::is_default_constructible_v<Key> && std::is_copy_assignable_v<Key> &&
            sizeof(Key) <= 16
        ? 8192
        : 0;
#endif

template <class Nodes, class Collector, class Compare, std::size_t Most>
class chromatic_shortcuts {
  static_assert(std::has_single_bit(Most) && Most <= 65536);
  using key_type = typename Nodes::key_type;
  using internal = typename Nodes::internal;
  using session = typename Collector::session;
  using ways = chromatic_ways<key_type, internal, Compare>;
  using chooser = chromatic_chooser<Nodes, Collector, typename ways::entry, Most>;

  struct table final : Nodes::domain_type::header {
    table(ways l, ways h, std::uint64_t s) noexcept
        : low(std::move(l)), high(std::move(h)), since(s) {}
    /// How many nodes it holds.
    [[nodiscard]] std::size_t count() const noexcept { return low.count() + high.count(); }
    [[nodiscard]] internal* operator[](std::size_t i) const noexcept {
      return i < low.count() ? low[i].at : high[i - low.count()].at;
    }
    ways low;
    ways high;            // nodes some levels above
    std::uint64_t since;  // not below the stamp of any link that its maker followed
  };

 public:
  chromatic_shortcuts(Collector& c, internal& entry, const Compare& less) noexcept
      : collector_(c), entry_(entry), less_(less) {}
  chromatic_shortcuts(const chromatic_shortcuts&) = delete;
  chromatic_shortcuts& operator=(const chromatic_shortcuts&) = delete;

  /// An internal node that routes `key`; null: none is known. Inside a session.
  template <class K>
  internal* nearest(const K& key) const {
    const table* const t = current();
    if (t == nullptr) return nullptr;
    internal* const r = in_tree(t->low[t->low.place_of(key, less_)].at);
    if (r != nullptr || t->high.count() == 0) [[likely]]
      return r;
    return in_tree(t->high[t->high.place_of(key, less_)].at);
  }

  /// An internal node that routed `key` at a snapshot's time, too; null: none is known.
  template <class K>
  const internal* nearest(const K& key, std::uint64_t then) const {
    const table* const t = at_time(then);
    if (t == nullptr) return nullptr;
    const internal* const r = seen_at(t->low[t->low.place_of(key, less_)].at);
    return r != nullptr ? r : high_near(*t, key, less_);
  }

  /// A walk over internal nodes, in the order of keys. At a snapshot's time, each routed all keys
  /// from some key on, with no gap after the keys that the node before it routed.
  class walk {
   public:
    [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }
    /// The node; null: it was removed, perhaps before the snapshot.
    [[nodiscard]] internal* router() const noexcept { return seen_at(of_->low[at_].at); }
    /// A node above it that routed the given key, which it routed itself, and all keys between that
    /// and its end; null: none is known.
    [[nodiscard]] internal* higher(const key_type& key, const Compare& less) const {
      return high_near(*of_, key, less);
    }
    /// All keys that the node routed, and the next node did not, are below this; null: there is no
    /// next one.
    [[nodiscard]] const key_type* end() const noexcept {
      return at_ + 1 < of_->low.count() ? std::addressof(of_->low[at_ + 1].from) : nullptr;
    }
    /// Goes to the next node. Precondition: end() is not null.
    void step() noexcept { ++at_; }
    /// Prefetches what the walk will read after the next steps, early enough that each line is
    /// there when the line to which it leads is prefetched.
    void fetch_ahead() const noexcept {
      if (const internal* const r = ahead(at_a_time)) __builtin_prefetch(std::addressof(r->key));
      if (const internal* const r = ahead(near_by)) r->prefetch();
    }
    /// The same for the steps that come first.
    void fetch_first() const noexcept {
      for (std::size_t i = 0; i < at_a_time; ++i) {
        if (const internal* const r = ahead(i)) __builtin_prefetch(std::addressof(r->key));
      }
      for (std::size_t i = 0; i < near_by; ++i) {
        if (const internal* const r = ahead(i)) r->prefetch();
      }
    }
    /// Fetches the leaves to which the next step leads.
    void fetch_leaves() const noexcept {
      if (const internal* const r = ahead(1)) r->prefetch_leaves();
    }

   private:
    friend class chromatic_shortcuts;
    static constexpr std::size_t at_a_time = 8;
    static constexpr std::size_t near_by = 4;
    walk() = default;
    walk(const table& of, std::size_t at, std::size_t fetched) noexcept
        : of_(&of), at_(at), fetched_(fetched) {}
    [[nodiscard]] const internal* ahead(std::size_t steps) const noexcept {
      return at_ + steps < fetched_ ? of_->low[at_ + steps].at : nullptr;
    }
    const table* of_ = nullptr;
    std::size_t at_ = 0;
    std::size_t fetched_ = 0;  // only nodes before this one are prefetched
  };
  /// A walk from the node that routed `lo` (null: the first) on; false: none is known. `hi` (null:
  /// the end) is where the scan ends, and limits what is prefetched.
  walk walk_from(const key_type* lo, const key_type* hi, std::uint64_t then) const {
    const table* const t = at_time(then);
    if (t == nullptr) return {};
    return {*t, lo == nullptr ? 0 : t->low.place_of(*lo, less_),
            hi == nullptr ? t->low.count() : t->low.place_of(*hi, less_) + 1};
  }

  /// To be called when the tree's shape was changed.
  void changed(session& here) noexcept {
    // relaxed, both: they only say when it is time for another table.
    if (changes_.fetch_add_relaxed(1) + 1 < due_.load_relaxed()) [[likely]]
      return;
    go_on_with_next(here);
  }

  /// Makes a new table of the nodes that are in the tree. The old one stays if there is no memory,
  /// or if another thread is making one.
  SPOLIA_NOINLINE void renew(session& here) noexcept {
    if (!take()) return;
    // First completes a table that is under way: it was begun before.
    if (next_ != nullptr || leaving_ != nullptr) go_on(here, ~std::size_t{0});
    go_on(here, ~std::size_t{0});
    leave();
  }

  /// Drops all holds. The collector is closed, and the nodes in the tree end next.
  void clear() noexcept {
    const auto end = [this](internal* r) {
      // The last hold: the node was removed, and only the table still held it.
      if (r != nullptr && r->drop()) r->destroy_in(collector_.nodes());
    };
    if (maker_.load_relaxed() == 0) {
      for (; leaving_ != nullptr && left_ != leaving_->count(); ++left_) end((*leaving_)[left_]);
      if (leaving_ != nullptr) collector_.nodes().destroy(leaving_);
      if (next_ != nullptr) {
        for (const auto* const some : {&next_->low, &next_->high}) {
          for (const auto& w : *some) end(w.at);
        }
      }
    } else {
      lose();
    }
    table* const t = now_.load_relaxed();
    if (t == nullptr) return;
    for (std::size_t i = 0; i < t->count(); ++i) end((*t)[i]);
    collector_.nodes().destroy(t);
  }

 private:
  const table* current() const {
    // acquire ← the release in replace(): we see the table made.
    const table* const t = now_.load_acquire();
    if (t != nullptr) memory::note_access(t);
    return t;
  }
  /// The table for a snapshot of this time; null: the table may be younger.
  const table* at_time(std::uint64_t then) const {
    const table* const t = current();
    if (t == nullptr || (t->since > then && !SPOLIA_FAULT("shortcuts.any_time"))) return nullptr;
    return t;
  }
  /// The node if it is in the tree, else null; see 3 above.
  static internal* in_tree(internal* r) {
    // relaxed: the node may be removed right after this in any case.
    if (r == nullptr || (r->marked.load_relaxed() && !SPOLIA_FAULT("shortcuts.removed"))) {
      return nullptr;
    }
    return r;
  }
  /// The node if a snapshot sees it for certain; null: it was removed, perhaps before the snapshot.
  static internal* seen_at(internal* r) {
    if (r == nullptr || (r->is_removed() && !SPOLIA_FAULT("shortcuts.removed_then")))
      return nullptr;
    return r;
  }
  template <class K>
  SPOLIA_NOINLINE static internal* high_near(const table& t, const K& key, const Compare& less) {
    return t.high.count() == 0 ? nullptr : seen_at(t.high[t.high.place_of(key, less)].at);
  }
  /// Becomes the thread that makes a table. False: another one is that, and was not lost in a fork.
  bool take() noexcept {
    std::uint64_t maker = maker_.load_relaxed();
    if (maker != 0 && !threads::lost(maker)) return false;
    // acquire ← the release in leave(): we see what was made so far.
    if (!maker_.cas_strong_acquire(maker, threads::identity())) return false;
    if (maker != 0) lose();
    return true;
  }
  /// release → the acquire above.
  void leave() noexcept { maker_.store_release(0); }
  /// Gives up what a thread that was lost in a fork was making: its state is not known.
  void lose() noexcept {
    static_cast<void>(next_.release());
    leaving_ = nullptr;
  }

  SPOLIA_NOINLINE void go_on_with_next(session& here) noexcept {
    if (!take()) return;
    go_on(here, looks_at_once);
    leave();
  }

  /// Goes on making the next table, and then dropping the holds of the old one, by at most so many
  /// looks. If there is no memory, the next call tries again.
  void go_on(session& here, std::size_t looks) noexcept {
    try {
      if (leaving_ == nullptr && choose(looks)) return;
    } catch (...) {
      return;
    }
    for (; leaving_ != nullptr && left_ != leaving_->count(); ++left_) {
      if (looks-- == 0) return;
      internal* const r = (*leaving_)[left_];
      if (r != nullptr && !SPOLIA_FAULT("shortcuts.not_held")) collector_.let_go(here, *r);
    }
    changes_.store_relaxed(0);
    table* const old = std::exchange(leaving_, nullptr);
    if (old == nullptr) return;
    if (SPOLIA_FAULT("shortcuts.freed_at_once")) return collector_.nodes().destroy(old);
    here.guard().retire(old);
  }

  /// Chooses nodes for the next table. True: there are more to choose. False: it has become the
  /// table, and the one before is leaving. Throws std::bad_alloc; then it may be called again.
  bool choose(std::size_t& looks) {
    if (next_ == nullptr) next_ = std::make_unique<chooser>(collector_, entry_);
    if (next_->go_on(looks)) return true;
    table* fresh = nullptr;  // the tree is too small
    if (!next_->low.empty()) {
      // Copies, so that no hold is lost if there is no memory.
      ways low(next_->low);
      ways high(next_->high);
      fresh = collector_.nodes().template make<table>(std::move(low), std::move(high),
                                                      collector_.time().latest());
    }
    due_.store_relaxed(next_->low.size() / 4 + least_changes);
    next_ = nullptr;
    // release → the acquire in current(); acquire: we see the old one made.
    leaving_ = now_.exchange_acq_rel(fresh);
    left_ = 0;
    return false;
  }

  /// How many changes come before the first table; for later ones, a quarter of the entries more.
  static constexpr std::size_t least_changes = 1 + std::min<std::size_t>(Most / 16, 128);
  /// Some ten microseconds. Choosing below one node is not interrupted, and takes up to 128 more.
  static constexpr std::size_t looks_at_once = 256;

  Collector& collector_;
  internal& entry_;
  const Compare& less_;
  alignas(cache_line) atomic<table*> now_{nullptr};
  alignas(cache_line) atomic<std::size_t> changes_{0};
  atomic<std::size_t> due_{least_changes};
  atomic<std::uint64_t> maker_{0};  // the thread that uses the following; 0: none
  std::unique_ptr<chooser> next_;
  table* leaving_ = nullptr;  // was replaced, and is retired when it holds no node
  std::size_t left_ = 0;      // the first node that it still holds
};

/// No shortcuts.
template <class Nodes, class Collector, class Compare>
class chromatic_shortcuts<Nodes, Collector, Compare, 0> {
  using key_type = typename Nodes::key_type;
  using internal = typename Nodes::internal;
  using session = typename Collector::session;

 public:
  chromatic_shortcuts(Collector&, internal&, const Compare&) noexcept {}
  template <class K>
  internal* nearest(const K&) const noexcept {
    return nullptr;
  }
  template <class K>
  const internal* nearest(const K&, std::uint64_t) const noexcept {
    return nullptr;
  }
  struct walk {
    [[nodiscard]] explicit operator bool() const noexcept { return false; }
    [[nodiscard]] internal* router() const noexcept { return nullptr; }
    [[nodiscard]] const key_type* end() const noexcept { return nullptr; }
    [[nodiscard]] internal* higher(const key_type&, const Compare&) const noexcept {
      return nullptr;
    }
    void step() noexcept {}
    void fetch_ahead() const noexcept {}
    void fetch_first() const noexcept {}
    void fetch_leaves() const noexcept {}
  };
  walk walk_from(const key_type*, const key_type*, std::uint64_t) const noexcept { return {}; }
  void changed(session&) noexcept {}
  void renew(session&) noexcept {}
  void clear() noexcept {}
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

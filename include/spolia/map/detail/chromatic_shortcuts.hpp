// SPDX-License-Identifier: Apache-2.0
// chromatic_shortcuts.hpp: ways into the middle of a chromatic tree: a sorted table of routers far
// below the root, with the first key of each; in all but the largest trees, nearly all of those
// that have a leaf. A search begins at one of them and not at the root: a few cache lines that are
// read all the time, instead of two for each level. So do searches and scans at a snapshot, unless
// that is older than the table.
//
// Idea:     the table says only where to begin, so it may be out of date. It is made by the thread
//           that changes the tree's shape for the n-th time, and never changes. What hangs on a
//           router that was removed is found by one that lies higher up, of which the table has
//           some, too.
// Cost:     a search: a few looks into one array, with integers for keys (chromatic_ways.hpp),
//           otherwise log2 of the table's size. Making one: about two looks at each router above
//           those in it, once for a quarter as many changes of shape as it has entries; a piece at
//           a time (chromatic_chooser.hpp), so that no update looks at more than some 400.
// Progress: searches never wait; one thread at a time makes a table, others go on without.
// Bound:    the table holds its routers (owner.hpp): those that were removed since it was made stay
//           until the next one, or renew(), with what hangs on them. That is begun when leaves were
//           divided or folded `least_changes` times and a quarter as often as it has entries, and
//           takes some 60 such changes more. Meanwhile there are routers of both.
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
// Why snapshots may go past it. A search sets the stamps of the links that it follows. A link
//   above R that came after the table may be without a stamp still, and get one above the time of a
//   snapshot that is taken when our operation is over. That snapshot goes the way from before. For
//   the keys of the entry this leads to R as well (1, 2), and all below R that our operation relied
//   on is stamped. Nodes whose own first link is not stamped are not reached: the maker stamped
//   those above, and the search those below; so what removes a node has stamped what published it.
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

/// How many shortcuts a tree has at most; 0: none, since comparing keys would look elsewhere.
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
    /// All that it holds.
    [[nodiscard]] std::size_t count() const noexcept { return low.count() + high.count(); }
    [[nodiscard]] internal* operator[](std::size_t i) const noexcept {
      return i < low.count() ? low[i].at : high[i - low.count()].at;
    }
    ways low;
    ways high;            // some levels above
    std::uint64_t since;  // not below the stamp of any link that its maker went by
  };

 public:
  chromatic_shortcuts(Collector& c, internal& entry, const Compare& less) noexcept
      : collector_(c), entry_(entry), less_(less) {}
  chromatic_shortcuts(const chromatic_shortcuts&) = delete;
  chromatic_shortcuts& operator=(const chromatic_shortcuts&) = delete;

  /// A router that routes `key`; null: none is known. Inside a session.
  template <class K>
  internal* nearest(const K& key) const {
    const table* const t = current();
    if (t == nullptr) return nullptr;
    internal* const r = in_tree(t->low[t->low.place_of(key, less_)].at);
    if (r != nullptr || t->high.count() == 0) [[likely]]
      return r;
    return in_tree(t->high[t->high.place_of(key, less_)].at);
  }

  /// One that routed it at a snapshot's time, too.
  template <class K>
  const internal* nearest(const K& key, std::uint64_t then) const {
    const table* const t = at_time(then);
    if (t == nullptr) return nullptr;
    const internal* const r = seen_at(t->low[t->low.place_of(key, less_)].at);
    return r != nullptr ? r : high_near(*t, key, less_);
  }

  /// From some router on, in the order of keys: each routed, at a snapshot's time, all keys from
  /// some point on, which lies before the keys that follow those of the router before it.
  class walk {
   public:
    [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }
    /// Null: it was removed, perhaps before the snapshot.
    [[nodiscard]] internal* router() const noexcept { return seen_at(of_->low[at_].at); }
    /// One that lies above it, and routed a key that it routed and all keys between that and its
    /// end; null: none is known.
    [[nodiscard]] internal* higher(const key_type& key, const Compare& less) const {
      return high_near(*of_, key, less);
    }
    /// The keys that it routed, and that the next one does not, end before this; null: never.
    [[nodiscard]] const key_type* end() const noexcept {
      return at_ + 1 < of_->low.count() ? std::addressof(of_->low[at_ + 1].from) : nullptr;
    }
    /// There must be an end.
    void step() noexcept { ++at_; }
    /// Fetches what will be looked at after the next steps: each line has come when that which
    /// it leads to is asked for.
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
    std::size_t fetched_ = 0;  // those before this one are fetched
  };
  /// From the one that routed `lo` (null: the first) on; false: none is known. A scan that goes no
  /// further than to `hi` (null: to the end) says so, for the sake of what is fetched.
  walk walk_from(const key_type* lo, const key_type* hi, std::uint64_t then) const {
    const table* const t = at_time(then);
    if (t == nullptr) return {};
    return {*t, lo == nullptr ? 0 : t->low.place_of(*lo, less_),
            hi == nullptr ? t->low.count() : t->low.place_of(*hi, less_) + 1};
  }

  /// The tree has another shape now.
  void changed(session& here) noexcept {
    // relaxed, both: they only say when it is time for another table.
    if (changes_.fetch_add_relaxed(1) + 1 < due_.load_relaxed()) [[likely]]
      return;
    go_on_with_next(here);
  }

  /// Makes a new table, of what is in the tree; without memory, or if another thread is at it, the
  /// old one stays.
  SPOLIA_NOINLINE void renew(session& here) noexcept {
    if (!take()) return;
    // What is under way was begun before.
    if (next_ != nullptr || leaving_ != nullptr) go_on(here, ~std::size_t{0});
    go_on(here, ~std::size_t{0});
    leave();
  }

  /// The collector is closed, and the nodes in the tree end next.
  void clear() noexcept {
    const auto end = [this](internal* r) {
      // The last hold: it was removed, and waited for us alone.
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
  /// Null: it may be younger than that.
  const table* at_time(std::uint64_t then) const {
    const table* const t = current();
    if (t == nullptr || (t->since > then && !SPOLIA_FAULT("shortcuts.any_time"))) return nullptr;
    return t;
  }
  /// Null: it is not; see 3 above.
  static internal* in_tree(internal* r) {
    // relaxed: it may be removed at once in any case.
    if (r == nullptr || (r->marked.load_relaxed() && !SPOLIA_FAULT("shortcuts.removed"))) {
      return nullptr;
    }
    return r;
  }
  /// Null: it was removed, perhaps before the snapshot.
  static internal* seen_at(internal* r) {
    if (r == nullptr || (r->is_removed() && !SPOLIA_FAULT("shortcuts.removed_then")))
      return nullptr;
    return r;
  }
  template <class K>
  SPOLIA_NOINLINE static internal* high_near(const table& t, const K& key, const Compare& less) {
    return t.high.count() == 0 ? nullptr : seen_at(t.high[t.high.place_of(key, less)].at);
  }
  /// To be the thread that makes a table; false: another one is, unless it was lost in a fork.
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
  /// What a thread that was lost in a fork was in the middle of: its state is not known.
  void lose() noexcept {
    static_cast<void>(next_.release());
    leaving_ = nullptr;
  }

  SPOLIA_NOINLINE void go_on_with_next(session& here) noexcept {
    if (!take()) return;
    go_on(here, looks_at_once);
    leave();
  }

  /// At the next table, and then at giving up the old one, as far as that goes with so many looks.
  /// Without memory it stays where it is.
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

  /// True: there is more to choose. Otherwise what was chosen has become the table, and the one
  /// before is leaving. Throws std::bad_alloc; then it may be called again.
  bool choose(std::size_t& looks) {
    if (next_ == nullptr) next_ = std::make_unique<chooser>(collector_, entry_);
    if (next_->go_on(looks)) return true;
    table* fresh = nullptr;  // the tree is too small
    if (!next_->low.empty()) {
      // Copies: what is held must not be lost if there is no memory.
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

  /// Before the first table; later that, and a quarter as many as it has entries.
  static constexpr std::size_t least_changes = 1 + std::min<std::size_t>(Most / 16, 128);
  /// Some ten microseconds. What is chosen below one router is chosen at once, and takes up to 128.
  static constexpr std::size_t looks_at_once = 256;

  Collector& collector_;
  internal& entry_;
  const Compare& less_;
  alignas(cache_line) atomic<table*> now_{nullptr};
  alignas(cache_line) atomic<std::size_t> changes_{0};
  atomic<std::size_t> due_{least_changes};
  atomic<std::uint64_t> maker_{0};  // the thread that is at the following; 0: none
  std::unique_ptr<chooser> next_;
  table* leaving_ = nullptr;  // was replaced, and is retired when it holds nothing
  std::size_t left_ = 0;      // of it: the first router that it still holds
};

/// None.
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

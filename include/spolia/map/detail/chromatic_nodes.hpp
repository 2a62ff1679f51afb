// SPDX-License-Identifier: Apache-2.0
// chromatic_nodes.hpp: the nodes of a chromatic tree whose links have a history.
//
// A node of two children routes: keys before its own are to the left. Pairs lie in the leaves, in
// order and at most Capacity of them in one. Leaves never change. One that belongs to a batch
// (map/changes.hpp) has two contents: pair_block.hpp. The weight of a node (0: red, 1: black, more:
// overweight) is kept with the pointer to it, so that a change of weight alone replaces no node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/detail/kept_pair.hpp>
#include <spolia/map/detail/pair_block.hpp>
#include <spolia/map/detail/scx.hpp>
#include <spolia/version/owned_field.hpp>
#include <spolia/version/owner.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// How many pairs a leaf takes unless one says so: half a kilobyte of what copying bytes copies. Of
/// counted blocks less, since each copy counts, and each comparison looks into a block.
template <class Key, class Value>
inline constexpr std::size_t usual_leaf_pairs =
#if defined(SPOLIA_MODEL)
    1;  // so that few keys make a tree
#else
    kept_pair<Key, Value>::extra_bytes != 0
        ? 6
        : std::clamp<std::size_t>(512 / sizeof(kept_pair<Key, Value>), 8, 32);
#endif

template <class Key, class Value, version_collector Collector, std::size_t Capacity>
struct chromatic_nodes {
  static_assert(Capacity >= 1);
  using domain_type = typename Collector::domain_type;
  using guard = typename domain_type::guard;
  using key_type = Key;
  using pair = kept_pair<Key, Value>;
  static constexpr std::size_t capacity = Capacity;

  enum class kind : std::uint8_t {
    entry,     // routes everything to the left, and is never removed
    internal,  // routes by its key
    leaf,
  };

  struct node : list_owner<domain_type> {
    node(kind k, std::uint64_t born) noexcept : list_owner<domain_type>(born), is(k) {}
    [[nodiscard]] bool is_leaf() const noexcept { return is == kind::leaf; }
    const kind is;

   protected:
    ~node() = default;
  };

  struct link {
    node* to;
    std::uint32_t weight;
    bool to_leaf;  // as `to` says, too, which lies in another cache line
    [[nodiscard]] link weighing(std::uint32_t w) const noexcept { return {to, w, to_leaf}; }
  };

  class leaf : public pair_block<node, pair> {
   protected:
    leaf(void* room, std::uint64_t born) noexcept
        : pair_block<node, pair>(room, kind::leaf, born) {}
    ~leaf() = default;
  };
  using leaf_maker =
      std::conditional_t<(Capacity > 8), block_maker<leaf, domain_type, pair, 4, 8, 16, 24, 32>,
                         block_maker<leaf, domain_type, pair, 1, 2, 4, 8>>;

  struct alignas(64) alignas(Key) internal final : node {
    using field = owned_head<link, Collector>;
    using oldest = typename field::first;
    using version = typename field::version;
    using child_type = version*;

    /// Throws what copying a key throws.
    internal(std::uint64_t born, const Key& k, link left, link right)
        : node(kind::internal, born), key(k), first_left_(*this, left), first_right_(*this, right) {
      begin();
    }
    /// The entry.
    internal(std::uint64_t born, link top) noexcept
        : node(kind::entry, born),
          first_left_(*this, top),
          first_right_(*this, link{nullptr, 1, false}) {
      begin();
    }
    ~internal() {
      std::destroy_at(&heads_);
      if (this->is == kind::internal) key.~Key();
    }
    internal(const internal&) = delete;
    internal& operator=(const internal&) = delete;

    [[nodiscard]] field& child(unsigned i) noexcept { return i == 0 ? heads_.left : heads_.right; }
    [[nodiscard]] const field& child(unsigned i) const noexcept {
      return i == 0 ? heads_.left : heads_.right;
    }

    /// Fetches what both of its links will be asked for.
    void prefetch() const noexcept {
      heads_.left.prefetch();
      heads_.right.prefetch();
    }

    /// Fetches what the link on that side will be asked for, and the leaf that is expected there,
    /// at the same time: otherwise that waits for the version. (Nothing for the model checker to
    /// try.)
    void prefetch([[maybe_unused]] unsigned side) const noexcept {
#if !defined(SPOLIA_MODEL)
      child(side).prefetch();
      if (const void* const there = child(side).expected()) leaf::prefetch_at(there);
#endif
    }
    /// The link on that side has become this one.
    void expect([[maybe_unused]] unsigned side, [[maybe_unused]] const link& l) noexcept {
#if !defined(SPOLIA_MODEL)
      child(side).expect(l.to_leaf ? l.to : nullptr);
#endif
    }

    /// Fetches the leaves that hang on it, if any. (Nothing for the model checker to try.)
    void prefetch_leaves() const noexcept {
#if !defined(SPOLIA_MODEL)
      heads_.left.look_ahead([](const link& l) { prefetch_leaf(l); });
      heads_.right.look_ahead([](const link& l) { prefetch_leaf(l); });
#endif
    }

    void retire_by(guard& g) noexcept override {
      heads_.left.retire_by(g);
      heads_.right.retire_by(g);
      g.retire(this);
    }
    void destroy_in(domain_type& nodes) noexcept override {
      heads_.left.destroy_in(nodes);
      heads_.right.destroy_in(nodes);
      nodes.destroy(this);
    }
    [[nodiscard]] std::size_t bytes() const noexcept override { return sizeof(internal); }

    /// It is about to be removed: for scx.hpp.
    void mark() noexcept {
      // seq_cst, as the change of the link and the look at the clock that follow ↔ the clock that a
      // snapshot passes, and is_removed(). So the removal of what was not found marked afterwards
      // gets a stamp above the snapshot's time. (Otherwise relaxed would do: scx.hpp.)
      marked.store_seq_cst(true);
    }
    /// When a snapshot has been taken: false, it is seen by that if it came before.
    [[nodiscard]] bool is_removed() const noexcept { return marked.load_seq_cst(); }
    [[nodiscard]] std::uint64_t ended_left() const noexcept override {
      return heads_.left.ended_left() + heads_.right.ended_left();
    }

   private:
    /// Of a router that was removed it may be gone.
    static void prefetch_leaf(const link& l) noexcept {
      if (l.to_leaf) leaf::prefetch_at(l.to);
    }

    struct heads {
      field left;
      field right;
    };
    /// When the first versions are there.
    void begin() noexcept {
      ::new (&heads_) heads{field(*this, first_left_), field(*this, first_right_)};
      expect(0, first_left_.value);
      expect(1, first_right_.value);
    }

    // What a search looks at lies in one line of 64 bytes, and so does what a change of a link
    // writes: with the count of holds, which is before it.
   public:
    atomic<bool> marked{false};

   private:
    union {
      heads heads_;  // begin() makes them
    };

   public:
    union {
      Key key;  // the entry has none
    };
    atomic<std::uint64_t> info{untouched_record};

   private:
    oldest first_left_;
    oldest first_right_;
  };

  /// What a walk looks at where that leads.
  static void prefetch(const link& l) noexcept {
    if (l.to_leaf) return as_leaf(l.to)->prefetch();
    __builtin_prefetch(std::addressof(as_internal(l.to)->key));
  }
  static internal* as_internal(node* n) noexcept { return static_cast<internal*>(n); }
  static leaf* as_leaf(node* n) noexcept { return static_cast<leaf*>(n); }
  static const internal* as_internal(const node* n) noexcept {
    return static_cast<const internal*>(n);
  }
  static const leaf* as_leaf(const node* n) noexcept { return static_cast<const leaf*>(n); }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// chromatic_nodes.hpp: the nodes of a chromatic tree whose links have a history.
//
// A node of two children routes: keys in front of its own are to the left. Pairs lie in the leaves,
// which never change. A leaf that belongs to a batch (map/changes.hpp) is a choice: of two leaves
// with its key, which hang on nothing else, it is one that counts, or none. The weight of a node
// (0: red, 1: black, more: overweight) is kept with the pointer to it, so that a change of weight
// alone replaces no node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/scx.hpp>
#include <spolia/version/owned_field.hpp>
#include <spolia/version/owner.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector>
struct chromatic_nodes {
  using domain_type = typename Collector::domain_type;
  using guard = typename domain_type::guard;

  enum class kind : std::uint8_t {
    entry,     // routes everything to the left, and is never removed
    internal,  // routes by its key
    pair,      // a leaf
    choice,    // a leaf that stands for one of two, or for none
    empty,     // the leaf of an empty tree
  };

  struct node : list_owner<domain_type> {
    node(kind k, std::uint64_t born) noexcept : list_owner<domain_type>(born), is(k) {}
    [[nodiscard]] bool is_leaf() const noexcept { return is >= kind::pair; }
    [[nodiscard]] bool has_key() const noexcept { return is == kind::pair || is == kind::choice; }
    const kind is;
  };

  struct link {
    node* to;
    std::uint32_t weight;
    [[nodiscard]] link weighing(std::uint32_t w) const noexcept { return {to, w}; }
  };

  struct keyed : node {
    keyed(kind k, std::uint64_t born, const Key& its) : node(k, born), key(its) {}
    const Key key;
  };

  template <class Self, class Base>
  struct leaf_base : Base {
    using Base::Base;
    void retire_by(guard& g) noexcept override { g.retire(static_cast<Self*>(this)); }
    void destroy_in(domain_type& nodes) noexcept override {
      nodes.destroy(static_cast<Self*>(this));
    }
    [[nodiscard]] std::size_t bytes() const noexcept override { return sizeof(Self); }
  };
  struct empty_leaf final : leaf_base<empty_leaf, node> {
    explicit empty_leaf(std::uint64_t born) noexcept
        : leaf_base<empty_leaf, node>(kind::empty, born) {}
  };
  struct leaf final : leaf_base<leaf, keyed> {
    template <class V>
    leaf(std::uint64_t born, const Key& k, V&& v)
        : leaf_base<leaf, keyed>(kind::pair, born, k), value(Value(std::forward<V>(v))) {}
    const Value value;
  };
  struct choice final : leaf_base<choice, keyed> {
    choice(std::uint64_t born, const Key& k, batch_state& b, leaf* from, leaf* to)
        : leaf_base<choice, keyed>(kind::choice, born, k), batch(b), before(from), after(to) {
      batch.hold();
    }
    ~choice() { batch.drop(); }
    choice(const choice&) = delete;
    choice& operator=(const choice&) = delete;

    batch_state& batch;
    leaf* const before;
    leaf* const after;
  };

  struct internal final : node {
    using field = owned_field<link, Collector>;
    using version = typename field::version;
    using child_type = version*;

    /// Throws what copying a key throws.
    internal(std::uint64_t born, const Key& k, link left, link right)
        : node(kind::internal, born), key(k), left_(*this, left), right_(*this, right) {}
    /// The entry.
    internal(std::uint64_t born, link top) noexcept
        : node(kind::entry, born), left_(*this, top), right_(*this, link{nullptr, 1}) {}
    ~internal() {
      if (this->is == kind::internal) key.~Key();
    }
    internal(const internal&) = delete;
    internal& operator=(const internal&) = delete;

    [[nodiscard]] field& child(unsigned i) noexcept { return i == 0 ? left_ : right_; }
    [[nodiscard]] const field& child(unsigned i) const noexcept { return i == 0 ? left_ : right_; }

    void retire_by(guard& g) noexcept override {
      left_.retire_by(g);
      right_.retire_by(g);
      g.retire(this);
    }
    void destroy_in(domain_type& nodes) noexcept override {
      left_.destroy_in(nodes);
      right_.destroy_in(nodes);
      nodes.destroy(this);
    }
    [[nodiscard]] std::size_t bytes() const noexcept override { return sizeof(internal); }
    [[nodiscard]] std::uint64_t ended_left() const noexcept override {
      return left_.ended_left() + right_.ended_left();
    }

    union {
      Key key;  // the entry has none
    };
    atomic<bool> marked{false};
    atomic<std::uint64_t> info{untouched_record};

   private:
    field left_;
    field right_;
  };

  static internal* as_internal(node* n) noexcept { return static_cast<internal*>(n); }
  static choice* as_choice(node* n) noexcept { return static_cast<choice*>(n); }
  static const Key& key_of(const node* leaf) noexcept {
    return static_cast<const keyed*>(leaf)->key;
  }
  /// The pair that a leaf stands for at time t, null if none.
  template <class Timeline>
  static leaf* pair_of(node* n, std::uint64_t t, Timeline& time) noexcept {
    if (n->is == kind::pair) [[likely]]
      return static_cast<leaf*>(n);
    if (n->is != kind::choice) return nullptr;
    const choice& c = *as_choice(n);
    return c.batch.counts_at(t, time) ? c.after : c.before;
  }
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

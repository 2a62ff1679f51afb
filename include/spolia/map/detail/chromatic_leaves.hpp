// SPDX-License-Identifier: Apache-2.0
// chromatic_leaves.hpp: how the leaves of a chromatic tree are searched, and made of other leaves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/chromatic_nodes.hpp>
#include <spolia/map/detail/edited.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Nodes, class Collector, class Compare>
class chromatic_leaves {
 public:
  using key_type = typename Nodes::key_type;
  using pair = typename Nodes::pair;
  using leaf = typename Nodes::leaf;
  using pairs = typename leaf::pairs;
  using edit = edited<pair>;

  /// Where in some pairs that of a key is, or would be.
  struct place {
    pairs in{};
    std::size_t at = 0;
    bool found = false;
    [[nodiscard]] const pair* get() const noexcept { return found ? &in[at] : nullptr; }
    /// What comes of them when the pair is `with`, or goes, if that is null.
    [[nodiscard]] edit changed(const pair* with) const noexcept { return {in, at, found, with}; }
  };

  /// What is to be in a leaf; before a batch, and after it, if there is one.
  struct content {
    edit after{};
    edit before{};
    batch_state* batch = nullptr;
    [[nodiscard]] std::size_t most() const noexcept {
      return (std::max)(before.size(), after.size());
    }
  };

  chromatic_leaves(Collector& c, const Compare& less) noexcept : collector_(c), less_(less) {}

  template <class K>
  place find(pairs in, const K& key) const {
    const std::size_t at = detail::map::place_of_key(in, key, less_);
    return {in, at, at < in.size() && !less_(key, in[at].key())};
  }

  /// No other thread knows it yet; it ends unless it is released.
  struct give_back {
    Collector* to;
    void operator()(leaf* l) const noexcept { l->destroy_in(to->nodes()); }
  };
  using fresh = std::unique_ptr<leaf, give_back>;

  /// A leaf of all that. Throws std::bad_alloc.
  fresh make(const content& c) const { return make(c, {0, 0}, all_of(c)); }

  /// A leaf of these pairs. Throws std::bad_alloc.
  fresh made_of(pairs all) const {
    fresh made = room_for(all.size());
    made->push(all);
    return made;
  }

  /// A leaf of the pairs seen in `from`, on which a batch relies. Throws std::bad_alloc.
  fresh repeat(const leaf& from, pairs seen, batch_state& batch) const {
    fresh made = room_for(seen.size());
    made->push(seen);
    made->rely(batch, from, collector_.time());
    return made;
  }

  /// The pairs of two neighbours. Throws std::bad_alloc.
  fresh join(const edit& low, const edit& high) const {
    fresh made = room_for(low.size() + high.size());
    low.copy(*made, 0, low.size());
    high.copy(*made, 0, high.size());
    return made;
  }

  /// Two leaves, with keys before `middle` and the others. A batch's pairs are divided like those
  /// from before it, whether it will take effect or not.
  struct halves {
    const key_type& middle;
    fresh low;
    fresh high;
  };
  /// Of at least two pairs. Throws std::bad_alloc, and what comparing keys throws.
  halves divide(const content& c) const {
    const bool by_before = c.before.size() > c.after.size();
    const edit& larger = by_before ? c.before : c.after;
    const std::size_t half = larger.size() / 2;
    const key_type& middle = larger[half].key();
    // Not by a search: a comparison that is no order could leave one of them with all.
    const cut at{by_before ? detail::map::place_of_key(c.after, middle, less_) : half,
                 by_before ? half : detail::map::place_of_key(c.before, middle, less_)};
    return {middle, make(c, {0, 0}, at), make(c, at, all_of(c))};
  }

 private:
  /// A place between the pairs, in both contents.
  struct cut {
    std::size_t after;
    std::size_t before;
  };
  static cut all_of(const content& c) noexcept { return {c.after.size(), c.before.size()}; }

  fresh room_for(std::size_t size) const {
    return {Nodes::leaf_maker::make(collector_.nodes(), size, collector_.time().earliest()),
            give_back{&collector_}};
  }
  fresh make(const content& c, cut from, cut to) const {
    // Also if the batch leaves all as it is, since a key is absent already, or present: a thread
    // that changes that before the batch is ready has to undo it.
    const bool two = c.batch != nullptr && !(SPOLIA_FAULT("chromatic.claims_only_changes") &&
                                             c.after.size() == c.before.size());
    fresh made = room_for(to.after - from.after + (two ? to.before - from.before : 0));
    if (two) {
      c.before.copy(*made, from.before, to.before);
      made->join(*c.batch);
    }
    c.after.copy(*made, from.after, to.after);
    return made;
  }

  Collector& collector_;
  const Compare& less_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// tree_batches.hpp: how a change of a snapshot_tree that belongs to a batch (map/changes.hpp) is
// put in place.
//
// The leaf of the key gives way to a choice between it, or nothing, and what the batch makes of it;
// or if the key has no leaf, a choice is added in the usual way. So a batch changes one link for
// each key, and the shape of the tree only by what any insertion does. Whoever wants to change the
// same key decides the batch first; changes of other keys, and rebalancing, take a choice for a
// leaf like any other. What does not count is never looked at, so it may end when the batch has.
//
// Who ends the two leaves. The one from before dies when the batch takes effect, by who made the
//   batch; if it does not take effect, with the choice. The one from afterwards belongs to whoever
//   made the batch until that takes effect, and then goes with the choice, or whatever comes in the
//   place of it. A choice for nothing is taken out when the batch is over: without memory, it stays
//   until the key is inserted.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/chromatic_tree.hpp>
#include <spolia/map/detail/fresh.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector, class Compare>
class chromatic_tree<Key, Value, Collector, Compare>::batch_change {
 public:
  /// `key` maps to nothing. Throws what copying a key throws.
  template <class K>
  batch_change(chromatic_tree& in, K&& key)
      : tree_(in),
        key_(std::forward<K>(key)),
        with_(no_fresh<leaf>(in.collector_.nodes())),
        only_if_absent_(false) {}
  /// `key` maps to `value`. Throws std::bad_alloc, or what making a value throws, besides.
  template <class K, class V>
  batch_change(chromatic_tree& in, bool if_absent, K&& key, V&& value)
      : tree_(in),
        key_(std::forward<K>(key)),
        with_(make_fresh<leaf>(in.collector_.nodes(), in.born(), key_, std::forward<V>(value))),
        only_if_absent_(if_absent) {}

  /// Puts it in place. False: the batch was undone.
  bool stage(batch_state& batch) {
    const owner me = tree_.steps_.records().me();
    static_cast<void>(tree_.size_.here());
    session here = tree_.enter();
    while (!batch.is_undone()) {
      if (try_stage(here, me, batch)) return true;
    }
    return false;
  }

  /// The batch has taken effect at that time. By the thread that called stage().
  void committed(std::uint64_t stamp) noexcept {
    if (used_) static_cast<void>(with_.release());
    if (leaves_ != nullptr) {
      session here = tree_.enter();
      tree_.collector_.died(here, *leaves_, stamp);
    }
    if (difference_ > 0) tree_.size_.here().added.add(1);
    if (difference_ < 0) tree_.size_.here().removed.add(1);
    if (vanishes_) sweep();
  }
  /// The batch never will.
  void given_up() noexcept { sweep(); }

 private:
  bool try_stage(session& here, owner me, batch_state& batch) {
    const spot s = tree_.locate(key_);
    const bool there = tree_.is_at(s, key_);
    const choice* const own = there ? own_choice(s, batch) : nullptr;
    leaf* const before = own != nullptr ? own->before : there ? tree_.settled_pair_in(s) : nullptr;
    leaf* const now = own != nullptr ? own->after : before;
    leaf* const after = only_if_absent_ && now != nullptr ? now : with_.get();
    view p;
    if (!tree_.still_there(here, s, p)) return false;
    auto made =
        make_fresh<choice>(tree_.collector_.nodes(), tree_.born(), key_, batch, before, after);
    // relaxed: nobody has seen it.
    if (with_ != nullptr) with_->since.store_relaxed(made->since.load_relaxed());
    bool violation = false;
    const std::uint64_t since = there ? tree_.substitute(here, me, s, p, made.get(), before)
                                      : tree_.add(here, me, s, p, made.get(), violation);
    if (since == 0) return false;
    made.release();
    batch.placed(since);
    used_ = after != nullptr && after == with_.get();
    leaves_ = now != after ? now : nullptr;
    vanishes_ = after == nullptr;
    difference_ = (after != nullptr ? 1 : 0) - (now != nullptr ? 1 : 0);
    if (violation) tree_.rebalance(here, me, key_);
    return true;
  }
  static const choice* own_choice(const spot& s, const batch_state& batch) noexcept {
    if (s.low.to()->is != kind::choice) return nullptr;
    const choice* const c = nodes::as_choice(s.low.to());
    return &c->batch == &batch ? c : nullptr;
  }

  /// Takes out the leaf of the key if a batch has left it without a pair.
  void sweep() noexcept {
    try {
      const owner me = tree_.steps_.records().me();
      session here = tree_.enter();
      for (;;) {
        const spot s = tree_.locate(key_);
        if (!tree_.is_at(s, key_) || s.low.to()->is != kind::choice) return;
        // If another batch is under way, that one will sweep.
        if (!nodes::as_choice(s.low.to())->batch.is_decided()) return;
        if (tree_.settled_pair_in(s) != nullptr || tree_.remove(here, me, s, key_)) return;
      }
    } catch (...) {  // then it stays
    }
  }

  chromatic_tree& tree_;
  const Key key_;
  fresh<leaf, domain_type> with_;  // ours until the batch takes effect
  const bool only_if_absent_;
  bool used_ = false;
  bool vanishes_ = false;
  int difference_ = 0;
  leaf* leaves_ = nullptr;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

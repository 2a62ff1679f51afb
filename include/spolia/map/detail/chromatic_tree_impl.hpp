// SPDX-License-Identifier: Apache-2.0
// chromatic_tree_impl.hpp: what a snapshot_tree does seldom: batches, and the account of versions.
// Part of chromatic_tree.hpp, which includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/unwind.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/version/holdings.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// A change that belongs to a batch (map/changes.hpp), put in place.
///
/// The leaf of the key is replaced by one with two contents: what is in it before the batch, and
/// what is in it afterwards. A thread that wants to change the leaf decides the batch first. Where
/// that takes two leaves, both contents are divided by one key; a half in which the batch changes
/// nothing is a leaf like all others.
///   A leaf that the batch, or its end, leaves without pairs is taken out when the batch is over:
/// without memory, it stays until something is put there.
template <class Key, class Value, version_collector Collector, class Compare, std::size_t Capacity,
          std::size_t Shortcuts>
class chromatic_tree<Key, Value, Collector, Compare, Capacity, Shortcuts>::batch_change {
 public:
  /// `key` maps to nothing. Throws what copying a key throws.
  template <class K>
  batch_change(chromatic_tree& in, K&& key) : tree_(in), key_(std::forward<K>(key)) {}
  /// `key` maps to `value`. Also throws std::bad_alloc, or what making a value throws.
  template <class K, class V>
  batch_change(chromatic_tree& in, bool if_absent, K&& key, V&& value)
      : batch_change(in, std::forward<K>(key)) {
    with_.emplace(pair::make(0, key_, std::forward<V>(value)));
    only_if_absent_ = if_absent;
  }

  [[nodiscard]] bool is_of(const Key& key) const {
    return !tree_.less_(key_, key) && !tree_.less_(key, key_);
  }
  template <class Within>
  [[nodiscard]] bool is_within(const Within& all) const {
    return !all.is_after(key_, tree_.less_) && !all.is_over_at(key_, tree_.less_);
  }
  [[nodiscard]] bool is_only_if_absent() const noexcept { return only_if_absent_; }
  /// What the key maps to afterwards; null: nothing.
  [[nodiscard]] const Value* value() const noexcept {
    return with_ ? std::addressof(with_->value()) : nullptr;
  }

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

  /// The batch has taken effect. By the thread that called stage(). True: there is something to
  /// tidy.
  bool committed() noexcept {
    if (difference_ > 0) tree_.size_.here().added.add(1);
    if (difference_ < 0) tree_.size_.here().removed.add(1);
    return empties_;
  }
  /// When all that belongs to the batch has heard of that. Throws no exception; but a thread that
  /// ends may unwind through here, and through given_up().
  void tidy() {
    if (empties_) sweep();
  }
  /// The batch never will.
  void given_up() { sweep(); }

 private:
  bool try_stage(session& here, owner me, batch_state& batch) {
    const spot s = tree_.locate(key_);
    leaf& l = *nodes::as_leaf(s.low.to());
    const bool again = l.batch.is_changed_by(batch);
    const pairs before = again ? l.before() : l.current(tree_.time());
    const place now = tree_.leaves_.find(again ? l.after() : before, key_);
    if (!again && !l.stands(before, tree_.time())) return false;
    view p;
    if (!tree_.still_there(here, s, p)) return false;
    const bool stays = with_ ? only_if_absent_ && now.found : !now.found;
    const pair* const with = with_ ? &*with_ : nullptr;
    const content c{.after = stays ? edit{.from = now.in} : now.changed(with),
                    .before = {.from = before},
                    .batch = &batch};
    if (again) l.changes_again();
    bool violation = false;
    const std::uint64_t since = tree_.replace(here, me, s, p, c, violation);
    if (since == 0) return false;
    batch.placed(since);
    difference_ = stays || (with_ && now.found) ? 0 : with_ ? 1 : -1;
    empties_ = c.after.size() == 0;
    if (violation) tree_.rebalance(here, me, key_);
    return true;
  }

  /// Takes out the leaf of the key if it has been left without a pair.
  void sweep() {
    try {
      const owner me = tree_.steps_.records().me();
      session here = tree_.enter();
      for (;;) {
        const spot s = tree_.locate(key_, tree_.top_edge());
        if (s.upper.at == nullptr) return;  // the only leaf may be empty
        // If another batch that changes it is under way, that one will sweep.
        if (s.at().batch.has_two() && !s.at().batch.is_decided()) return;
        const pairs now = s.current(tree_.time());
        if (!now.empty()) return;
        if (s.stands(now, tree_.time()) &&
            tree_.shrink(here, me, s, {}, key_, nullptr) == chromatic_tree::shrunk::yes) {
          return;
        }
      }
    } catch (...) {
      let_unwinding_pass();  // else the leaf stays
    }
  }

  chromatic_tree& tree_;
  const Key key_;
  std::optional<pair> with_{};
  bool only_if_absent_ = false;
  bool empties_ = false;
  int difference_ = 0;  // of the number of pairs
};

// Which versions there are, and which snapshots hold them.

template <class Key, class Value, version_collector Collector, class Compare, std::size_t Capacity,
          std::size_t Shortcuts>
holdings chromatic_tree<Key, Value, Collector, Compare, Capacity, Shortcuts>::account() {
  holdings all;
  renew_shortcuts();
  const std::uint64_t held = collector_.stats().held();
  detail::version::holdings_sum sum(collector_.time().living());
  collector_.audit([&](const auto& v) {
    // relaxed: it has ended, so its stamp was set before.
    sum.add(v.since.load_relaxed(), v.until.read(), v.bytes());
  });
  const snapshot now(collector_.time(), "account");
  weigh(entry_, 0, now.timestamp(), all, sum);
  sum.finish(all);
  all.obsolete = held > all.needed ? held - all.needed : 0;
  const auto waiting = collector_.nodes().sums();
  all.waiting = waiting.garbage();
  all.waiting_bytes = waiting.garbage_bytes();
  return all;
}

template <class Key, class Value, version_collector Collector, class Compare, std::size_t Capacity,
          std::size_t Shortcuts>
void chromatic_tree<Key, Value, Collector, Compare, Capacity, Shortcuts>::weigh(
    const internal& i, unsigned side, std::uint64_t then, holdings& all,
    detail::version::holdings_sum& sum) const {
  node* n = nullptr;
  {
    const session here = collector_.enter();
    const auto& links = i.child(side);
    const auto* newer = links.newest(collector_.time());
    n = not_null(links.at(collector_.time(), then))->to;
    all.current_bytes += newer->bytes();
    if constexpr (!Collector::info.reaches_idle_lists) {
      links.each([&](const auto& v) {
        // relaxed: all but the head have ended, and the head was stamped, or is not counted.
        if (&v != newer && v.since.load_relaxed() < newer->since.load_relaxed()) {
          sum.add(v.since.load_relaxed(), newer->since.load_relaxed(), v.bytes());
          newer = static_cast<const typename internal::version*>(&v);
        }
      });
    }
  }
  all.current += 2;
  all.current_bytes += n->bytes();
  if (n->is_leaf()) return;
  for (unsigned s = 0; s < 2; ++s) {
    weigh(*nodes::as_internal(n), s, then, all, sum);
  }
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// chromatic_conditions.hpp: what a batch (map/changes.hpp) expects of a key, or of a range of keys,
// of a snapshot_tree.
//
// A leaf is judged, and replaced by one with the same pairs that names the batch (batch_mark.hpp);
// that is not needed where the batch changes the leaf, or relies on it already.
//
// Why a leaf stands for all keys of a part of the order, those that are not there, too. On the way
//   to a leaf a search learns between which routers' keys it lies. While the leaf is in the tree
//   that part can grow, as leaves beside it are taken out, and not shrink: steps of balance keep
//   the order of leaves, and what divides a leaf replaces it. So a key of the part that comes
//   later comes into this leaf, and replaces it, too. A thread that replaces a leaf, or lets it go
//   into its sibling, has decided the batches that rely on it before. So leaves whose parts cover
//   a range, one after the other and each relied on, are all that the range has when the batch
//   gets ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/batch_expectation.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/chromatic_tree.hpp>
#include <spolia/map/detail/scan.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value, version_collector Collector, class Compare, std::size_t Capacity,
          std::size_t Shortcuts>
class chromatic_tree<Key, Value, Collector, Compare, Capacity, Shortcuts>::batch_reliance {
 protected:
  explicit batch_reliance(chromatic_tree& in) noexcept : tree_(in) {}
  ~batch_reliance() = default;

  /// The leaf at s, judged by judge(pairs) as it is before the batch. Nothing: start over.
  template <class Judge>
  std::optional<staged> try_stage(session& here, owner me, const spot& s, batch_state& batch,
                                  Judge&& judge) {
    const leaf& l = s.at();
    const bool changed = l.batch.is_changed_by(batch);
    const pairs now = changed ? l.before() : l.current(tree_.time());
    const bool again = changed || l.batch.is_relied_on_by(batch);
    if (!again && !l.may_be_relied_on(now, tree_.time())) return std::nullopt;
    if (!judge(now) && !SPOLIA_FAULT("batch.no_validation")) return staged::refused;
    if (again || SPOLIA_FAULT("batch.only_looks")) return staged::yes;
    view p;
    if (!tree_.still_there(here, s, p)) return std::nullopt;
    const std::uint64_t since = tree_.put_leaf(here, me, s, p, tree_.leaves_.repeat(l, now, batch));
    if (since == 0) return std::nullopt;
    batch.placed(since);
    return staged::yes;
  }

  chromatic_tree& tree_;
};

template <class Key, class Value, version_collector Collector, class Compare, std::size_t Capacity,
          std::size_t Shortcuts>
class chromatic_tree<Key, Value, Collector, Compare, Capacity, Shortcuts>::batch_condition
    : batch_reliance {
  using batch_reliance::tree_;

 public:
  using expected = expected_pair<pair, Value>;

  /// Throws what copying a key throws.
  template <class K>
  batch_condition(chromatic_tree& in, K&& key, expected what)
      : batch_reliance(in), key_(std::forward<K>(key)), expected_(std::move(what)) {}

  /// The pair of a key at a snapshot's time; stays while the snapshot does.
  static const pair* find_at(const chromatic_tree& in, std::uint64_t then, const Key& key) {
    session here = in.collector_.enter();
    return in.past_.find_at(here, then, key);
  }

  staged stage(batch_state& batch) {
    const owner me = tree_.steps_.records().me();
    session here = tree_.enter();
    while (!batch.is_undone()) {
      const auto done = this->try_stage(here, me, tree_.locate(key_), batch, [this](pairs now) {
        return expected_.holds(tree_.leaves_.find(now, key_).get());
      });
      if (done) return *done;
    }
    return staged::undone;
  }

 private:
  const Key key_;
  const expected expected_;
};

/// That a range has the pairs which it had at a snapshot, and no others.
template <class Key, class Value, version_collector Collector, class Compare, std::size_t Capacity,
          std::size_t Shortcuts>
class chromatic_tree<Key, Value, Collector, Compare, Capacity, Shortcuts>::batch_range
    : batch_reliance {
  using batch_reliance::tree_;
  using limits = typename past::limits;

 public:
  /// Notes the pairs at the snapshot's time. Throws std::bad_alloc, or what copying or comparing
  /// keys throws.
  template <class Within>
  batch_range(chromatic_tree& in, std::uint64_t then, const Within& within)
      : batch_reliance(in),
        open_(!within.with_from),
        closed_(Within::has_to),
        none_(within.template is_empty<Key>(in.less_)) {
    if (within.from != nullptr) lo_.emplace(*within.from);
    if (within.to != nullptr) hi_.emplace(*within.to);
    if (!none_) note_all(then);
  }

  staged stage(batch_state& batch) {
    const owner me = tree_.steps_.records().me();
    std::optional<Key> from;
    limits rest = all();
    std::size_t passed = 0;
    progress<Key> way;
    for (bool more = !none_; more;) {
      const staged done = stage_first(me, batch, rest, passed, from);
      if (done != staged::yes) return done;
      more = from.has_value();
      if (!more) break;
      // By a comparison that is no order it might never come to the end.
      if (!way.goes_on(*from, tree_.less_)) return staged::refused;
      next_.swap(from);
      from.reset();
      rest.lo = std::addressof(*next_);
      rest.open = false;
    }
    return passed == noted_.size() ? staged::yes : staged::refused;
  }

 private:
  struct noted {
    explicit noted(const pair& p) : is(p) { seen.look(p); }
    [[nodiscard]] bool holds(const pair& now, const Compare& less) const {
      if (!seen.is(now)) return false;
      if constexpr (pair::extra_bytes != 0) return true;  // it is the same block
      return !less(is.key(), now.key()) && !less(now.key(), is.key());
    }
    pair is;
    seen_pair<pair, Value> seen{};
  };

  [[nodiscard]] limits all() const noexcept {
    return {.lo = lo_ ? std::addressof(*lo_) : nullptr,
            .hi = hi_ ? std::addressof(*hi_) : nullptr,
            .open = open_,
            .closed = closed_};
  }
  void note_all(std::uint64_t then) {
    limits rest = all();
    typename past::chunk some;
    progress<Key, const Key*> way;  // by a comparison that is no order it might never end
    do {
      session here = tree_.collector_.enter();
      tree_.past_.first_at(here, then, rest, some, past::which::with_some);
      for (unsigned i = 0; i < some.count; ++i) {
        for (const pair& p : tree_.past_.pairs_of(*some.of[i], then, rest)) {
          noted_.emplace_back(p);
          rest.lo = std::addressof(p.key());  // stays while the snapshot does
          rest.open = true;
        }
      }
    } while (some.is_full() && !noted_.empty() && way.goes_on(*rest.lo, tree_.less_));
  }

  /// The leaf where `rest` begins; `next`: where the one after it does, if the range goes on.
  staged stage_first(owner me, batch_state& batch, const limits& rest, std::size_t& passed,
                     std::optional<Key>& next) {
    session here = tree_.enter();
    while (!batch.is_undone()) {
      const Key* end = nullptr;
      const spot s = locate(rest.lo, end);
      const bool last = end == nullptr || rest.is_over_at(*end, tree_.less_);
      const limits part = last ? rest : limits{rest.lo, end, rest.open};
      std::size_t found = 0;
      const auto done = this->try_stage(here, me, s, batch, [&](pairs now) {
        const pairs some = tree_.past_.within_limits(now, part);
        found = some.size();
        return are_noted(some, passed);
      });
      if (!done) continue;
      passed += found;
      if (!last) next.emplace(*end);
      return *done;
    }
    return staged::undone;
  }
  [[nodiscard]] bool are_noted(pairs some, std::size_t from) const {
    if (some.size() > noted_.size() - from) return false;
    for (const pair& p : some) {
      if (!noted_[from++].holds(p, tree_.less_)) return false;
    }
    return true;
  }
  /// The leaf of a key, null: the first one; and the first key that lies beyond it, null: none.
  spot locate(const Key* key, const Key*& end) const {
    spot s{{}, tree_.top_edge()};
    while (!s.low.to_leaf()) {
      internal* const i = nodes::as_internal(s.low.to());
      const bool left = key == nullptr || tree_.less_(*key, i->key);
      if (left) end = std::addressof(i->key);
      s.upper = s.low;
      s.low = tree_.follow(i, left ? 0 : 1);
    }
    s.at().prefetch();
    return s;
  }

  std::optional<Key> lo_{};
  std::optional<Key> hi_{};
  std::optional<Key> next_{};
  const bool open_;
  const bool closed_;
  const bool none_;
  std::vector<noted> noted_{};
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

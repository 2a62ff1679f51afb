// SPDX-License-Identifier: Apache-2.0
// changes.hpp: a batch: changes of several keys, in one snapshot_hash or snapshot_tree or in
// several, that happen at one instant or not at all.
//
//     spolia::changes move;
//     move.erase(cellar, "nails");
//     move.insert_or_assign(shop, "nails", 100);
//     move.commit();                            // no snapshot sees the one without the other
//
//     spolia::changes sale;                     // only if what it has read is still so
//     const int* left = sale.find(shop, "nails");
//     if (left != nullptr) sale.insert_or_assign(shop, "nails", *left - 1);
//     if (!sale.commit()) ...                   // transact.hpp begins anew by itself
//
// Source:      batches: ours; optimistic transactions over concurrent maps: Blelloch, Kent, Wei,
//              Transactional Lock Fusion, SPAA 2025. Here a batch relies on a place by a version of
//              it, where TLF looks at what was read once more when the time is fixed: so a thread
//              that finds an unfinished batch never has to look at another map (departure).
// Idea:        where a pair is changed, there is for a while what was there before the batch, and
//              what is there afterwards. Which of the two counts is asked of the batch, which all
//              these places name, and which is decided by one change of one word
//              (detail/batch_state.hpp). A place is a bucket of a snapshot_hash, or the leaf of a
//              key in a snapshot_tree: see `batch_change` in detail/.
// Conditions:  what find, contains and range give is of one snapshot, taken with the first of them.
//              The batch takes effect only if it is still so at its instant, and if what expect,
//              expect_there and expect_absent say is so then; else nothing has changed, and
//              commit() says which condition failed. A batch puts a block in each place on which it
//              relies, too, so that no thread changes that without undoing the batch:
//              detail/batch_mark.hpp says why, chromatic_conditions.hpp why that finds keys that
//              come into a range. So batches with conditions are strictly serializable, together
//              with all updates and snapshots: as if each had been done whole at the moment when it
//              got ready. A read of a key sees what the batch's own changes that were named before
//              it leave of the key; a range with such a key in it is refused. What expect and its
//              like say is of what was there before the batch.
// Sees:        every snapshot, lease and plain read sees all changes of a batch or none. Reads of
//              what is current see them from one moment on: what follows a read that has seen one
//              change sees the others, in all maps.
// In order:    the changes take effect in the order in which they were named; a later one of the
//              same key sees the earlier one. No other read does: all others see what is there
//              before the batch, or what its last change of the key leaves.
// Cost:        in a snapshot_hash each change copies its bucket twice into one block; in a tree it
//              makes one leaf more. Both stay until the same place is changed again, and a look
//              there reads one word more, which is written once. A condition copies its bucket or
//              leaf once, like an update, unless the batch changes the same place; a range all
//              leaves of the range.
// Memory:      a block for each change and condition, a key and a value in it; for a range also its
//              notes, two to four words a pair; the pairs themselves are not copied, where they lie
//              in counted blocks. No version and no snapshot is held by a batch
//              that has no reads; one that has holds its snapshot from the first read until
//              commit(), clear() or its end (in the census as "changes"). A thread that stops in
//              the middle of commit() holds up only what a thread in the middle of an update does:
//              the next change that needs one of its places undoes its batch.
// Progress:    an update that changes a place of a batch which is not ready undoes the batch, and
//              the batch begins anew, after a pause. So reads stay wait-free, other updates
//              lock-free; a batch gets through when no other thread changes its places while it is
//              at it, and two batches with a place in common can keep each other from it for a
//              while: commit(retries) says how often it may begin anew. Batches that only rely on
//              the same place do not undo each other. No thread waits for another.
// Errors:      naming a change or a condition, and a read, throw std::bad_alloc, or what hashing,
//              comparing, copying a key or making a value throws; a map of another timeline is
//              refused by std::invalid_argument, and by std::logic_error a range with a key in it
//              that the batch changes already. commit() throws std::bad_alloc, or what comparing
//              or copying keys, or comparing values throws. Then nothing has changed for any
//              thread, and commit() may be called again. After a commit() that has returned what
//              is not `done`, the changes have to be named again; a call without is
//              std::logic_error.
// Threads:     one object belongs to one thread at a time. The maps outlive it. No guard is held
//              between two changes.
// Clocks:      any. With a hardware clock a batch, and a thread that changes one of its places soon
//              afterwards, waits until the clocks of all processors are past.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/life.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/batch_expectation.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/chromatic_conditions.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/snapshot_hash_conditions.hpp>
#include <spolia/map/ends.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// What has become of a batch.
struct commit_result {
  enum class outcome : std::uint8_t {
    done,       ///< all changes were made, at one instant
    refused,    ///< what expect, expect_there or expect_absent has said was not so
    outdated,   ///< what was read is no longer so
    disturbed,  ///< other threads undid it each time
    declined,   ///< the function of transact() has said so
  };
  outcome is = outcome::done;
  std::size_t condition = 0;  ///< that was not so, by the order of naming: the first one is 0
  std::uint32_t retries = 0;  ///< how often it began anew
  [[nodiscard]] explicit operator bool() const noexcept { return is == outcome::done; }
};

class changes {
 public:
  static constexpr std::uint32_t any_number = (std::numeric_limits<std::uint32_t>::max)();

  changes() = default;

  /// `key` maps to `value`, unless it maps to something.
  template <class Map, class K, class V>
    requires std::constructible_from<typename Map::mapped_type, V>
  void insert(Map& map, K&& key, V&& value) {
    add<Map>(map, true, std::forward<K>(key), std::forward<V>(value));
  }
  /// `key` maps to `value`.
  template <class Map, class K, class V>
    requires std::constructible_from<typename Map::mapped_type, V>
  void insert_or_assign(Map& map, K&& key, V&& value) {
    add<Map>(map, false, std::forward<K>(key), std::forward<V>(value));
  }
  /// `key` maps to nothing.
  template <class Map, class K>
  void erase(Map& map, K&& key) {
    belongs(&map.time());
    put_into(steps_, std::make_unique<step_of<Map>>(map, std::forward<K>(key)));
  }

  /// The value that `key` maps to, null if none; and a condition: that this is still so. Where the
  /// batch changes the key already, what that leaves: without a condition, unless that goes by what
  /// is there. The value stays until commit() or clear(). Looks at each change of the batch.
  template <class Map, class K>
  const typename Map::mapped_type* find(Map& map, K&& key) {
    typename Map::key_type named(std::forward<K>(key));
    const auto own = left_by_changes<core_of<Map>, typename Map::mapped_type>(map, named);
    if (own.whatever_is_there) return own.value;
    const std::uint64_t then = instant(map);
    const auto* const found = key_condition<Map>::find_at(map.in_batches(), then, named);
    put_into(conditions_, std::make_unique<condition_of<Map, key_condition<Map>>>(
                              true, map, std::move(named), expected<Map>(found)));
    return found == nullptr ? own.value : std::addressof(found->value());
  }
  template <class Map, class K>
  bool contains(Map& map, K&& key) {
    return find(map, std::forward<K>(key)) != nullptr;
  }
  /// The pairs of a snapshot_tree with keys from `lo` on and before `hi`, or with other ends
  /// (map/ends.hpp), as snapshot_tree::range gives them; and a condition: that the range still has
  /// these pairs, and no others. Looks at all of them at once. Throws std::logic_error if the batch
  /// changes a key of the range already: name changes after what they go by.
  template <class Map, class Lo, class Hi>
  auto range(Map& map, const Lo& lo, const Hi& hi) {
    using key_type = typename Map::key_type;
    const std::uint64_t then = instant(map);
    // It goes on from keys of the map, and holds them meanwhile.
    detail::map::between<key_type, detail::map::by_order<key_type, std::less<key_type>>>(
        lo, hi, [&](const auto& within) {
          for (const auto& s : steps_) refuse_within<core_of<Map>>(map, *s, within);
          put_into(conditions_, std::make_unique<condition_of<Map, range_condition<Map>>>(
                                    true, map, then, within));
        });
    return map.range(*then_, lo, hi);
  }

  /// A condition: `key` maps to a value that is == `value` at the batch's instant.
  template <class Map, class K, class V>
    requires std::equality_comparable<typename Map::mapped_type>
  void expect(Map& map, K&& key, V&& value) {
    expect_that(map, std::forward<K>(key), std::in_place, std::forward<V>(value));
  }
  /// It maps to something.
  template <class Map, class K>
  void expect_there(Map& map, K&& key) {
    expect_that(map, std::forward<K>(key), typename expected<Map>::is_there());
  }
  /// It maps to nothing.
  template <class Map, class K>
  void expect_absent(Map& map, K&& key) {
    expect_that(map, std::forward<K>(key), typename expected<Map>::is_absent());
  }

  /// Makes all changes at one instant, if the conditions hold then. Without conditions, and without
  /// a limit on how often it begins anew, it is always done. Without changes what was read was so
  /// at the snapshot, and is not asked for again. Whatever it returns, the batch has forgotten its
  /// changes and conditions. If they were not made, they have to be named again before the next
  /// call, which throws std::logic_error otherwise: it would make nothing and return `done`.
  commit_result commit(std::uint32_t retries = any_number) {
    if (was_given_up_ && steps_.empty() && conditions_.empty()) {
      throw std::logic_error(
          "changes::commit: the last commit() was not done and has forgotten the changes; name "
          "them again, or call clear()");
    }
    then_.reset();
    commit_result result;
    if (!are_maps_there()) {
      result.is = commit_result::outcome::refused;
    } else if (!steps_.empty() || expects_) {
      result = made(retries);
    }
    detail::map::after_update<detail::map::published::by_exchange>();
    clear();
    was_given_up_ = !result;
    return result;
  }

  /// How many changes.
  [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
  /// How many reads and conditions.
  [[nodiscard]] std::size_t conditions() const noexcept { return conditions_.size(); }
  /// Forgets the changes, which were not made, and the conditions.
  void clear() noexcept {
    steps_.clear();
    conditions_.clear();
    then_.reset();
    expects_ = false;
    was_given_up_ = false;
    time_ = nullptr;
  }

 private:
  using staged = detail::map::staged;
  template <class Map>
  using core_of = std::remove_reference_t<decltype(std::declval<Map&>().in_batches())>;

  template <class Map>
  using key_condition = typename core_of<Map>::batch_condition;
  template <class Map>
  using range_condition = typename core_of<Map>::batch_range;
  template <class Map>
  using expected = typename key_condition<Map>::expected;

  struct part {
    explicit part(const detail::life& of) noexcept : alive(of) {}
    part(const part&) = delete;
    part& operator=(const part&) = delete;
    virtual ~part() = default;
    virtual staged stage(detail::map::batch_state& state) = 0;
    virtual bool commit(detail::map::batch_state& state) noexcept = 0;
    [[no_unique_address]] const detail::life::witness alive;
  };
  struct step : part {
    step(const void* in, const detail::life& of) noexcept : part(of), core(in) {}
    // True: tidy() is to be called when all steps have heard of it.
    virtual bool committed() noexcept = 0;
    // These two throw no exception; but a thread that ends may unwind through them.
    virtual void tidy() = 0;
    virtual void given_up() = 0;
    const void* const core;
  };
  template <class Core>
  struct step_in : step {
    template <class... Named>
    explicit step_in(Core& in, Named&&... named)
        : step(&in, in.alive()), what(in, std::forward<Named>(named)...) {}
    typename Core::batch_change what;
  };
  struct condition : part {
    condition(bool r, const detail::life& of) noexcept : part(of), was_read(r) {}
    const bool was_read;
  };

  template <class Map>
  struct step_of final : step_in<core_of<Map>> {
    template <class... Named>
    explicit step_of(Map& m, Named&&... named)
        : step_in<core_of<Map>>(m.in_batches(), std::forward<Named>(named)...), map(m) {}

    staged stage(detail::map::batch_state& state) override {
      return what.stage(state) ? staged::yes : staged::undone;
    }
    bool commit(detail::map::batch_state& state) noexcept override {
      return state.commit(map.time());
    }
    bool committed() noexcept override {
      const bool untidy = what.committed();
      map.watched(true);
      return untidy;
    }
    void tidy() override { what.tidy(); }
    void given_up() override { what.given_up(); }

    using step_in<core_of<Map>>::what;
    Map& map;
  };
  template <class Map, class What>
  struct condition_of final : condition {
    template <class... Named>
    explicit condition_of(bool read, Map& m, Named&&... named)
        : condition(read, m.in_batches().alive()),
          map(m),
          what(m.in_batches(), std::forward<Named>(named)...) {}

    staged stage(detail::map::batch_state& state) override { return what.stage(state); }
    bool commit(detail::map::batch_state& state) noexcept override {
      return state.commit(map.time());
    }

    Map& map;
    What what;
  };

  template <class Map, class K, class V>
  void add(Map& map, bool only_if_absent, K&& key, V&& value) {
    belongs(&map.time());
    put_into(steps_, std::make_unique<step_of<Map>>(map, only_if_absent, std::forward<K>(key),
                                                    std::forward<V>(value)));
  }
  template <class Map, class K, class... What>
  void expect_that(Map& map, K&& key, What&&... what) {
    belongs(&map.time());
    put_into(conditions_,
             std::make_unique<condition_of<Map, key_condition<Map>>>(
                 false, map, std::forward<K>(key), expected<Map>(std::forward<What>(what)...)));
    expects_ = true;
  }
  template <class Parts, class Part>
  static void put_into(Parts& all, std::unique_ptr<Part> one) {
    if (all.capacity() == 0) all.reserve(4);  // one piece for most batches
    all.push_back(std::move(one));
  }
  void belongs(const void* time) {
    if (time_ == time) return;
    if (!steps_.empty() || !conditions_.empty()) {
      throw std::invalid_argument("changes: maps of two timelines have no instant in common");
    }
    then_.reset();
    time_ = time;
  }
  template <class Core>
  static typename Core::batch_change* in(Core& core, step& s) noexcept {
    return s.core == &core ? &static_cast<step_in<Core>&>(s).what : nullptr;
  }
  /// What the changes named so far leave of a key.
  template <class Value>
  struct left {
    const Value* value = nullptr;    // null: nothing
    bool whatever_is_there = false;  // else it is for a key that maps to nothing
  };
  template <class Core, class Value, class Map, class Key>
  left<Value> left_by_changes(Map& map, const Key& key) {
    left<Value> found;
    for (auto s = steps_.rbegin(); s != steps_.rend() && !found.whatever_is_there; ++s) {
      const auto* const what = in<Core>(map.in_batches(), **s);
      if (what == nullptr || !what->is_of(key)) continue;
      found.whatever_is_there = !what->is_only_if_absent();
      if (what->value() != nullptr) found.value = what->value();
    }
    return found;
  }
  template <class Core, class Map, class Within>
  static void refuse_within(Map& map, step& s, const Within& within) {
    const auto* const what = in<Core>(map.in_batches(), s);
    if (what == nullptr || !what->is_within(within)) return;
    throw std::logic_error("changes: a range with a key that the batch changes already");
  }
  /// That of the reads.
  template <class Map>
  std::uint64_t instant(Map& map) {
    belongs(&map.time());
    if (!then_) then_.emplace(map.time(), "changes");
    return then_->timestamp();
  }

  /// False: one of its maps has ended; in the checked build variant.
  [[nodiscard]] bool are_maps_there() const noexcept {
    const auto is_there = [](const auto& one) {
      return one->alive.expects("a batch is committed whose map has ended");
    };
    return !SPOLIA_CHECKS ||
           (std::ranges::all_of(steps_, is_there) && std::ranges::all_of(conditions_, is_there));
  }

  commit_result made(std::uint32_t retries) {
    commit_result result;
    std::size_t judged = 0;
    for (backoff pause;; pause.pause()) {
      switch (try_commit(judged)) {
        case staged::yes:
          return result;
        case staged::refused:
          result.condition = judged;
          result.is = conditions_[judged]->was_read ? commit_result::outcome::outdated
                                                    : commit_result::outcome::refused;
          give_up();
          return result;
        case staged::undone:
          break;
      }
      if (result.retries == retries) {
        result.is = commit_result::outcome::disturbed;
        give_up();
        return result;
      }
      if (result.retries != any_number - 1) ++result.retries;  // there may be more without a limit
    }
  }

  staged try_commit(std::size_t& judged) {
    struct dropping {
      void operator()(detail::map::batch_state* s) const noexcept { s->drop(); }
    };
    const std::unique_ptr<detail::map::batch_state, dropping> state(
        detail::map::batch_state::make());
    try {
      if (const staged all = stage_all(*state, judged); all != staged::yes) {
        state->undo();
        return all;
      }
    } catch (...) {
      state->undo();
      give_up();
      throw;
    }
    part& any = steps_.empty() ? static_cast<part&>(*conditions_.front()) : *steps_.front();
    if (!any.commit(*state)) return staged::undone;
    bool untidy = false;
    for (const auto& s : steps_) untidy |= s->committed();
    if (untidy) tidy();
    return staged::yes;
  }
  /// The changes first: where they are a condition takes no block of its own.
  staged stage_all(detail::map::batch_state& state, std::size_t& judged) {
    for (const auto& s : steps_) {
      if (s->stage(state) != staged::yes) return staged::undone;
    }
    for (judged = 0; judged < conditions_.size(); ++judged) {
      const staged done = conditions_[judged]->stage(state);
      if (done != staged::yes) return done;
    }
    return staged::yes;
  }

  SPOLIA_NOINLINE void tidy() {
    for (const auto& s : steps_) s->tidy();
  }
  SPOLIA_NOINLINE void give_up() {
    for (const auto& s : steps_) s->given_up();
  }

  std::vector<std::unique_ptr<step>> steps_;
  std::vector<std::unique_ptr<condition>> conditions_;
  std::optional<snapshot> then_;  // of the reads
  const void* time_ = nullptr;
  bool expects_ = false;       // not only reads
  bool was_given_up_ = false;  // by the last commit(), and not cleared since
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

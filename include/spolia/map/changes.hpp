// SPDX-License-Identifier: Apache-2.0
// changes.hpp: a batch: changes of several keys, in one snapshot_hash or snapshot_tree or in
// several, that happen at one instant or not at all.
//
//     spolia::changes move;
//     move.erase(cellar, "nails");
//     move.insert_or_assign(shop, "nails", 100);
//     move.commit();                            // no snapshot sees the one without the other
//
// Idea:        where a pair is changed, there is for a while what was there before the batch, and
//              what is there afterwards. Which of the two counts is asked of the batch, which all
//              these places name, and which is decided by one change of one word
//              (detail/batch_state.hpp). A place is a bucket of a snapshot_hash, or the leaf of a
//              key in a snapshot_tree: see `batch_change` in detail/.
// Sees:        every snapshot, lease and plain read sees all changes of a batch or none. Reads of
//              what is current see them from one moment on: what follows a read that has seen one
//              change sees the others, in all maps.
// In order:    the changes take effect in the order in which they were named; a later one of the
//              same key sees the earlier one. No other read does: all others see what is there
//              before the batch, or what its last change of the key leaves.
// Cost:        in a snapshot_hash each change copies its bucket twice into one block; in a tree it
//              makes one leaf more. Both stay until the same place is changed again, and a look
//              there reads one word more, which is written once.
// Progress:    an update that changes a place of a batch which is not ready undoes the batch, and
//              the batch begins anew, after a pause. So reads stay wait-free, other updates
//              lock-free; a batch gets through when no other thread changes its places while it is
//              at it, and two batches with a place in common can keep each other from it for a
//              while.
// Errors:      naming a change throws std::bad_alloc, or what hashing, copying a key or making a
//              value throws; a map of another timeline is refused by std::invalid_argument.
//              commit() throws std::bad_alloc, or what comparing or copying keys throws. Then
//              nothing has changed for any thread, and the batch may be tried again.
// Threads:     one object belongs to one thread at a time. The maps outlive it. No guard is held
//              between two changes.
// Clocks:      any. With a hardware clock a batch, and a thread that changes one of its places soon
//              afterwards, waits until the clocks of all processors are past.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class changes {
 public:
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
    steps_.push_back(std::make_unique<step_of<Map>>(map, std::forward<K>(key)));
  }

  /// Makes all changes at one instant, and forgets them.
  void commit() {
    backoff pause;
    while (!steps_.empty() && !try_commit()) pause.pause();
    detail::map::after_update<detail::map::published::by_exchange>();
    clear();
  }

  [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
  /// Forgets the changes, which were not made.
  void clear() noexcept {
    steps_.clear();
    time_ = nullptr;
  }

 private:
  struct step {
    step() = default;
    step(const step&) = delete;
    step& operator=(const step&) = delete;
    virtual ~step() = default;
    /// False: the batch was undone meanwhile.
    virtual bool stage(detail::map::batch_state& state) = 0;
    virtual bool commit(detail::map::batch_state& state) noexcept = 0;
    // True: tidy() is to be called when all steps have heard of it.
    virtual bool committed() noexcept = 0;
    // These two throw no exception; but a thread that ends may unwind through them.
    virtual void tidy() = 0;
    virtual void given_up() = 0;
  };

  template <class Map>
  struct step_of final : step {
    template <class... Named>
    explicit step_of(Map& m, Named&&... named)
        : map(m), what(m.in_batches(), std::forward<Named>(named)...) {}

    bool stage(detail::map::batch_state& state) override { return what.stage(state); }
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

    Map& map;
    typename std::remove_reference_t<decltype(std::declval<Map&>().in_batches())>::batch_change
        what;
  };

  template <class Map, class K, class V>
  void add(Map& map, bool only_if_absent, K&& key, V&& value) {
    belongs(&map.time());
    steps_.push_back(std::make_unique<step_of<Map>>(map, only_if_absent, std::forward<K>(key),
                                                    std::forward<V>(value)));
  }
  void belongs(const void* time) {
    if (!steps_.empty() && time_ != time) {
      throw std::invalid_argument("changes: maps of two timelines have no instant in common");
    }
    time_ = time;
  }

  bool try_commit() {
    struct dropping {
      void operator()(detail::map::batch_state* s) const noexcept { s->drop(); }
    };
    const std::unique_ptr<detail::map::batch_state, dropping> state(
        detail::map::batch_state::make());
    try {
      for (const auto& s : steps_) {
        if (!s->stage(*state)) return false;
      }
    } catch (...) {
      state->undo();
      for (const auto& s : steps_) s->given_up();
      throw;
    }
    if (!steps_.front()->commit(*state)) return false;
    bool untidy = false;
    for (const auto& s : steps_) untidy |= s->committed();
    if (untidy) tidy();
    return true;
  }

  SPOLIA_NOINLINE void tidy() {
    for (const auto& s : steps_) s->tidy();
  }

  std::vector<std::unique_ptr<step>> steps_;
  const void* time_ = nullptr;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// versioned.hpp: an object with a history: a compare-and-swap object whose earlier values snapshots
// can read, over any collector.
//
//     spolia::region_domain nodes;  spolia::timeline time;
//     spolia::sl_rt<> versions(nodes, time);
//     spolia::versioned<int, spolia::sl_rt<>> x(versions, 1);
//     {
//       auto here = versions.enter();
//       x.compare_exchange(here, 1, 2);                 // a new version; x.load(here) == 2
//     }
//     const spolia::snapshot then(time);
//     ...                                               // x goes on
//     { auto here = versions.enter();  use(*x.at(here, then)); }      // still 2
//     versions.close();  x.clear(versions);             // in this order, when all is over
//
// Source:      Wei et al.: Constant-time snapshots with applications to concurrent data structures,
//              PPoPP 2021 (versioned CAS objects); Wei et al., PPoPP 2023, section 2.
// Idea:        a list of versions; a change appends one and then gives it a stamp from the clock.
//              A thread that meets a version without a stamp gives it one, so that none relies on a
//              version that could still be stamped past a snapshot taken later.
// Cost:        load: the head. at: the versions newer than the snapshot. A change: an allocation,
//              two compare-and-swaps, and what the collector needs.
// Progress:    load and at are wait-free, changes lock-free; the collector's upkeep comes on top.
// Protects:    a reference from load() while the session lives; one from at() while the snapshot
//              does, with or without a session.
// Errors:      the constructor and changes throw what allocating, making or comparing a T throws,
//              and then nothing has changed.
// Memory:      one word, and a block for each version with the value in it. The links are in the
//              blocks, one block for each time that something was stored: nothing is shared between
//              two histories, even if T is a pointer and the same one was stored in both. (Where
//              the paper keeps the links in the objects pointed to, an object can be the newest
//              version of one field and an old one of another, which is unlinked there and freed.)
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T, version_collector Collector>
class versioned {
  using domain_type = typename Collector::domain_type;

 public:
  using session = typename Collector::session;

#pragma GCC diagnostic push
// See list_ssl.hpp: a domain ends each version by the type that it was made with.
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
  /// One value, and since when.
  struct version final : Collector::version {
    template <class... Arguments>
    explicit version(Arguments&&... arguments) : value(std::forward<Arguments>(arguments)...) {}
    void retire_by(typename domain_type::guard& g) noexcept override { g.retire(this); }
    void destroy_in(domain_type& nodes) noexcept override { nodes.destroy(this); }
    [[nodiscard]] std::size_t bytes() const noexcept override {
      return sizeof(*this) + weigh(value);
    }
    /// For weight_of.
    [[nodiscard]] std::size_t owned_bytes() const noexcept
      requires(!weightless<T>)
    {
      return weigh(value);
    }

    const T value;
  };
#pragma GCC diagnostic pop

  /// Its first value is T(arguments...), current from now on: older snapshots do not see it.
  template <class... Arguments>
  explicit versioned(Collector& c, Arguments&&... arguments)
      : list_(first(c, std::forward<Arguments>(arguments)...)) {
    Collector::place(list_, *list_.head());
  }
  versioned(const versioned&) = delete;
  versioned& operator=(const versioned&) = delete;
  ~versioned() {
    if (SPOLIA_CHECKS && list_.release() != nullptr) {
      misuse::report("a versioned object ends that was not cleared", threads::number());
    }
  }

  /// Ends all versions. The collector must be closed, and no thread may use the object any more.
  void clear(Collector& c) noexcept { c.clear(list_); }

  /// The current value; stays while the session lives.
  [[nodiscard]] const T& load(session& s) const noexcept { return newest(s)->value; }

  /// The value at a snapshot, which stays while the snapshot lives; null if the object is younger.
  [[nodiscard]] const T* at(session& s, const snapshot& then) const noexcept {
    if (SPOLIA_CHECKS && !then.belongs_to(s.collector().time())) {
      misuse::report("a snapshot of another timeline", threads::number());
      return nullptr;
    }
    auto* const found = Collector::list::find(newest(s), then.timestamp(s.collector().time()));
    return found == nullptr ? nullptr : std::addressof(static_cast<version*>(found)->value);
  }

  /// Makes the value `desired` if it is `expected`; returns whether it was.
  bool compare_exchange(session& s, const T& expected, T desired)
    requires std::equality_comparable<T>
  {
    version* old = newest(s);
    if (!(old->value == expected)) return false;
    if (expected == desired) return true;
    return change(s, old, [&](const T& now) { return now == expected; }, std::move(desired));
  }

  void store(session& s, T desired) {
    change(s, newest(s), [](const T&) { return true; }, std::move(desired));
  }

 private:
  template <class... Arguments>
  static version* first(Collector& c, Arguments&&... arguments) {
    auto* const v = c.nodes().template make<version>(std::forward<Arguments>(arguments)...);
    v->since.store_relaxed(c.time().stamp());
    return v;
  }

  /// The current version, with its stamp set.
  version* newest(session& s) const noexcept {
    auto* const v = static_cast<version*>(list_.head());
    // Before any thread relies on it. Otherwise it could be read here, and then get a stamp above
    // that of a snapshot which is taken after the reading, and which would not see it.
    if (!SPOLIA_FAULT("versioned.no_help")) s.collector().time().settle(*v);
    return v;
  }

  /// Appends `desired` while still_right(the current value) holds; returns whether it did.
  template <class Right>
  bool change(session& s, version* old, Right&& still_right, T&& desired) {
    Collector& c = s.collector();
    c.prepare(s);
    version* const fresh = c.nodes().template make<version>(std::move(desired));
    Collector::place(list_, *fresh);
    try {
      while (still_right(old->value)) {
        if (!append(c, s, old, fresh)) {
          old = retry(s, fresh);
          continue;
        }
        return true;
      }
    } catch (...) {
      c.nodes().destroy(fresh);
      throw;
    }
    c.nodes().destroy(fresh);
    return false;
  }

  bool append(Collector& c, session& s, version* old, version* fresh) noexcept {
    if (!list_.try_append(old, fresh)) return false;
    c.time().settle(*fresh);
    c.ended(s, list_, old, fresh);
    return true;
  }

  /// Another thread was faster: the current version, with `fresh` as if it was new.
  version* retry(session& s, version* fresh) const noexcept {
    fresh->left.store_relaxed(fresh);
    return newest(s);
  }

  typename Collector::list list_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

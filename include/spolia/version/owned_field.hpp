// SPDX-License-Identifier: Apache-2.0
// owned_field.hpp: a versioned field of a node that leaves its structure before the collector
// closes (owner.hpp says when the node and its versions go).
//
// Idea:   a list of versions, of which the first lies in the node itself: so a node is one block,
//         and costs one allocation. That version is unlinked like all others, and freed with the
//         node.
// Parts:  owned_head is the list alone: nodes with several fields keep the heads together, and the
//         first versions elsewhere. owned_field is both.
// Needs:  a session around each call; what versioned.hpp says of stamps: a version is relied upon
//         only after newest() has seen to its stamp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/detail/field_owner.hpp>
#include <spolia/version/owner.hpp>
#include <spolia/version/told_stamp.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T, version_collector Collector>
class owned_head {
  using domain_type = typename Collector::domain_type;
  using guard = typename domain_type::guard;
  using owned = detail::version::field_owner<Collector>;
  using owner_type = typename owned::type;
  using session = typename Collector::session;

 public:
  struct version : owned::version {
    template <class... Arguments>
    explicit version(owner_type& o, Arguments&&... arguments)
        : owned::version(o), value(std::forward<Arguments>(arguments)...) {}

    detail::version::told_stamp stamp;
    const T value;

   protected:
    ~version() = default;
  };
  /// Lies in the owner and goes with it. Its value is T(arguments...), current since the owner is.
  struct first final : version {
    template <class... Arguments>
    explicit first(owner_type& o, Arguments&&... arguments)
        : version(o, std::forward<Arguments>(arguments)...) {
      this->since.store_relaxed(o.since.load_relaxed());
      this->stamp.is(o.since.load_relaxed());
    }
    void retire_by(guard&) noexcept override {}
    void destroy_in(domain_type&) noexcept override {}
  };

  owned_head(owner_type& of, first& oldest) noexcept : list_(of, &oldest) {
    Collector::place(list_, oldest);
  }
  owned_head(const owned_head&) = delete;
  owned_head& operator=(const owned_head&) = delete;
  ~owned_head() = default;

  /// Fetches what newest() and the value will look at. (Nothing for the model checker to try.)
  void prefetch() const noexcept {
#if !defined(SPOLIA_MODEL)
    __builtin_prefetch(std::addressof(static_cast<version*>(list_.head())->value));
#endif
  }

  /// f(value) of the current version, for a caller that fetches what that names and relies on
  /// nothing.
  template <class F>
  void look_ahead(F&& f) const noexcept {
    f(static_cast<const version*>(list_.head())->value);
  }

  /// Where what the current version names lies, as far as a thread has said so: for a caller that
  /// fetches that together with the version, and relies on nothing, for it may be out of date, and
  /// gone. Null: it was not said.
  [[nodiscard]] const void* expected() const noexcept {
    // relaxed: see above.
    const std::int32_t at = expected_.load_relaxed();
    return at == 0 ? nullptr : reinterpret_cast<const void*>(here() + std::intptr_t{at} * unit);
  }
  /// What lies too far away is looked for elsewhere.
  void expect(const void* there) noexcept { expected_.store_relaxed(steps_to(there)); }
  /// As far as half a word can say.
  [[nodiscard]] bool expects(const void* there) const noexcept {
    return expected_.load_relaxed() == steps_to(there);
  }

  /// The current version, with its stamp set.
  template <class Timeline>
  version* newest(Timeline& time) const noexcept {
    auto* const v = static_cast<version*>(list_.head());
    // As in versioned.hpp: before any thread relies on it.
    if (!SPOLIA_FAULT("owned_field.no_help")) v->stamp.see_to(time, *v);
    return v;
  }

  /// The value at time t of a snapshot; null if the owner is younger, which one that is reached at
  /// the snapshot is not.
  template <class Timeline>
  const T* at(Timeline& time, std::uint64_t t) const noexcept {
    version* const v = newest(time);
    if (v->stamp.read() <= t) [[likely]]
      return std::addressof(v->value);
    auto* const found = Collector::list::find(v, t);
    return found == nullptr ? nullptr : std::addressof(static_cast<version*>(found)->value);
  }

  /// Calls f(version) from the newest to the oldest that is linked. Not with collectors that leave
  /// pointers to freed versions (epoch.hpp, sl_rt.hpp): there the newest only.
  template <class F>
  void each(F&& f) const noexcept {
    Collector::each_left(list_, std::forward<F>(f));
  }

  /// A version that comes after `old` by append(), or is destroyed by destroy_in().
  template <class... Arguments>
  version* make(Collector& c, owner_type& of, version* old, Arguments&&... arguments) {
    version* const v = c.nodes().template make<block>(of, std::forward<Arguments>(arguments)...);
    Collector::place(list_, *v);
    Collector::list::aim(old, v);
    return v;
  }

  /// `fresh` comes after `old`, which newest() has returned. The owner is held; if this returns
  /// true, the collector has taken the hold over.
  bool append(session& here, version* old, version* fresh) noexcept {
    if (!list_.try_append(old, fresh)) return false;
    ended(here, old, fresh);
    return true;
  }

  /// The same in two steps, for operations that others may finish (map/detail/scx.hpp). The first,
  /// which any number of threads may try, has the name under which scx.hpp knows it.
  bool cas_strong_release(version*& old, version* fresh) noexcept {
    return list_.try_append(old, fresh);
  }
  /// The second, by the one whose operation it was.
  void ended(session& here, version* old, version* fresh) noexcept {
    Collector::list::finish_append(old, fresh);
    fresh->stamp.see_to(here.collector().time(), *fresh);
    here.collector().ended(here, list_, old, fresh);
  }

  /// No thread holds the owner any more.
  [[nodiscard]] std::uint64_t ended_left() const noexcept {
    std::uint64_t linked = 0;
    Collector::each_left(list_, [&](auto&) { ++linked; });
    return linked - 1;
  }
  /// No thread holds the owner any more, and it is retired by the same guard.
  void retire_by(guard& g) noexcept {
    Collector::each_left(list_, [&](auto& v) { v.retire_by(g); });
  }
  /// No thread can reach the owner any more, and it is destroyed next.
  void destroy_in(domain_type& nodes) noexcept {
    Collector::each_left(list_, [&](auto& v) { v.destroy_in(nodes); });
  }

 private:
  /// Of whole cache lines, if that takes a word or two: common allocators put such blocks where
  /// lines begin. With sl_rt and a value of 16 bytes its stamp and value are then in one line.
  struct block final : version, detail::version::filler<sizeof(version) % 64> {
    using version::version;
    void retire_by(guard& g) noexcept override { g.retire(this); }
    void destroy_in(domain_type& nodes) noexcept override { nodes.destroy(this); }
    [[nodiscard]] std::size_t bytes() const noexcept override { return sizeof(block); }
  };

  /// At which allocators put blocks.
  static constexpr std::intptr_t unit = 16;
  [[nodiscard]] std::intptr_t here() const noexcept {
    return reinterpret_cast<std::intptr_t>(this) & -unit;
  }
  [[nodiscard]] std::int32_t steps_to(const void* there) const noexcept {
    const std::intptr_t at = (reinterpret_cast<std::intptr_t>(there) - here()) / unit;
    return there == nullptr ? 0 : static_cast<std::int32_t>(at);
  }

  [[no_unique_address]] typename owned::list list_;  // leaves half a word
  atomic<std::int32_t> expected_{0};                 // in units from here; 0: not known
};

namespace detail::version {
template <class T, version_collector Collector>
struct first_of_field {
  template <class... Arguments>
  explicit first_of_field(Arguments&&... arguments)
      : oldest(std::forward<Arguments>(arguments)...) {}
  typename owned_head<T, Collector>::first oldest;
};
}  // namespace detail::version

template <class T, version_collector Collector>
class owned_field : detail::version::first_of_field<T, Collector>, public owned_head<T, Collector> {
 public:
  template <class... Arguments>
  explicit owned_field(list_owner<typename Collector::domain_type>& of, Arguments&&... arguments)
      : detail::version::first_of_field<T, Collector>(of, std::forward<Arguments>(arguments)...),
        owned_head<T, Collector>(of, this->oldest) {}
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

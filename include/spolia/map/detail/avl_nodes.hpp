// SPDX-License-Identifier: Apache-2.0
// avl_nodes.hpp: what an avl tree is made of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/seen_value.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// May lie in one atomic word. Without padding: its bytes tell one value from others.
template <class T>
inline constexpr bool fits_a_word =
    std::is_trivially_copyable_v<T> && std::is_nothrow_default_constructible_v<T> &&
    (std::has_unique_object_representations_v<T> || std::is_floating_point_v<T> ||
     std::is_empty_v<T>) &&
    std::is_copy_constructible_v<T> && std::is_copy_assignable_v<T> &&
    (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

/// The value of a node, or none. Changed under the node's lock only, read by any thread.
///
/// A word cannot say that it is none, so beside it stands how often the value came and went: odd
/// while it is there. A reader looks at that before and after. If it was the same odd number, the
/// value was there all the time, and what was read was it at the moment of reading.
template <class Value, class Domain, bool InWord = fits_a_word<Value>>
class avl_content {
 public:
  /// A value on its way in.
  struct prepared {
    bool ready = false;
    Value value{};
  };
  /// What went out and has to be retired.
  using leftover = std::nullptr_t;

  static prepared nothing_yet(Domain&) noexcept { return {}; }
  template <class V>
  static void prepare(Domain&, prepared& to, V&& value, tally&) {
    if (!to.ready) to = {true, static_cast<Value>(std::forward<V>(value))};
  }

  bool is_there() const noexcept {
    // acquire ← the releases in put() and clear(): a search that finds the value, or finds it gone,
    // sees what the updating thread did before.
    return (changes_.load_acquire() & 1U) != 0;
  }

  template <class F>
  bool read(F&& f) const {
    for (;;) {
      // acquire ← the release in put(): the value is at least as new.
      const std::uint64_t before = changes_.load_acquire();
      if ((before & 1U) == 0) return false;
      // acquire ← the release in put(): a value that was put in after another one went comes with
      // that going, and the next look finds it.
      const Value value = value_.load_acquire();
      if (changes_.load_relaxed() != before && !SPOLIA_FAULT("avl.no_second_look")) continue;
      std::forward<F>(f)(value);
      return true;
    }
  }

  bool look(seen_value<Value>& to) const {
    return read([&](const Value& value) { to.look(value); });
  }
  /// Under the node's lock.
  bool has(const seen_value<Value>& seen) const noexcept { return seen.is(value_.load_relaxed()); }

  leftover put(prepared& in) noexcept {
    const std::uint64_t changes = changes_.load_relaxed();
    // release → the acquire in read().
    value_.store_release(in.value);
    // release → the acquires in read() and is_there().
    if ((changes & 1U) == 0) changes_.store_release(changes + 1);
    return nullptr;
  }
  leftover clear() noexcept {
    // release → the acquires in read() and is_there().
    changes_.store_release(changes_.load_relaxed() + 1);
    return nullptr;
  }
  void end(Domain&) noexcept {}

 private:
  atomic<std::uint64_t> changes_{0};
  atomic<Value> value_;
};

/// Other values lie in blocks of their own, which never change; null: none.
template <class Value, class Domain>
class avl_content<Value, Domain, false> {
  struct box : Domain::header {
    template <class V>
    box(V&& v, value_stamp<Value> s) : value(static_cast<Value>(std::forward<V>(v))), which(s) {}

    /// For weight_of.
    std::size_t owned_bytes() const noexcept
      requires(!weightless<Value>)
    {
      return weigh(value);
    }
    const Value value;
    [[no_unique_address]] const value_stamp<Value> which;
  };

 public:
  using prepared = fresh<box, Domain>;
  using leftover = box*;

  static prepared nothing_yet(Domain& home) noexcept { return no_fresh<box>(home); }
  template <class V>
  static void prepare(Domain& home, prepared& to, V&& value, tally& stamps) {
    if (to == nullptr) {
      to = make_fresh<box>(home, std::forward<V>(value), next_stamp<Value>(stamps));
    }
  }

  bool is_there() const noexcept {
    // acquire ← the releases in put() and clear(): a search that finds the value, or finds it gone,
    // sees what the updating thread did before.
    return box_.load_acquire() != nullptr;
  }

  template <class F>
  bool read(F&& f) const {
    const box* const b = boxed();
    if (b != nullptr) std::forward<F>(f)(b->value);
    return b != nullptr;
  }

  bool look(seen_value<Value>& to) const {
    const box* const b = boxed();
    if (b != nullptr) to.look(b->value, b->which);
    return b != nullptr;
  }
  /// Under the node's lock, if it is there.
  bool has(const seen_value<Value>& seen) const noexcept {
    const box* const b = box_.load_relaxed();
    return seen.is(b->value, b->which);
  }

  leftover put(prepared& in) noexcept {
    box* const old = box_.load_relaxed();
    // release → the acquires in read() and is_there().
    box_.store_release(in.release());
    return old;
  }
  leftover clear() noexcept {
    box* const old = box_.load_relaxed();
    // release → the acquires in read() and is_there().
    box_.store_release(nullptr);
    return old;
  }
  void end(Domain& home) noexcept { home.destroy(box_.load_relaxed()); }

 private:
  const box* boxed() const noexcept {
    // acquire ← the release in put(): we see the block constructed.
    const box* const b = box_.load_acquire();
    memory::note_access(b);
    return b;
  }

  atomic<box*> box_{nullptr};
};

template <class Key, class Value, class Domain>
struct avl_nodes {
  using content = avl_content<Value, Domain>;
  struct node;

  /// What a node has apart from its pair. The entry has only this: its child on side 0 is the root.
  /// Links and version are changed by the holder of the lock, `height` too; `parent` by a holder of
  /// both the old and the new parent's lock.
  struct joint : Domain::header {
    // Of the version. It changes whenever the range of keys under the node gets smaller.
    static constexpr std::uint64_t unlinked = 1;   // forever
    static constexpr std::uint64_t shrinking = 2;  // links are being changed
    static constexpr std::uint64_t one_shrink = 4;

    bool is_unlinked() const noexcept { return (version.load_relaxed() & unlinked) != 0; }

    void begin_shrink() noexcept {
      // relaxed: the stores to links that follow are releases. A thread that sees one of them sees
      // this.
      if (SPOLIA_FAULT("avl.no_shrink")) return;
      version.store_relaxed(version.load_relaxed() | shrinking);
    }
    void end_shrink() noexcept {
      if (SPOLIA_FAULT("avl.no_shrink")) return;
      // release → the acquire in a search: a thread that sees the new version sees all new links.
      version.store_release((version.load_relaxed() & ~shrinking) + one_shrink);
    }
    void unlink() noexcept {
      // release → the acquire in a search: a thread that sees this sees the link that leads past
      // us.
      if (!SPOLIA_FAULT("avl.no_unlinked"))
        version.store_release(version.load_relaxed() | unlinked);
    }

    bool try_lock() noexcept {
      bool free = false;
      // acquire ← the release in unlock(): we see the node as the last holder left it.
      return locked.cas_strong_acquire(free, true);
    }
    void unlock() noexcept {
      if (SPOLIA_FAULT("avl.unlock_relaxed")) return locked.store_relaxed(false);
      // release → the acquire in try_lock().
      locked.store_release(false);
    }

    void lead(unsigned side, node* to) noexcept {
      if (SPOLIA_FAULT("avl.publish_relaxed")) return child[side].store_relaxed(to);
      // release → the acquire in a search: it sees the node constructed, and if this link is part
      // of a rotation, the versions that warn of it.
      child[side].store_release(to);
    }
    unsigned side_of(const node* n) const noexcept { return child[0].load_relaxed() == n ? 0 : 1; }

    atomic<std::uint64_t> version{0};
    atomic<bool> locked{false};
    atomic<std::int32_t> height{1};
    atomic<joint*> parent{nullptr};
    std::array<atomic<node*>, 2> child;
  };

  struct node : joint {
    explicit node(const Key& k) : key(k) {}

    /// For weight_of.
    std::size_t owned_bytes() const noexcept
      requires(!weightless<Key>)
    {
      return weigh(key);
    }

    void hang_under(joint* p) noexcept {
      // release → the acquire in parent_of(): the parent was constructed by another thread, maybe.
      this->parent.store_release(p);
    }
    joint* parent_of() const noexcept {
      // acquire ← the release in hang_under().
      return this->parent.load_acquire();
    }

    content value;
    const Key key;
  };
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

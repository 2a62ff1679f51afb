// SPDX-License-Identifier: Apache-2.0
// object.hpp: what an object of the read-log-update domain looks like, and what a version of it.
//
// Source:      Kim et al.: MV-RLU: Scaling Read-Log-Update with Multi-Versioning, ASPLOS 2019,
//              section 3.2 (master object, copy object, pending).
// Idea:        an object is a master, whose address never changes and is what pointers hold, and a
//              chain of committed copies, newest first, that lie in the logs of the threads that
//              made them. A null chain says that the master itself is the newest version.
//
//     master  [pending | newest | kind | since | holders | fixed part | body]
//                          └─► copy [older | since | ended | ...| body] ─► copy ─► null: the master
//
// A version is for the sections whose time lies in [since, ended). For the newest one that is open;
// for a copy that was written back to its master, `ended` is a time by which nobody finds it any
// more.
//
// Locks:       `pending` is the object's write lock. It names the uncommitted copy, so its owner
//              finds that again. Whatever changes the chain holds it: committing threads, and
//              collectors for a few instructions. So the chain has one writer at a time and never
//              points to a copy that is gone.
// Life:        `holders` counts the object's own life and the copies of it that logs hold. The
//              memory goes with the last of them: a collector that has a copy can go to the object.
//
// Departures from the paper:
//   D1  Pointers in objects are of a type of their own that can only hold masters. So nothing has
//       to tell copies from masters by their addresses.
//   D2  A body is copied by its type's own copy operations. What never changes (the fixed part: a
//       key, say) stands in the master only, may be of any type, and is not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

struct no_fixed_part {};

namespace detail {

struct record;
struct object;

/// What a thread that commits shows to those who meet its copies: see commit_word.hpp.
using commit_word = atomic<std::uint64_t>;

/// `record::since` of a copy whose thread has not filled it in yet.
inline constexpr std::uint64_t unstamped = 0;
/// `record::ended` of the newest version.
inline constexpr std::uint64_t unended = ~std::uint64_t{0};
/// The same of a copy that was just written back; its collector is about to draw the time.
inline constexpr std::uint64_t detached_now = unended - 1;

/// What code that does not know T needs to know of it.
struct object_kind {
  void (*write_back)(object& to, const record& from) noexcept;
  void (*copy_body)(record& to, const record& from) noexcept;
  void (*destroy)(object* whole) noexcept;
};

/// The values of object::pending besides the address of an uncommitted copy.
inline constexpr std::uintptr_t unlocked = 0;
inline constexpr std::uintptr_t collecting = 2;  // by a collector, for a few instructions
/// A new object, which only the thread with that commit word knows.
inline std::uintptr_t fresh_of(const commit_word& owner) noexcept {
  return reinterpret_cast<std::uintptr_t>(&owner) | 1U;
}

/// The head of a master.
struct object {
  object(const object_kind& k, std::uintptr_t lock, std::uint64_t born) noexcept
      : since(born), kind(&k), pending(lock) {}

  /// Takes the lock for a collector, which never waits.
  bool try_collect() noexcept {
    if (SPOLIA_FAULT("rlu.collects_unlocked")) return true;
    std::uintptr_t expected = unlocked;
    // acquire ← the releases of who had the lock: we see the chain as they left it.
    return pending.load_relaxed() == unlocked && pending.cas_strong_acquire(expected, collecting);
  }
  void end_collect() noexcept {
    if (SPOLIA_FAULT("rlu.collects_unlocked")) return;
    pending.store_release(unlocked);  // → the acquires of who takes the lock next
  }

  /// Gives up one hold; the last one ends the object.
  void let_go() noexcept {
    // release → acquire: what was done to the object for the sake of each copy comes before its
    // end.
    if (holders.fetch_sub_acq_rel(1) == 1) kind->destroy(this);
  }

  // What readers look at comes last, beside the object's own fields.
  plain<std::uint64_t> since;  ///< of what stands in the master; under the lock
  const object_kind* const kind;
  atomic<std::uint32_t> holders{1};
  atomic<std::uintptr_t> pending;
  atomic<record*> newest{nullptr};
};

enum class record_kind : std::uint8_t {
  copy,
  lock_only,  ///< try_lock_const: in no chain
  tombstone   ///< the object was freed
};

/// How far a copy has got on its way out; release → acquire from one collector to another.
enum class record_state : std::uint8_t { linked, unlinked, done };

/// A version, in a log; the body follows.
struct alignas(16) record {
  record(object& o, const commit_word& w, record_kind k, std::uint32_t size) noexcept
      : of(&o), owner(const_cast<commit_word*>(&w)), bytes(size), kind(k) {}

  void* body() noexcept { return this + 1; }
  const void* body() const noexcept { return this + 1; }

  atomic<record*> older{nullptr};
  atomic<std::uint64_t> since{unstamped};
  atomic<std::uint64_t> ended{unended};
  object* const of;
  commit_word* const owner;
  const std::uint32_t bytes;  // the body's included
  plain<record_kind> kind;    // a lock can become a tombstone until its section ends
  atomic<record_state> state{record_state::linked};
};

/// Brings the newest version of an object home that no section can reach: then the master is all
/// there is of it, although collectors may still be about to look at its copies.
inline void bring_home(object& o) noexcept {
  for (backoff busy; !o.try_collect();) busy.pause();
  record* r = o.newest.load_relaxed();
  if (r != nullptr) {
    o.kind->write_back(o, *r);
    o.since.write(r->since.load_relaxed());
    o.newest.store_relaxed(nullptr);
  }
  while (r != nullptr) {
    record* const older = r->older.load_relaxed();
    if (r->ended.load_relaxed() == unended) r->ended.store_relaxed(r->since.load_relaxed());
    // → the acquire in the collector's examine, which comes before it looks at `ended`. It may take
    // the copy away at once.
    r->state.store_release(record_state::unlinked);
    r = older;
  }
  o.end_collect();
}

template <class T>
struct fixed_part {
  using type = no_fixed_part;
};
template <class T>
  requires requires { typename T::fixed; }
struct fixed_part<T> {
  using type = typename T::fixed;
};
template <class T>
using fixed_of = typename fixed_part<T>::type;

/// A master of type T.
template <class T>
struct whole final : object {
  static_assert(std::is_nothrow_copy_constructible_v<T> && std::is_nothrow_copy_assignable_v<T>,
                "rlu: bodies are copied where nobody can catch what that throws; put what is dear "
                "to copy into T::fixed");
  static_assert(std::is_trivially_destructible_v<T>,
                "rlu: bodies vanish with the log; put what needs a destructor into T::fixed");
  static_assert(alignof(T) <= alignof(record), "rlu: bodies are aligned to 16 bytes at most");

  whole(std::uintptr_t lock, std::uint64_t born, fixed_of<T>&& f, const T& b)
      : object(how, lock, born), fixed(std::move(f)), body(b) {}

  static T& body_of(record& r) noexcept { return *std::launder(static_cast<T*>(r.body())); }
  static const T& body_of(const record& r) noexcept {
    return *std::launder(static_cast<const T*>(r.body()));
  }

  static void write_back(object& to, const record& from) noexcept {
    static_cast<whole&>(to).body = body_of(from);
  }
  static void copy_body(record& to, const record& from) noexcept {
    ::new (to.body()) T(body_of(from));
  }
  static void destroy(object* o) noexcept {
    whole* const w = static_cast<whole*>(o);
    w->~whole();
    memory::deallocate(w, sizeof(whole), alignof(whole));
  }
  static constexpr object_kind how{&write_back, &copy_body, &destroy};

  [[no_unique_address]] fixed_of<T> fixed;
  T body;
};

/// \throws std::bad_alloc, or what moving the fixed part throws
template <class T>
whole<T>* make_whole(std::uintptr_t lock, std::uint64_t born, fixed_of<T>&& fixed, const T& body) {
  void* const place = memory::allocate(sizeof(whole<T>), alignof(whole<T>));
  try {
    return ::new (place) whole<T>(lock, born, std::move(fixed), body);
  } catch (...) {
    memory::deallocate(place, sizeof(whole<T>), alignof(whole<T>));
    throw;
  }
}

}  // namespace detail
}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// object.hpp: the layout of an object of a read-log-update domain, and of its versions.
//
// Source:      Kim et al.: MV-RLU: Scaling Read-Log-Update with Multi-Versioning, ASPLOS 2019,
//              section 3.2 (master object, copy object, pending).
// Idea:        an object is a master, whose address never changes and is what pointers hold, and a
//              chain of committed copies, newest first, that lie in the logs of the threads that
//              made them. A null chain says that the master itself is the newest version.
//
//     master  [word | newest | body | fixed part]
//                       └─► copy [older | since | ended | ...| body] ─► copy ─► null: the master
//
// A copy whose body is two words at most is one cache line. It moves to another processor's cache
// once, with all that a reader, the next commit and a collector need of it. To fit there, fields
// that are needed at different times share a position: whose commit word to ask lies where `since`
// will be, and when the master began where `ended` will be.
//
// A version is for the sections whose time lies in [since, ended). The interval of the newest one
// has no end yet. For a copy that was written back to its master, `ended` is a time from which on
// no section finds it.
//
// Word:        the object's write lock while a thread has it: then it names the uncommitted copy,
//              so that its owner finds that again. Else when the newest version began. A thread
//              that changes the chain has the lock: committing threads, and collectors for a few
//              instructions. So the chain has one writer at a time and never points to a copy that
//              is gone.
// Short cut:   a section that finds a chain, and then in the word a time that is not above its own,
//              takes the head of the chain at once, without looking at it: no walk, and no guard.
//              That time is the head's. It is not an older version's, since the word was a lock
//              when the head was linked. It is not a newer one's, since what is linked after a
//              section has looked gets a timestamp above the section's time (commit_word.hpp). So
//              the section's time is in the head's interval, and collectors leave the head alone.
// Life:        an object that was freed ends with the segment of its tombstone. Until a copy is
//              unlinked its collector may use the object. It can, because sweeps of logs run inside
//              guards of the domain's reclamation, for which the tombstone's segment waits.
//
// Departures from the paper:
//   D1  Pointers in objects are of a type of their own that can only hold masters. So nothing has
//       to tell copies from masters by their addresses.
//   D2  A body is copied by its type's own copy operations. What never changes (the fixed part: a
//       key, say) stands in the master only, may be of any type, and is not copied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>

/// After the parameters of a lambda that is called in two places and must be inline in both.
#define SPOLIA_INLINE_LAMBDA __attribute__((always_inline))

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

struct no_fixed_part {};

/// The base of bodies that live in an array, see array.hpp.
struct element {};

namespace detail {

struct record;
struct object;

/// What a thread that commits shows to sections that meet its copies: see commit_word.hpp.
using commit_word = atomic<std::uint64_t>;

/// `record::since` of a copy whose thread has not filled it in yet: whose word to ask instead.
/// Times, here and in an object's word, stay below 2^62.
inline std::uint64_t unstamped(const commit_word& owner) noexcept {
  return std::uint64_t{1} << 63U | reinterpret_cast<std::uintptr_t>(&owner) >> 1U;
}
constexpr bool is_stamped(std::uint64_t since) noexcept { return since >> 63U == 0; }
inline commit_word& owner_of(std::uint64_t unfilled) noexcept {
  return *reinterpret_cast<commit_word*>(unfilled << 1U);
}
/// `record::ended` of the newest version, and when what stands in the master began; before the
/// commit, and of locks that change nothing, when the version began that the lock was taken on.
constexpr std::uint64_t unended(std::uint64_t base) noexcept {
  return std::uint64_t{1} << 63U | base;
}
constexpr bool is_unended(std::uint64_t ended) noexcept { return ended >> 62U == 2; }
constexpr std::uint64_t base_of(std::uint64_t unended) noexcept { return unended << 2U >> 2U; }
/// The same of a copy that was written back, or moved: its segment knows the time.
inline constexpr std::uint64_t detached = ~std::uint64_t{0};

/// What code that does not know T needs to know of it.
struct object_kind {
  void (*write_back)(object& to, const record& from) noexcept;
  void (*copy_body)(record& to, const record& from) noexcept;
  void (*destroy)(object& whole) noexcept;
  bool weighed;  ///< tombstones say what their objects weigh
};

/// object::word is a time and two flags, or the address of an uncommitted copy or a commit word and
/// two flags.
namespace word {

inline constexpr std::uintptr_t locked = 1;      // by a section
inline constexpr std::uintptr_t collecting = 2;  // by a collector; the time still stands
inline constexpr std::uintptr_t flags = 3;

/// Not locked; the newest version began at `t`. That leaves a clock of 4 GHz some 36 years.
constexpr std::uintptr_t since(std::uint64_t t) noexcept { return t << 2U; }
constexpr std::uint64_t time(std::uintptr_t unlocked) noexcept { return unlocked >> 2U; }
/// A new object, which only the thread with that commit word knows.
inline std::uintptr_t fresh(const commit_word& owner) noexcept {
  return reinterpret_cast<std::uintptr_t>(&owner) | locked | collecting;
}
inline std::uintptr_t of(const record& r) noexcept {
  return reinterpret_cast<std::uintptr_t>(&r) | locked;
}
constexpr bool is_locked(std::uintptr_t seen) noexcept { return (seen & locked) != 0; }
/// The newest version, if it is no copy that is being committed, is for sections of time `t`.
inline bool allows(std::uintptr_t seen, std::uint64_t t) noexcept {
  const std::uint64_t least = SPOLIA_FAULT("rlu.sees_what_is_long_past") ? t - 1 : t;
  return !is_locked(seen) && time(seen) <= least;
}

}  // namespace word

/// The head of a master.
struct object {
  explicit object(std::uintptr_t w) noexcept : lock(w) {}

  /// Takes the lock for a collector, which never waits.
  bool try_collect() noexcept {
    if (SPOLIA_FAULT("rlu.collects_unlocked")) return true;
    std::uintptr_t seen = lock.load_relaxed();
    // acquire ← the releases of threads that had the lock: we see the chain as they left it.
    return (seen & word::flags) == 0 && lock.cas_strong_acquire(seen, seen | word::collecting);
  }
  void end_collect() noexcept {
    if (SPOLIA_FAULT("rlu.collects_unlocked")) return;
    // release → the acquires of the thread that takes the lock next.
    lock.store_release(lock.load_relaxed() & ~word::collecting);
  }

  /// A collector that may have had the lock will never give it up.
  void free_from_lost() noexcept {
    if ((lock.load_relaxed() & word::flags) == word::collecting) end_collect();
  }

  atomic<std::uintptr_t> lock;  ///< the word
  atomic<record*> newest{nullptr};
};

enum class record_kind : std::uint8_t {
  copy,
  lock_only,  ///< try_lock_const: in no chain
  tombstone   ///< the object was freed
};

/// How far a copy has got on its way out; release → acquire from one collector to another.
enum class record_state : std::uint8_t {
  linked,
  unlinked,
  done,  ///< no section needs it
  last   ///< the same of a tombstone: with its segment the object ends
};

/// A cache line, where records begin as long as each is so long.
inline constexpr std::size_t record_line = 64;

/// A version, in a log; the body follows.
struct alignas(16) record {
  record(object& o, const object_kind& h, const commit_word& owner, record_kind k,
         std::uint32_t size) noexcept
      : since(unstamped(owner)), of(&o), how(&h), bytes(size), kind(k), relocated(false) {}
  /// A relocated copy, in a survivor space: it takes the place of `twin` under the object's lock.
  explicit record(const record& twin) noexcept
      : older(twin.older.load_relaxed()),
        since(twin.since.load_relaxed()),
        ended(twin.ended.load_relaxed()),
        of(twin.of),
        how(twin.how),
        bytes(twin.bytes),
        kind(twin.kind.read()),
        relocated(true) {}

  void* body() noexcept { return this + 1; }
  const void* body() const noexcept { return this + 1; }

  [[nodiscard]] std::uint64_t base() const noexcept { return base_of(ended.load_relaxed()); }

  /// Of a tombstone: what its object takes with all that it owns, as it was weighed when it was
  /// freed; 0: that is not much. It stands where copies have their bodies.
  [[nodiscard]] std::size_t freed_bytes() const noexcept {
    return how->weighed ? *std::launder(static_cast<const std::size_t*>(body())) : 0;
  }
  void frees(std::size_t weighed) noexcept { ::new (body()) std::size_t(weighed); }

  atomic<record*> older{nullptr};
  atomic<std::uint64_t> since;
  atomic<std::uint64_t> ended{unended(0)};
  object* const of;
  const object_kind* const how;
  const std::uint32_t bytes;  // the body's included
  plain<record_kind> kind;    // a lock can become a tombstone until its section ends
  atomic<record_state> state{record_state::linked};
  const bool relocated;  // may be overwritten by a newer version: see collector.hpp
};

/// Whether it is in its object's chain, whose lock the caller has.
inline bool is_linked(const record& r) noexcept {
  const record* v = r.of->newest.load_relaxed();
  while (v != nullptr && v != &r) v = v->older.load_relaxed();
  return v != nullptr;
}

static_assert(record_line - sizeof(record) >= sizeof(std::size_t), "room for record::freed_bytes");

/// Of a record with a body, or none. Most are a cache line, so each of those that follow is one.
constexpr std::uint32_t record_bytes(std::size_t body) noexcept {
  return static_cast<std::uint32_t>(
      (std::max)(sizeof(record) + (body + 15U) / 16U * 16U, record_line));
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

/// T::tail: values after a body, as many as were asked for when the object was made. Versions have
/// them too.
template <class T>
concept has_tail = requires { typename T::tail; };
template <class T>
struct tail_length {
  static constexpr std::size_t bytes() noexcept { return 0; }
};
template <has_tail T>
struct tail_length<T> {
  static_assert(std::is_trivially_copyable_v<typename T::tail> &&
                    std::is_trivially_default_constructible_v<typename T::tail> &&
                    alignof(typename T::tail) <= alignof(T),
                "rlu: a tail is of plain values, not more aligned than the body");
  std::size_t count = 0;
  [[nodiscard]] std::size_t bytes() const noexcept { return count * sizeof(typename T::tail); }
};
/// A tail must fit into a record.
inline constexpr std::size_t most_tail_bytes = std::size_t{1} << 30U;

template <class T>
inline constexpr bool is_element = std::is_base_of_v<element, T>;

/// What is of type T in a master. A section that walks from object to object reads the head of
/// each, its body, and at most a part of what is fixed, a key: so the body comes first, and what is
/// read lies in one cache line more often. A tail comes last, after its body.
template <class T>
struct whole_parts {
  whole_parts(fixed_of<T>&& f, const T& b, tail_length<T>) : body(b), fixed(std::move(f)) {}

  T body;
  [[no_unique_address]] fixed_of<T> fixed;
  [[no_unique_address]] const tail_length<T> tail{};
};
template <has_tail T>
struct whole_parts<T> {
  whole_parts(fixed_of<T>&& f, const T& b, tail_length<T> n)
      : fixed(std::move(f)), tail(n), body(b) {}

  [[no_unique_address]] fixed_of<T> fixed;
  const tail_length<T> tail;
  T body;
};

/// A master of type T.
template <class T>
struct whole final : object, whole_parts<T> {
  using whole_parts<T>::body;
  using whole_parts<T>::fixed;
  using whole_parts<T>::tail;

  static_assert(
      std::is_nothrow_copy_constructible_v<T> && std::is_nothrow_copy_assignable_v<T>,
      "rlu: bodies are copied where no caller can catch what that throws; put what is dear "
      "to copy into T::fixed");
  static_assert(std::is_trivially_destructible_v<T>,
                "rlu: bodies vanish with the log; put what needs a destructor into T::fixed");
  static_assert(alignof(T) <= alignof(record), "rlu: bodies are aligned to 16 bytes at most");

  whole(std::uintptr_t w, fixed_of<T>&& f, const T& b, tail_length<T> n = {})
      : object(w), whole_parts<T>(std::move(f), b, n) {
    if (tail.bytes() != 0) std::memset(end_of(body), 0, tail.bytes());
  }

  /// Of a version.
  [[nodiscard]] std::size_t body_bytes() const noexcept { return sizeof(T) + tail.bytes(); }
  /// Where the tail of a body begins.
  static char* end_of(T& b) noexcept {
    return reinterpret_cast<char*>(std::addressof(b)) + sizeof(T);
  }
  static const char* end_of(const T& b) noexcept {
    return reinterpret_cast<const char*>(std::addressof(b)) + sizeof(T);
  }
  /// A version in raw memory.
  T& copy_to(void* place, const T& from) const noexcept {
    T& made = *::new (place) T(from);
    if (tail.bytes() != 0) std::memcpy(end_of(made), end_of(from), tail.bytes());
    return made;
  }

  static T& body_of(record& r) noexcept { return *std::launder(static_cast<T*>(r.body())); }
  static const T& body_of(const record& r) noexcept {
    return *std::launder(static_cast<const T*>(r.body()));
  }

  static void write_back(object& to, const record& from) noexcept {
    whole& master = static_cast<whole&>(to);
    master.body = body_of(from);
    if (master.tail.bytes() != 0) {
      std::memcpy(end_of(master.body), end_of(body_of(from)), master.tail.bytes());
    }
  }
  static void copy_body(record& to, const record& from) noexcept {
    static_cast<const whole*>(to.of)->copy_to(to.body(), body_of(from));
  }
  static void destroy(object& o) noexcept {
    whole* const w = &static_cast<whole&>(o);
    const std::size_t bytes = sizeof(whole) + w->tail.bytes();
    w->~whole();
    memory::deallocate(w, bytes, alignof(whole));
  }
  /// Are objects weighed when they are freed? A body owns nothing, but may be large.
  static constexpr bool is_weighed() noexcept {
    return !weightless<fixed_of<T>> || has_tail<T> || is_large();
  }
  static constexpr bool is_large() noexcept {
    return sizeof(whole) >= spolia::detail::weighing::large_from;
  }
  /// What the object takes, with all that it owns, if that is much; else 0: then the log's bytes
  /// say enough.
  static std::size_t weigh(const object& o) noexcept {
    const whole& w = static_cast<const whole&>(o);
    const std::size_t owned = w.tail.bytes() + spolia::weigh(w.fixed);
    return is_large() || owned >= much_owned ? sizeof(whole) + owned : 0;
  }
  static constexpr std::size_t much_owned = 256;
  SPOLIA_OWN_COPY static constexpr object_kind how{&write_back, &copy_body, &destroy, is_weighed()};
};

/// \throws std::bad_alloc, or what moving the fixed part throws
template <class T>
whole<T>* make_whole(std::uintptr_t w, fixed_of<T>&& fixed, const T& body,
                     tail_length<T> tail = {}) {
  const std::size_t bytes = sizeof(whole<T>) + tail.bytes();
  void* const place = memory::allocate(bytes, alignof(whole<T>));
  try {
    return ::new (place) whole<T>(w, std::move(fixed), body, tail);
  } catch (...) {
    memory::deallocate(place, bytes, alignof(whole<T>));
    throw;
  }
}

/// \throws std::bad_array_new_length
template <has_tail T>
tail_length<T> tail_of(std::size_t count) {
  if (count > most_tail_bytes / sizeof(typename T::tail)) throw std::bad_array_new_length();
  return {count};
}

}  // namespace detail
}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR

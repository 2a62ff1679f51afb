// SPDX-License-Identifier: Apache-2.0
// section.hpp: what user code may do inside a section. A `reader` reads; a `writer` also locks,
// makes and frees objects. Only a domain makes them, and they live as long as the section.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/rlu/detail/commit_word.hpp>
#include <spolia/rlu/detail/scope.hpp>
#include <spolia/rlu/detail/session.hpp>
#include <spolia/rlu/object.hpp>
#include <spolia/rlu/pointers.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

template <class Clock, class Blocks>
class basic_domain;

/// Reads one instant, and what its own section has written.
template <class Clock, class Blocks>
class basic_reader {
 public:
  basic_reader(const basic_reader&) = delete;
  basic_reader& operator=(const basic_reader&) = delete;

  /// The version of the object that this section sees; empty for null. It waits for no thread. Only
  /// in a serializable section can it fail, with std::bad_alloc.
  template <class T>
  SPOLIA_ALWAYS_INLINE view<T> read(ptr<T> p) {
    detail::whole<T>* const o = detail::access::master(p);
    if (o == nullptr) return {};
    if (may_write_ && here_.special) [[unlikely]] {
      if (const T* const own = note_and_find_own(here_, *o)) return look(*o, *own);
    }
    // seq_cst ↔ the fences before a commit's and a collector's tick, see commit_word.hpp: a section
    // that finds no chain here reads the master at a time for which that is right. (It also
    // acquires what a collector has written back.)
    const detail::record* r = o->newest.load_seq_cst();
    if (r == nullptr) [[likely]]
      return look(*o, o->body);
    r = version_from(*o, r);
    return look(*o, r == nullptr ? o->body : detail::whole<T>::body_of(*r));
  }

  /// A copy of read(p)->*field, where p is not null: less to wait for than a view on the way from
  /// one object to the next, since the field lies at a fixed distance from the pointer.
  template <class T, class M>
  SPOLIA_ALWAYS_INLINE M get(ptr<T> p, M T::* field) {
    return get(p, [field](const T& version) SPOLIA_INLINE_LAMBDA { return version.*field; });
  }
  /// The same of what f(const T&) makes of the version.
  template <class T, std::invocable<const T&> F>
    requires(!std::is_member_pointer_v<F>)
  SPOLIA_ALWAYS_INLINE auto get(ptr<T> p, F&& f) {
    detail::whole<T>& o = *not_null(detail::access::master(p));
    if (may_write_ && here_.special) [[unlikely]]
      return f(*read(p));
    const detail::record* r = o.newest.load_seq_cst();  // as in read
    if (r != nullptr) [[unlikely]] {
      r = version_from(o, r);
      if (r != nullptr) return f(detail::whole<T>::body_of(*r));
    }
    memory::note_access(std::addressof(o.body));
    return f(o.body);
  }

  /// What never changes in the object, which must not be null.
  template <class T>
  const detail::fixed_of<T>& fixed(ptr<T> p) const noexcept {
    return not_null(detail::access::master(p))->fixed;
  }

  /// Returns what f(reader&) returns, to which it gives this section for reading: f must not write
  /// by other ways. While the section has written nothing, each read there asks a question less.
  template <class F>
  SPOLIA_ALWAYS_INLINE auto search(F&& f) {
    if (may_write_ && here_.special) [[unlikely]]
      return search_own(std::forward<F>(f));
    basic_reader plain(domain_, here_, false);
    return std::forward<F>(f)(plain);
  }

  /// The section's instant, for accounting.
  [[nodiscard]] std::uint64_t timestamp() const noexcept { return here_.time; }

 protected:
  friend basic_domain<Clock, Blocks>;
  using domain = basic_domain<Clock, Blocks>;
  using session = detail::session<typename Blocks::header>;

  basic_reader(domain& d, session& s, bool may_write) noexcept
      : domain_(d), here_(s), may_write_(may_write) {}
  ~basic_reader() = default;

  template <class T>
  view<T> look(detail::whole<T>& o, const T& body) const noexcept {
    memory::note_access(std::addressof(body));
    return detail::access::look(o, body, here_.turn);
  }

  /// Of an object that has copies; null: the master is.
  SPOLIA_ALWAYS_INLINE const detail::record* version_from(const detail::object& o,
                                                          const detail::record* head) {
    here_.walks.add(1);
    // The head is for this section if the word says so: see object.hpp, "Short cut". Nothing that
    // is read comes with the word.
    const std::uintptr_t seen = o.lock.load_relaxed();
    const bool ours = detail::word::allows(seen, here_.time) || takes_any(seen);
    const detail::record* const r = ours ? head : find(domain_, here_, o);
    check_alive(r);
    return r;
  }

  template <class F>
  SPOLIA_NOINLINE auto search_own(F&& f) {
    return std::forward<F>(f)(*this);
  }

  template <class T>
  SPOLIA_NOINLINE static const T* note_and_find_own(session& here, detail::whole<T>& o) {
    if (here.serializable) here.read.push_back({&o, &detail::whole<T>::how});
    const detail::record* const own = here.own(o);
    const bool copied = own != nullptr && own->kind.read() == detail::record_kind::copy;
    return copied ? std::addressof(detail::whole<T>::body_of(*own)) : nullptr;
  }

  /// The copy that is for this section's time; null: the master is. The guard lasts for the walk
  /// only: what is found stays, because the section's time is in its interval.
  SPOLIA_NOINLINE static const detail::record* find(domain& of, session& here,
                                                    const detail::object& o) {
    auto guard = of.blocks_.enter();
    if (SPOLIA_FAULT("rlu.walks_unguarded")) auto dropped = std::move(guard);
    // seq_cst: as in read. The guard comes first, so what we pass by stays.
    const detail::record* r = o.newest.load_seq_cst();
    while (r != nullptr) {
      if (detail::since_of(*r, of.clock_, here.time) <= here.time) break;
      // acquire ← the releases of commits and of collectors that took out what was between.
      r = r->older.load_acquire();
    }
    return r;
  }

  static bool takes_any([[maybe_unused]] std::uintptr_t seen) noexcept {
    return SPOLIA_FAULT("rlu.takes_any_head") && !detail::word::is_locked(seen);
  }
  static void check_alive([[maybe_unused]] const detail::record* found) noexcept {
    if constexpr (SPOLIA_CHECKS) {
      if (found == nullptr || found->kind.read() != detail::record_kind::tombstone) return;
      misuse::report("rlu: an object was read that an earlier section freed", threads::number());
    }
  }

  domain& domain_;
  session& here_;
  const bool may_write_;  // kept here: reads are many, and ask nothing else of the session
};

/// Also writes. What it does becomes visible when its section commits, all at once or not at all.
///
/// A lock that cannot be taken dooms the section. The copy is empty then, and so is every later
/// one. What the function returns is dropped, and domain::update calls the function again.
template <class Clock, class Blocks>
class basic_writer : public basic_reader<Clock, Blocks> {
  using reader = basic_reader<Clock, Blocks>;
  using detail_kind = detail::record_kind;
  using reader::here_;

 public:
  /// The object's next version, to be written to; locks the object until the section ends. Empty
  /// if another section has it or was faster, or the log is full.
  /// \throws std::bad_alloc
  template <class T>
  [[nodiscard]] copy<T> try_lock(ptr<T> p) {
    detail::whole<T>* const o = detail::access::master(p);
    if (!usable(o)) return {};
    if (detail::word::is_locked(o->lock.load_relaxed())) [[unlikely]]
      return lock_again(*o);
    detail::record* const r =
        here_.lock(*o, detail::whole<T>::how, detail_kind::copy, bytes_of(*o));
    return r == nullptr ? copy<T>() : first_copy(*o, *r);
  }

  /// Locks the object until the section ends, and changes nothing, so that no other section changes
  /// it meanwhile. False means what an empty copy means.
  /// \throws std::bad_alloc
  template <class T>
  bool try_lock_const(ptr<T> p) {
    detail::whole<T>* const o = detail::access::master(p);
    return usable(o) && keep_as_it_is(*o, detail::whole<T>::how);
  }

  /// A new object, which the section may write to until it commits. It ends if the section does not
  /// commit. \throws std::bad_alloc, or what moving the fixed part throws
  template <class T>
  [[nodiscard]] copy<T> make(detail::fixed_of<T> fixed, const T& body) {
    return make_with<T>(std::move(fixed), body, {});
  }
  /// With `count` values of T::tail after the body, which are zero at first.
  template <detail::has_tail T>
  [[nodiscard]] copy<T> make(detail::fixed_of<T> fixed, const T& body, std::size_t count) {
    return make_with<T>(std::move(fixed), body, detail::tail_of<T>(count));
  }
  template <class T>
  [[nodiscard]] copy<T> make(const T& body) {
    return make<T>(detail::fixed_of<T>(), body);
  }

  /// Ends the object when no section can see it any more. Locks it first, if this section has not;
  /// false means what an empty copy means. The section itself has to unlink the object.
  /// \throws std::bad_alloc
  template <class T>
  bool free(ptr<T> p) {
    static_assert(!detail::is_element<T>, "rlu: elements end with their array");
    detail::whole<T>* const o = detail::access::master(p);
    if (!usable(o)) return false;
    if (here_.is_fresh(*o)) return drop(*o);
    detail::record* r = here_.own(*o);
    if (r != nullptr && r->kind.read() == detail_kind::tombstone) return true;  // once is enough
    if (r == nullptr)
      r = here_.lock(*o, detail::whole<T>::how, detail_kind::tombstone, detail::record_bytes(0));
    if (r == nullptr) return false;
    r->kind.write(detail_kind::tombstone);
    if constexpr (detail::whole<T>::is_weighed()) {
      r->frees(detail::whole<T>::weigh(*o));
      here_.frees_bytes += r->freed_bytes();
    }
    return true;
  }

  /// Adds to a counter of this thread's if and when the section commits. \throws std::bad_alloc
  void count(tally& to, std::uint64_t n = 1) {
    here_.special = true;
    if (here_.first_count.to == nullptr) {
      here_.first_count = {&to, n};
    } else {
      here_.counts.push_back({&to, n});
    }
  }

  /// Drops what the section has done; update calls the function again.
  void retry() noexcept { here_.doom(outcome::conflict); }
  /// Drops what the section has done; update returns.
  void cancel() noexcept { here_.doom(outcome::cancelled); }
  /// The section can only be dropped: as after a lock that could not be had.
  [[nodiscard]] bool doomed() const noexcept { return here_.doomed(); }

  /// Rules out write skew: the section commits only if nothing that it reads from here on has
  /// changed by then. Call it before the first read.
  void serializable() noexcept { here_.serializable = here_.special = true; }

 private:
  friend basic_domain<Clock, Blocks>;
  template <class Domain, class Session>
  friend class detail::writing;
  using reader::reader;
  ~basic_writer() = default;

  template <class T>
  bool usable(const T* o) noexcept {
    if (o != nullptr) return !here_.doomed();
    misuse::report("rlu: a null pointer was to be locked", threads::number());
    here_.doom(outcome::cancelled);
    return false;
  }

  /// What the section wants to write is locked already.
  template <class T>
  SPOLIA_NOINLINE copy<T> lock_again(detail::whole<T>& o) {
    if (here_.is_fresh(o)) return hand_out(o, o.body);
    detail::record* r = here_.own(o);
    if (r == nullptr) {
      here_.doom(outcome::conflict);
      return {};
    }
    if (r->kind.read() == detail_kind::copy) return hand_out(o, detail::whole<T>::body_of(*r));
    if (r->kind.read() == detail_kind::tombstone) {
      misuse::report("rlu: an object was locked that the same section has freed",
                     threads::number());
      here_.doom(outcome::cancelled);
      return {};
    }
    r = here_.exchange_lock(*r, detail_kind::copy, bytes_of(o));
    return r == nullptr ? copy<T>() : first_copy(o, *r);
  }

  /// We have the lock, so the chain does not change; and the newest version is ours to see.
  template <class T>
  copy<T> first_copy(detail::whole<T>& o, detail::record& r) const noexcept {
    const detail::record* const newest = o.newest.load_relaxed();
    const T& from = newest == nullptr ? o.body : detail::whole<T>::body_of(*newest);
    return hand_out(o, o.copy_to(r.body(), from));
  }
  template <class T>
  static std::uint32_t bytes_of(const detail::whole<T>& o) noexcept {
    return detail::record_bytes(o.body_bytes());
  }

  template <class T>
  copy<T> make_with(detail::fixed_of<T>&& fixed, const T& body, detail::tail_length<T> tail) {
    static_assert(!detail::is_element<T>, "rlu: elements live in an array, see array.hpp");
    here_.special = true;
    auto& fresh = here_.fresh;
    // First, before there is something to lose.
    if (fresh.size() == fresh.capacity()) fresh.reserve(2 * fresh.size() + 4);
    const std::uintptr_t word = detail::word::fresh(here_.committed);
    detail::whole<T>* const o = detail::make_whole<T>(word, std::move(fixed), body, tail);
    try {
      fresh.push_back({o, &detail::whole<T>::how, false});
    } catch (...) {  // moving the fixed part has made others of this section
      detail::whole<T>::destroy(*o);
      throw;
    }
    return hand_out(*o, o->body);
  }

  bool keep_as_it_is(detail::object& o, const detail::object_kind& how) {
    if (here_.is_fresh(o) || here_.own(o) != nullptr) return true;
    return here_.lock(o, how, detail_kind::lock_only, detail::record_bytes(0)) != nullptr;
  }

  bool drop(const detail::object& o) noexcept {
    for (detail::fresh_object& f : here_.fresh) f.dropped |= f.made == &o;
    return true;
  }

  template <class T>
  copy<T> hand_out(detail::whole<T>& o, T& body) const noexcept {
    memory::note_access(std::addressof(body));
    return detail::access::write(o, body, here_.turn);
  }

  /// The read set of a serializable section: locked, so that what is committed later comes later.
  void lock_what_was_read() {
    if (!here_.serializable || !here_.written.wrote() || SPOLIA_FAULT("rlu.not_validated")) return;
    for (const auto& [o, how] : here_.read) {
      if (here_.doomed() || !keep_as_it_is(*o, *how)) return;
    }
  }
};

}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR

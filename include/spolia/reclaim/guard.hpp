// SPDX-License-Identifier: Apache-2.0
// guard.hpp: the protection of one thread for the length of a short operation.
//
// Containers are written against guards, once for all schemes:
//
//   guard.read(f)             the searching part: f() only reads shared memory, starting from a
//                             root, and has no objects with destructors alive. Under a restartable
//                             scheme f may be abandoned anywhere and started over; otherwise it is
//                             just called.
//   guard.protect(src, slot)  reads a pointer that may be followed. Under a region scheme: a plain
//                             acquire load. Under a pointer scheme it announces the pointer in
//                             `slot` and re-reads; the caller makes sure that what holds `src` was
//                             not itself unlinked (for a list: an unmarked link).
//   guard.step(src, to, slot, linked)   the same for a `src` in a block that may have been unlinked
//                             meanwhile and would not show it. Where the scheme needs to know it
//                             asks linked(), and if that is false the search has to start over.
//   guard.keep(p, slot)       last words of f under a restartable scheme: p may be used after
//   read() guard.announce(p, slot)   outside of read(): ask that p stay. It does if the caller can
//   show, by
//                             a check made afterwards, that p was not retired before the call.
//   guard.retire(p)           p was unlinked by this thread; frees it once nobody can look at it.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Scheme, class Release>
class domain<Scheme, Release>::guard {
 public:
  guard(guard&& other) noexcept
      : domain_(std::exchange(other.domain_, nullptr)), cell_(other.cell_), hold_(other.hold_) {}

  guard& operator=(guard&& other) noexcept {
    if (this != &other) {
      finish();
      domain_ = std::exchange(other.domain_, nullptr);
      cell_ = other.cell_;
      hold_ = other.hold_;
    }
    return *this;
  }

  SPOLIA_ALWAYS_INLINE ~guard() { finish(); }

  /// A pointer read from `source` that may be followed until the guard goes or the slot is used
  /// again.
  template <class Source>
  source_value<Source> protect(const Source& source, unsigned slot = 0) noexcept {
    return domain_->scheme_.protect(cell_->local, hold_, slot, source);
  }

  /// One step of a search from block to block: reads from `source`, which lies in a block found
  /// before, a pointer that may be followed until the guard goes or the slot is used again. False:
  /// start over from a root. `linked()` tells, by an acquire load, whether the block that holds
  /// `source` is still linked; it is asked afterwards, and only if the scheme needs to know.
  template <class Source, std::predicate Linked>
  bool step(const Source& source, source_value<Source>& to, unsigned slot, Linked&& linked) {
    return steps()(source, to, slot, std::forward<Linked>(linked));
  }

  /// step() by itself, for as long as the guard lives: a small copy, which stays in registers where
  /// the guard's address is known to others.
  class stepper {
   public:
    template <class Source, std::predicate Linked>
    SPOLIA_ALWAYS_INLINE bool operator()(const Source& source, source_value<Source>& to,
                                         unsigned slot, Linked&& linked) const {
      if constexpr (protects_pointers<Scheme>) {
        return scheme_->step(*local_, *hold_, slot, source, to) || linked();
      } else {
        to = scheme_->protect(*local_, *hold_, slot, source);
        return true;
      }
    }

    /// Can most steps be taken without a call, and without anything that a call would need?
    static constexpr bool glances =
        !protects_pointers<Scheme> ||
        requires(Scheme s, typename Scheme::local l, typename Scheme::hold h, atomic<int*>& source,
                 int* to) { s.glance(l, h, source, to); };

    /// The same where nothing need be done but to look. False: `to` must not be followed, the step
    /// has to be taken by the above. So a search is written twice, and the one that is nearly
    /// always run fits in registers.
    template <class Source>
    SPOLIA_ALWAYS_INLINE bool glance(const Source& source, source_value<Source>& to) const noexcept
      requires glances
    {
      if constexpr (protects_pointers<Scheme>) {
        return scheme_->glance(*local_, *hold_, source, to);
      } else {
        to = scheme_->protect(*local_, *hold_, 0, source);
        return true;
      }
    }

   private:
    friend class guard;
    stepper(Scheme& scheme, typename Scheme::local& local, typename Scheme::hold& hold) noexcept
        : scheme_(&scheme), local_(&local), hold_(&hold) {}

    Scheme* scheme_;
    typename Scheme::local* local_;
    typename Scheme::hold* hold_;
  };
  stepper steps() noexcept { return {domain_->scheme_, cell_->local, hold_}; }

  /// The searching part of an operation; returns what f() returns (trivially copyable, no
  /// references).
  template <class F>
  SPOLIA_ALWAYS_INLINE auto read(F&& f) {
    using result = std::invoke_result_t<F&>;
    if constexpr (protects_by_restart<Scheme>) {
      static_assert(std::is_void_v<result> || std::is_trivially_copyable_v<result>,
                    "read() may start over: it can only hand out values without destructors");
      return domain_->scheme_.read(cell_->local, hold_, f);
    } else {
      return f();
    }
  }

  template <class T>
  void keep(T* p, unsigned slot) noexcept {
    if constexpr (protects_by_restart<Scheme>) domain_->scheme_.keep(cell_->local, hold_, slot, p);
  }

  template <class T>
  void announce(T* p, unsigned slot) noexcept {
    if constexpr (!protects_regions<Scheme>) {
      domain_->scheme_.announce(cell_->local, hold_, slot, p);
    }
  }

  /// Retires a block that derives from the domain's header: never allocates, never fails.
  template <class T>
    requires std::is_base_of_v<header, T>
  void retire(T* block) noexcept {
    static_cast<retired*>(block)->how_.write(&disposers<T>::made);
    domain_->retire(*cell_, block);
  }

  /// The same, ended by `Deleter{}(block)`. If the block is not one of make()'s, see
  /// domain::garbage_bound().
  template <class T, class Deleter>
    requires std::is_base_of_v<header, T> && std::is_empty_v<Deleter>
  void retire(T* block, Deleter) noexcept {
    static_cast<retired*>(block)->how_.write(&disposers<T>::template deleted_by<Deleter>::how);
    domain_->note_origin(*block);
    domain_->retire(*cell_, block);
  }

  /// Retires any object, to be ended by `deleter(object)`. Throws std::bad_alloc, or what moving
  /// the deleter throws; then nothing was retired and the object is still the caller's. See
  /// domain::garbage_bound() for what waits.
  template <class T, class Deleter = std::default_delete<T>>
    requires(!std::is_base_of_v<header, T> || !std::is_empty_v<Deleter>)
  void retire(T* object, Deleter deleter = {}) {
    using box = boxed<T, Deleter>;
    void* const place = domain_->memory_.allocate(sizeof(box), alignof(box));
    box* made;
    try {
      made = ::new (place) box(object, std::move(deleter));
    } catch (...) {
      domain_->memory_.deallocate(place, sizeof(box), alignof(box));
      throw;
    }
    static_cast<retired*>(made)->how_.write(&box::how);
    domain_->note_origin(*made);
    cell_->made.add(1);
    domain_->retire(*cell_, made);
  }

 private:
  friend class domain;

  SPOLIA_ALWAYS_INLINE guard(domain& d, cell& c) : domain_(&d), cell_(&c) {
    d.begin_guard(c);
    if constexpr (noexcept(d.scheme_.open(c.local))) {
      hold_ = d.scheme_.open(c.local);
    } else {
      try {
        hold_ = d.scheme_.open(c.local);
      } catch (...) {
        d.end_guard(c);
        throw;
      }
    }
  }

  SPOLIA_ALWAYS_INLINE void finish() noexcept {
    if (domain_ == nullptr) [[unlikely]]
      return;
    if (SPOLIA_CHECKS && &domain_->my_cell() != cell_) {
      misuse::report("a guard ends on another thread than it began on", threads::number());
      return;
    }
    domain_->scheme_.close(cell_->local, hold_);
    domain_->end_guard(*cell_);
  }

  /// The constants that say how a T from make(), or with an empty deleter, ends.
  template <class T>
  struct disposers {
    static T* object(retired* r) noexcept { return static_cast<T*>(static_cast<header*>(r)); }
    static const void* address(const retired* r) noexcept {
      return static_cast<const T*>(static_cast<const header*>(r));
    }
    static void* destroy(retired* r) noexcept {
      T* const t = object(r);
      t->~T();
      return t;
    }
    template <class Deleter>
    static void dispose_with(retired* r) noexcept {
      Deleter{}(object(r));
    }
    SPOLIA_OWN_COPY static constexpr disposer made{nullptr, &address, &destroy, sizeof(T),
                                                   alignof(T)};
    template <class Deleter>
    struct deleted_by {
      SPOLIA_OWN_COPY static constexpr disposer how{&dispose_with<Deleter>, &address, nullptr,
                                                    sizeof(T), alignof(T)};
    };
  };

  /// What stands in for an object without a header.
  template <class T, class Deleter>
  struct boxed : header {
    boxed(T* o, Deleter d) : object(o), deleter(std::move(d)) {}

    static void* destroy(retired* r) noexcept {
      boxed* const self = static_cast<boxed*>(static_cast<header*>(r));
      self->deleter(self->object);
      self->~boxed();
      return self;
    }
    static const void* address(const retired* r) noexcept {
      return static_cast<const boxed*>(static_cast<const header*>(r))->object;
    }
    SPOLIA_OWN_COPY static constexpr disposer how{nullptr,       &address,       &destroy,
                                                  sizeof(boxed), alignof(boxed), sizeof(T)};

    T* object;
    [[no_unique_address]] Deleter deleter;
  };

  domain* domain_;
  cell* cell_;
  [[no_unique_address]] typename Scheme::hold hold_{};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

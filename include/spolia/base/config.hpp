// SPDX-License-Identifier: Apache-2.0
/// \file
/// Compile-time switches of the library and the few compiler-specific words that it needs.
///
/// There are three build variants of every header. They never mix in one program by accident,
/// because everything lives in an inline namespace that has the variant's name, and the version's:
///   native         the product: no checks that cost anything
///   checked        the same algorithms, with checks for misuse and what these have to remember
///                  (SPOLIA_CHECKS=1)
///   model_flavour  atomics, fences and memory belong to the model checker (SPOLIA_MODEL defined)
#pragma once

// Here, since each header of the library reads this one first: what is missing is said before the
// compiler stumbles over its consequences. A file that is not there ends the compilation, which an
// #error does not: hundreds of consequences would follow.
#if !defined(__cplusplus) || __cplusplus < 202002L
#error "Spolia needs C++20: compile with -std=c++20 or a later standard"
#include <see_the_error_above>
#elif defined(_WIN32)
#error "Spolia needs a POSIX system: it does not run on Windows"
#include <see_the_error_above>
#elif __SIZEOF_POINTER__ != 8
#error "Spolia needs a 64-bit target: pointers of 8 bytes"
#include <see_the_error_above>
#elif !defined(__cpp_exceptions)
#error "Spolia needs exceptions: compile without -fno-exceptions (-fno-rtti is supported)"
#include <see_the_error_above>
#endif

#include <cstddef>

#include <spolia/version.hpp>

#if !defined(SPOLIA_CHECKS)
#if defined(NDEBUG) && !defined(SPOLIA_MODEL)
#define SPOLIA_CHECKS 0
#else
#define SPOLIA_CHECKS 1
#endif
#endif

#if defined(SPOLIA_MODEL)
#define SPOLIA_FLAVOUR SPOLIA_NAME_OF_VERSION(model_flavour)
#elif SPOLIA_CHECKS
#define SPOLIA_FLAVOUR SPOLIA_NAME_OF_VERSION(checked)
#else
#define SPOLIA_FLAVOUR SPOLIA_NAME_OF_VERSION(native)
#endif

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPOLIA_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define SPOLIA_ASAN 1
#endif
#endif
#if !defined(SPOLIA_TSAN) && defined(__SANITIZE_THREAD__)
#define SPOLIA_TSAN 1
#endif
#if !defined(SPOLIA_ASAN) && defined(__SANITIZE_ADDRESS__)
#define SPOLIA_ASAN 1
#endif
#if !defined(SPOLIA_TSAN)
#define SPOLIA_TSAN 0
#endif
#if !defined(SPOLIA_ASAN)
#define SPOLIA_ASAN 0
#endif

/// Atomics tell valgrind's helgrind what they order: see told_atomic.hpp. The same for the
/// program and the library.
#if !defined(SPOLIA_VALGRIND)
#define SPOLIA_VALGRIND 0
#endif

#define SPOLIA_NOINLINE [[gnu::noinline]]
#define SPOLIA_ALWAYS_INLINE [[gnu::always_inline]] inline
/// Of a parameter: what is made refers to it. clang warns where it is kept longer than that.
#if defined(__clang__)
#define SPOLIA_REFERRED_TO [[clang::lifetimebound]]
#else
#define SPOLIA_REFERRED_TO
#endif

/// SPOLIA_FAULT("scheme.what") is true when the model checker has that planted fault switched on.
/// In the other build variants it is the constant false, so `if (!SPOLIA_FAULT("hp.no_fence"))`
/// costs nothing there. Tests assert that each planted fault is found: that is how we know that the
/// checks can fail at all.
#if defined(SPOLIA_MODEL)
#include <spolia/model/fault.hpp>
#define SPOLIA_FAULT(name) (::spolia::model::fault_active(::spolia::model::fault_hash(name)))
#else
#define SPOLIA_FAULT(name) false
#endif

namespace spolia::inline SPOLIA_FLAVOUR {

/// `p`, which is not null by what the caller has promised or knows. Compilers that warn of null
/// pointers, in a user's program, are told so by it.
template <class T>
[[nodiscard]] SPOLIA_ALWAYS_INLINE T* not_null(T* p) noexcept {
  if (p == nullptr) __builtin_unreachable();
  return p;
}

/// The distance that keeps two objects from slowing each other down. Two cache lines, because the
/// prefetchers of common x86 and ARM cores fetch lines in pairs.
inline constexpr std::size_t cache_line = 128;

/// Tells the processor that this thread is in a spin loop. Algorithms call spin_wait() from
/// backoff.hpp instead, which the model checker can see.
SPOLIA_ALWAYS_INLINE void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` is a no-op on most cores; isb really waits a little
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the base headers call in the model build variant. Tests include engine.hpp instead.
///
/// Outside an execution (static construction, a test's own code) every call here acts on the bare
/// object, as one thread would.
#pragma once

#if !defined(SPOLIA_MODEL)
#error "the model checker needs SPOLIA_MODEL defined for every file of the program"
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace spolia::model {

/// At most this many scenario threads.
inline constexpr std::uint32_t max_threads = 8;

/// When and by whom a watched object was constructed, and where the engine keeps its history.
/// Numbers of executions start at 1, so a zeroed tie means "older than every execution".
struct tie {
  std::uint32_t registered_in = 0;  // the execution that `index` is valid in
  std::uint32_t index = 0;
  std::uint32_t made_in = 0;
  std::uint32_t birth = 0;  // the maker's clock and number, see engine internals
};

/// The state of one atomic object. The engine keeps a list of stores per object from its first
/// access in an execution on; `initial` is the value before those. An object that is older than the
/// execution (a global) therefore starts every execution with the value that it was made with.
struct atomic_cell {
  std::uint64_t initial = 0;
  mutable tie engine{};
};

enum class arithmetic : std::uint8_t { add, sub, bit_or, bit_and };

/// Marks a watched object as constructed now, by the current thread.
void born(tie& object) noexcept;

std::uint64_t load(const atomic_cell& cell, std::memory_order order) noexcept;
void store(atomic_cell& cell, std::uint64_t value, std::memory_order order) noexcept;
std::uint64_t exchange(atomic_cell& cell, std::uint64_t value, std::memory_order order) noexcept;
bool compare_exchange(atomic_cell& cell, std::uint64_t& expected, std::uint64_t desired,
                      std::memory_order success, std::memory_order failure, bool weak) noexcept;
/// `mask` has the bits of the object's type.
std::uint64_t fetch(atomic_cell& cell, arithmetic what, std::uint64_t operand, std::uint64_t mask,
                    std::memory_order order) noexcept;

void plain_read(tie& object, const void* address) noexcept;
void plain_write(tie& object, const void* address) noexcept;

void fence_light() noexcept;
void fence_heavy() noexcept;
void fence_full() noexcept;
/// Only for the engine's own tests: the library never carries happens-before by a fence.
void fence_acquire() noexcept;
void fence_release() noexcept;

void spin_wait() noexcept;

[[nodiscard]] void* allocate(std::size_t bytes, std::size_t align);
void deallocate(void* block, std::size_t bytes, std::size_t align) noexcept;
void note_access(const void* address) noexcept;

/// The number of the calling thread: scenario threads have 0, 1, 2, ... in the order of
/// scenario::thread calls; set-up and finally use number 0 too (see engine.hpp). 0 outside.
std::uint32_t current_thread() noexcept;

/// How many thread numbers are in use: the number of scenario threads (in set-up: so far), at least
/// 1. Scans over per-thread cells stop here; each further cell would multiply the executions.
std::uint32_t thread_count() noexcept;

/// Fails the execution if `condition` is false; does not return then.
void check(bool condition, const char* what);

/// A scheduling point without an operation.
void yield();

/// Runs `hook(argument)` on the calling thread when its body has returned; hooks run in the
/// reverse order of registration, and may use atomics, spin and register further hooks.
void at_thread_exit(void (*hook)(void*), void* argument);

/// Sends a signal: `handler` runs once on thread `thread`, on its own stack, before one of its next
/// operations; which one is explored, but it is never lost: at the latest it runs when no thread
/// can go on without it, or when the thread's body or its exit hooks return. The same handler is
/// pending at most once per thread, and it orders nothing by itself. The handler may siglongjmp to
/// a frame of its own thread (use sigsetjmp(buffer, 0), and build without _FORTIFY_SOURCE);
/// therefore handlers are not blocked while one runs, as with SA_NODEFER. Without effect on a
/// thread that has ended. Itself a scheduling point.
void signal(std::uint32_t thread, void (*handler)());

}  // namespace spolia::model

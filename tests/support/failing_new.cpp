// SPDX-License-Identifier: Apache-2.0
// failing_new.cpp: the replacements of global operator new and delete. Link it as an object file,
// not from an archive. All forms are replaced, because the sanitizers bring their own of those that
// are not, which would then neither fail nor be counted.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>

#include "support/faults.hpp"

namespace spolia::test {
namespace {

// Trivial, so that it can be used before and after everything else in the thread's life.
struct plan {
  std::uint64_t countdown;  // 0: no fault is planned
  std::uint64_t attempts;
  failing how;
  bool active;
  bool fired;
};
constinit thread_local plan here{};
constinit thread_local const std::function<void()>* before = nullptr;
constinit std::atomic<std::int64_t> live{0};
constinit std::atomic<std::int64_t> live_bytes{0};
constinit std::atomic<std::int64_t> peak_bytes{0};

void count(void* block) noexcept {
  live.fetch_add(1, std::memory_order_relaxed);
  const auto bytes = static_cast<std::int64_t>(::malloc_usable_size(block));
  const std::int64_t now = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (peak < now && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void call_before() {
  const auto* const f = std::exchange(before, nullptr);
  if (f == nullptr) return;
  (*f)();
  before = f;
}

bool must_fail() noexcept {
  ++here.attempts;
  if (!here.active) return false;
  if (here.countdown > 1) {
    --here.countdown;
    return false;
  }
  if (here.fired && here.how == failing::once) return false;
  here.fired = true;
  return true;
}

void* obtain(std::size_t bytes, std::size_t align) noexcept {
  bytes = std::max<std::size_t>(bytes, 1);
  if (align <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(bytes);
  void* block = nullptr;
  return posix_memalign(&block, align, bytes) == 0 ? block : nullptr;
}

void* try_allocate(std::size_t bytes, std::size_t align) {
  call_before();
  if (must_fail()) return nullptr;
  for (;;) {
    if (void* block = obtain(bytes, align)) {
      count(block);
      return block;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) return nullptr;
    handler();
  }
}

void* allocate(std::size_t bytes, std::size_t align) {
  if (void* block = try_allocate(bytes, align)) return block;
  throw std::bad_alloc();
}

void* allocate_or_null(std::size_t bytes, std::size_t align) noexcept {
  try {
    return try_allocate(bytes, align);
  } catch (const std::bad_alloc&) {  // a new handler may throw it
    return nullptr;
  }
}

void release(void* block) noexcept {
  if (block == nullptr) return;
  live.fetch_sub(1, std::memory_order_relaxed);
  live_bytes.fetch_sub(static_cast<std::int64_t>(::malloc_usable_size(block)),
                       std::memory_order_relaxed);
  std::free(block);
}

constexpr std::size_t usual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

fail_after::fail_after(std::uint64_t n, failing how) {
  if (here.active) throw std::logic_error("fail_after does not nest");
  if (n == 0) throw std::invalid_argument("allocations are counted from 1");
  here = {n, here.attempts, how, true, false};
}

fail_after::~fail_after() { here.active = false; }

bool fail_after::fired() const noexcept { return here.fired; }

before_allocations::before_allocations(std::function<void()> f) : f_(std::move(f)) {
  if (before != nullptr) throw std::logic_error("before_allocations does not nest");
  before = &f_;
}

before_allocations::~before_allocations() { before = nullptr; }

std::int64_t live_allocations() noexcept { return live.load(std::memory_order_relaxed); }

std::uint64_t thread_allocations() noexcept { return here.attempts; }

bytes_taken::bytes_taken() noexcept : before_(live_bytes.load(std::memory_order_relaxed)) {
  peak_bytes.store(before_, std::memory_order_relaxed);
}
std::int64_t bytes_taken::most() const noexcept {
  return peak_bytes.load(std::memory_order_relaxed) - before_;
}

}  // namespace spolia::test

using spolia::test::allocate;
using spolia::test::allocate_or_null;
using spolia::test::release;
using spolia::test::usual;

namespace {
std::size_t of(std::align_val_t align) noexcept { return static_cast<std::size_t>(align); }
}  // namespace

void* operator new(std::size_t n) { return allocate(n, usual); }
void* operator new[](std::size_t n) { return allocate(n, usual); }
void* operator new(std::size_t n, std::align_val_t a) { return allocate(n, of(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return allocate(n, of(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return allocate_or_null(n, usual);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return allocate_or_null(n, usual);
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate_or_null(n, of(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate_or_null(n, of(a));
}

void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that know whether they are alive, and the book that counts them.
///
///     ledger book;
///     auto* node = new tracked(book, 42);
///     node->read();                       // 42; aborts if the object is gone
///     node->note_retired();               // before handing it to a reclamation scheme
///     EXPECT_LE(book.peak_limbo(), most);
///     book.expect_empty();                // at the end: all that was made was destroyed, once
///
/// The canary and the payload are ordinary memory on purpose: if a destructor is not ordered
/// after the last reader, the race detector reports it, which an atomic canary would hide.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace spolia::test {

/// Counts objects. Thread-safe; the figures are exact once the threads that changed them were
/// joined. Must outlive its objects.
class ledger {
 public:
  ledger() = default;
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  [[nodiscard]] std::int64_t made() const noexcept { return get(made_); }  ///< copies, moves too
  [[nodiscard]] std::int64_t copied() const noexcept { return get(copied_); }
  [[nodiscard]] std::int64_t moved() const noexcept { return get(moved_); }
  [[nodiscard]] std::int64_t retired() const noexcept { return get(retired_); }
  [[nodiscard]] std::int64_t destroyed() const noexcept { return get(destroyed_); }
  /// Made and not yet destroyed, now and at most.
  [[nodiscard]] std::int64_t live() const noexcept { return get(live_); }
  [[nodiscard]] std::int64_t peak_live() const noexcept { return get(peak_live_); }
  /// Retired and not yet destroyed, now and at most: what a scheme's bound is about.
  [[nodiscard]] std::int64_t limbo() const noexcept { return get(limbo_); }
  [[nodiscard]] std::int64_t peak_limbo() const noexcept { return get(peak_limbo_); }

  /// The peaks start again from what is there now.
  void reset_peaks() noexcept {
    peak_live_.store(live(), std::memory_order_relaxed);
    peak_limbo_.store(limbo(), std::memory_order_relaxed);
  }

  void expect_empty() const {
    EXPECT_EQ(live(), 0) << made() << " objects were made, " << destroyed() << " destroyed";
    EXPECT_EQ(limbo(), 0) << retired() << " objects were retired";
  }

 private:
  template <std::size_t, std::size_t>
  friend class basic_tracked;

  using count = std::atomic<std::int64_t>;

  static std::int64_t get(const count& c) noexcept { return c.load(std::memory_order_relaxed); }
  static std::int64_t add(count& c, std::int64_t n) noexcept {
    return c.fetch_add(n, std::memory_order_relaxed) + n;
  }
  static void grow(count& now, count& peak) noexcept {
    const std::int64_t value = add(now, 1);
    std::int64_t highest = get(peak);
    while (highest < value &&
           !peak.compare_exchange_weak(highest, value, std::memory_order_relaxed)) {
    }
  }

  void note_made() noexcept {
    add(made_, 1);
    grow(live_, peak_live_);
  }
  void note_copied() noexcept { add(copied_, 1); }
  void note_moved() noexcept { add(moved_, 1); }
  void note_retired() noexcept {
    add(retired_, 1);
    grow(limbo_, peak_limbo_);
  }
  void note_destroyed(bool was_retired) noexcept {
    add(destroyed_, 1);
    add(live_, -1);
    if (was_retired) add(limbo_, -1);
  }

  count made_{0};
  count copied_{0};
  count moved_{0};
  count retired_{0};
  count destroyed_{0};
  count live_{0};
  count peak_live_{0};
  count limbo_{0};
  count peak_limbo_{0};
};

/// A value of 64 bits in an object of at least `Bytes` bytes, aligned to `Align`. All misuse
/// aborts with a message that begins with "tracked:". A regular type as far as C++ allows: copies
/// count, moved-from objects may only be assigned to or destroyed; ordered and hashed by value.
/// Like any object, one that is read while another thread assigns to it is a data race.
template <std::size_t Bytes, std::size_t Align>
class alignas(Align) basic_tracked {
 public:
  explicit basic_tracked(ledger& book, std::uint64_t value = 0) noexcept
      : canary_(alive), value_(value), book_(&book) {
    check_alignment();
    fill(value);
    book_->note_made();
  }
  basic_tracked(const basic_tracked& other) noexcept : basic_tracked(*other.book_, other.read()) {
    book_->note_copied();
  }
  basic_tracked(basic_tracked&& other) noexcept : basic_tracked(*other.book_, other.read()) {
    book_->note_moved();
    other.canary_ = moved_from;
  }
  basic_tracked& operator=(const basic_tracked& other) noexcept {
    assign(other.read());
    book_->note_copied();
    return *this;
  }
  basic_tracked& operator=(basic_tracked&& other) noexcept {
    if (this == &other) return *this;
    assign(other.read());
    book_->note_moved();
    other.canary_ = moved_from;
    return *this;
  }
  ~basic_tracked() {
    require_existence("destroyed");
    const bool was_retired = retired_.load(std::memory_order_relaxed);
    ledger& book = *book_;
    // Volatile, or the compiler may drop stores to an object that is about to end.
    canary_ = destroyed;
    value_ = destroyed;
    fill(destroyed);
    book.note_destroyed(was_retired);
  }

  /// The value. Aborts if the object was destroyed, moved from, or overwritten.
  [[nodiscard]] std::uint64_t read() const noexcept {
    require_existence("read");
    if (canary_ == moved_from) fail("read", "moved from");
    const std::uint64_t value = value_;
    if constexpr (extra_words > 0) {
      if (filler_.front() != value || filler_.back() != value) fail("read", "overwritten");
    }
    return value;
  }

  /// To be called when the object is handed to a reclamation scheme; aborts the second time.
  void note_retired() noexcept {
    require_existence("retired");
    if (retired_.exchange(true, std::memory_order_relaxed)) fail("retired", "already retired");
    book_->note_retired();
  }

  friend bool operator==(const basic_tracked& a, const basic_tracked& b) noexcept {
    return a.read() == b.read();
  }
  friend std::strong_ordering operator<=>(const basic_tracked& a, const basic_tracked& b) noexcept {
    return a.read() <=> b.read();
  }

 private:
  static constexpr std::uint64_t alive = 0x5b0117a11e70b1ecU;
  static constexpr std::uint64_t moved_from = 0x3017ed0a3017ed0aU;
  static constexpr std::uint64_t destroyed = 0xdeadc0dedeadc0deU;
  static constexpr std::size_t extra_words = Bytes <= 32 ? 0 : (Bytes - 32) / sizeof(std::uint64_t);

  void assign(std::uint64_t value) noexcept {
    require_existence("assigned to");
    canary_ = alive;
    value_ = value;
    fill(value);
  }

  void fill([[maybe_unused]] std::uint64_t pattern) noexcept {
    for (auto& word : filler_) word = pattern;
  }

  void check_alignment() const noexcept {
    auto address = reinterpret_cast<std::uintptr_t>(this);
    asm volatile("" : "+r"(address));  // or the compiler takes the answer for granted
    if (address % Align != 0) fail("made", "not aligned");
  }

  void require_existence(const char* what) const noexcept {
    const std::uint64_t seen = canary_;
    if (seen == alive || seen == moved_from) return;
    fail(what, seen == destroyed ? "already destroyed" : "overwritten, or its memory used again");
  }

  [[noreturn]] void fail(const char* what, const char* state) const noexcept {
    std::fprintf(stderr, "tracked: object %p is %s, but it is %s\n", static_cast<const void*>(this),
                 what, state);
    std::abort();
  }

  volatile std::uint64_t canary_;
  volatile std::uint64_t value_;
  ledger* book_;
  std::atomic<bool> retired_{false};
  std::array<volatile std::uint64_t, extra_words> filler_;
};

using tracked = basic_tracked<0, alignof(std::max_align_t)>;
using tracked_overaligned = basic_tracked<0, 256>;
using tracked_big = basic_tracked<4096, alignof(std::max_align_t)>;

}  // namespace spolia::test

template <std::size_t Bytes, std::size_t Align>
struct std::hash<spolia::test::basic_tracked<Bytes, Align>> {
  std::size_t operator()(const spolia::test::basic_tracked<Bytes, Align>& t) const noexcept {
    return std::hash<std::uint64_t>()(t.read());
  }
};

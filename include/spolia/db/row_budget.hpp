// SPDX-License-Identifier: Apache-2.0
// row_budget.hpp: the memory of all rows of a database, and of their out-of-line values.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class row_budget {
 public:
  /// Thrown inside; a transaction makes outcome::limit of it.
  struct exceeded {};

  /// 0: no limit.
  void limit(std::uint64_t bytes) noexcept { limit_.store_relaxed(bytes); }
  /// `beside` bytes are in use for something else. Throws exceeded.
  void take(std::uint64_t bytes, std::uint64_t beside) {
    const std::uint64_t most = limit_.load_relaxed();
    std::uint64_t used = used_.load_relaxed();
    do {
      if (most != 0 && used + bytes + beside > most) throw exceeded();
    } while (!used_.cas_weak_relaxed(used, used + bytes));
  }
  void give(std::uint64_t bytes) noexcept { used_.fetch_sub_relaxed(bytes); }
  /// Whether what is in use, and `beside`, are more than the limit.
  [[nodiscard]] bool over(std::uint64_t beside) const noexcept {
    return limited() && used_.load_relaxed() + beside > limit_.load_relaxed();
  }
  [[nodiscard]] bool limited() const noexcept { return limit_.load_relaxed() != 0; }

 private:
  atomic<std::uint64_t> limit_{0};
  atomic<std::uint64_t> used_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

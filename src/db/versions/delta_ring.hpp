// SPDX-License-Identifier: Apache-2.0
// delta_ring.hpp: the partitions of a one-shot storage, which only become more.
#pragma once

#include <array>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

#include "db/versions/delta_partition.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_ring {
 public:
  delta_ring() = default;
  delta_ring(const delta_ring&) = delete;
  delta_ring& operator=(const delta_ring&) = delete;
  ~delta_ring() {
    for (std::uint32_t i = 0; i < count_.load_relaxed(); ++i) delete ring_[i].load_relaxed();
  }

  /// By one at a time. Throws std::bad_alloc.
  delta_partition* add(delta_chunks& memory) {
    const std::uint32_t n = count_.load_relaxed();
    auto* const made = new delta_partition(n, memory);
    // release → the acquire in at(): who has a handle into it sees it constructed.
    ring_[n].store_release(made);
    // release → the acquire in count().
    count_.store_release(n + 1);
    return made;
  }
  [[nodiscard]] delta_partition& at(std::uint32_t n) const noexcept {
    // acquire ← the release in add(): we see it constructed.
    return *ring_[n].load_acquire();
  }
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load_acquire();  // ← the release in add(): they are all there
  }
  /// The one so many places behind it.
  [[nodiscard]] delta_partition& behind(const delta_partition& p, std::uint32_t i) const noexcept {
    return at((p.number + i) % count());
  }

 private:
  std::array<atomic<delta_partition*>, tagged::partitions> ring_{};
  atomic<std::uint32_t> count_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

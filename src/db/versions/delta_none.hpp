// SPDX-License-Identifier: Apache-2.0
// delta_none.hpp: versions are made and never let go: the yardstick of what collecting costs.
//
// Source:      NoGC of Raza et al., SIGMOD 2023, section 1 (Figure 2).
// Cost:        a bump of a pointer for each version. Bound: none; all goes when the database does.
// Handles:     addresses.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/version_storage.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_none final : public delta {
 public:
  static constexpr version_storage_info info{.storage = version_storage::none, .name = "none"};

  explicit delta_none(commit_board& board) : board_(board) {}

  ~delta_none() override {
    for (chunk* c = chunks_.load_relaxed(); c != nullptr;) {
      chunk* const older = c->older;
      memory::deallocate(c, c->bytes, alignof(chunk));
      c = older;
    }
  }

  bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) override {
    if (most != 0 && bytes_.load_relaxed() > most) return false;
    local& me = locals_.of(writer);
    for (ask& a : asks) {
      const std::size_t need = version::bytes(a.words);
      if (need > me.left && !refill(me, need, most)) return false;
      a.place = version::make(me.next);
      a.handle = std::bit_cast<std::uintptr_t>(a.place);
      me.next += need;
      me.left -= need;
    }
    me.made.add(asks.size());
    return true;
  }
  void published(std::uint32_t, std::uint64_t) noexcept override {}
  void cancel(std::uint32_t) noexcept override {}
  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t /*row*/,
                                    std::uint64_t time,
                                    const taking_back* on_the_way) const override {
    return walk(chain, time, on_the_way, lengths_, [](std::uint64_t h) {
      return reinterpret_cast<const version*>(static_cast<std::uintptr_t>(h));
    });
  }
  void collect() noexcept override {}

 private:
  [[nodiscard]] delta_stats figures() const noexcept override {
    delta_stats sum;
    board_.for_each(locals_, [&](const local& l) { sum.versions_made += l.made.value(); });
    sum.bytes = bytes_.load_relaxed();
    return sum;
  }

  static constexpr std::size_t chunk_bytes = std::size_t{1} << 18U;

  struct alignas(std::max_align_t) chunk {
    chunk* older;
    std::size_t bytes;
  };
  struct alignas(cache_line) local {
    std::byte* next = nullptr;
    std::size_t left = 0;
    tally made;
  };

  bool refill(local& me, std::size_t need, std::uint64_t most) {
    const std::size_t bytes = (std::max)(chunk_bytes, need + sizeof(chunk));
    if (most != 0 && bytes_.load_relaxed() + bytes > most) return false;
    auto* const c = static_cast<chunk*>(memory::allocate(bytes, alignof(chunk)));
    bytes_.fetch_add_relaxed(bytes);
    c->bytes = bytes;
    c->older = chunks_.load_relaxed();
    // Only the destructor goes through the list.
    while (!chunks_.cas_weak_relaxed(c->older, c)) {
    }
    me.next = reinterpret_cast<std::byte*>(c + 1);
    me.left = bytes - sizeof(chunk);
    return true;
  }

  commit_board& board_;
  cells<local> locals_;
  atomic<chunk*> chunks_{nullptr};
  atomic<std::uint64_t> bytes_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

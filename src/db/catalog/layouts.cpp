// SPDX-License-Identifier: Apache-2.0
// layouts.cpp: numbers for what tables look like.
#include "db/catalog/layouts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/entropy.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

__extension__ using wide = unsigned __int128;

/// What is kept of a layout: the values of two polynomials, whose coefficients are what the layout
/// says, at points that the process draws. Of two layouts with n bytes each, whatever they say, the
/// two values are the same with a probability of (n / 7)^2 in 2^122 at most.
struct digest {
  std::uint64_t one = 0;
  std::uint64_t two = 0;
  bool operator==(const digest&) const noexcept = default;
};

/// A polynomial modulo the prime 2^61 - 1.
class polynomial {
 public:
  explicit polynomial(std::uint64_t at) noexcept : at_(at % prime) {}
  /// A coefficient below 2^57.
  void add(std::uint64_t next) noexcept {
    value_ = static_cast<std::uint64_t>(wide{value_ + next + 1} * at_ % prime);
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  static constexpr std::uint64_t prime = (std::uint64_t{1} << 61U) - 1;
  const std::uint64_t at_;
  std::uint64_t value_ = 0;
};

digest digest_of(std::string_view all) {
  static const std::array<std::uint64_t, 2> points = [] {
    const std::uint64_t one = core::random_bits();
    return std::array<std::uint64_t, 2>{one, core::random_bits()};
  }();
  constexpr std::size_t at_once = 7;  // bytes
  polynomial one(points[0]);
  polynomial two(points[1]);
  const auto add = [&](std::uint64_t next) {
    one.add(next);
    two.add(next);
  };
  add(all.size());
  for (std::size_t from = 0; from < all.size(); from += at_once) {
    std::uint64_t next = 0;
    std::memcpy(&next, all.data() + from, std::min(at_once, all.size() - from));
    add(next);
  }
  return {one.value(), two.value()};
}

/// A node of a binary tree, in which the bits of the digest say where to go.
struct known_layout {
  digest of;
  std::uint32_t number = 0;
  std::array<std::atomic<known_layout*>, 2> below{};
};

/// Nodes that lie together: each on its own would keep a page of what its table has given back.
struct layout_block {
  std::atomic<std::uint32_t> used{0};
  std::array<known_layout, 85> nodes;  // of 4 KiB
};

// They only grow: without a lock, so that no fork can leave one taken. Of the process, not of what
// the checker looks at.
constexpr std::size_t layout_parts = 8192;
constinit std::array<std::atomic<known_layout*>, layout_parts> known_layouts{};
constinit std::atomic<layout_block*> layout_room{nullptr};
constinit std::atomic<std::uint64_t> numbers_given{0};

known_layout& new_layout() {
  for (;;) {
    // acquire ← the release below: the block is made.
    layout_block* in = layout_room.load(std::memory_order_acquire);
    if (in != nullptr) {
      const std::uint32_t n = in->used.fetch_add(1, std::memory_order_relaxed);
      if (n < in->nodes.size()) return in->nodes[n];
    }
    auto made = std::make_unique<layout_block>();
    // release → the acquire above.
    if (layout_room.compare_exchange_strong(in, made.get(), std::memory_order_release,
                                            std::memory_order_relaxed)) {
      (void)made.release();  // full blocks are reached by their nodes
    }
  }
}

std::string written_down(const table_spec& spec) {
  std::string all;
  const auto put = [&all](std::uint64_t n) { all += std::to_string(n) + ','; };
  const auto put_name = [&](std::string_view name) {
    put(name.size());
    all += name;
  };
  for (const column_spec& c : spec.columns) {
    put_name(c.name);
    put(static_cast<std::uint64_t>(c.type.base));
    put(c.type.bytes);
    put(c.type.digits);
    put(static_cast<std::uint64_t>(c.role));
  }
  return all;
}

std::uint32_t next_number() {
  const std::uint64_t n = numbers_given.fetch_add(1, std::memory_order_relaxed) + 1;
  if (n > std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error("spolia::db: there were too many different tables");
  }
  return static_cast<std::uint32_t>(n);
}

}  // namespace

std::uint32_t layout_number(const table_spec& spec) {
  const digest wanted = digest_of(written_down(spec));
  known_layout* made = nullptr;
  std::atomic<known_layout*>* at = &known_layouts[wanted.one % layout_parts];
  std::uint64_t way = wanted.two;
  for (;;) {
    // acquire ← the release below: what its maker has written down.
    known_layout* there = at->load(std::memory_order_acquire);
    if (there == nullptr) {
      if (made == nullptr) {
        made = &new_layout();
        made->of = wanted;
        made->number = next_number();
      }
      // release → the acquires above and here, of threads that look for one later. acquire ← the
      // release here, of the thread that was faster.
      if (at->compare_exchange_strong(there, made, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
        return made->number;
      }
    }
    if (there->of == wanted) return there->number;
    at = &there->below[way & 1U];
    way >>= 1U;
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

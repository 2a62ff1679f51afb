// SPDX-License-Identifier: Apache-2.0
// Views (how far along each location's list of stores a thread must be) and vector clocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <spolia/model/engine.hpp>

namespace spolia::model {

// Position of a store in its location's list. 16 bits, because joining views is the hot loop.
using position = std::int16_t;

inline constexpr std::size_t max_locations = 2048;
inline constexpr std::size_t max_stores = 32000;
// Views are processed in groups of this many positions, one vector register.
inline constexpr std::size_t view_group = 8;

constexpr std::size_t whole_groups(std::size_t locations) {
  return (locations + view_group - 1) / view_group * view_group;
}

inline void join_positions(position* into, const position* from, std::size_t count) {
  for (std::size_t i = 0; i < count; i += view_group) {
    for (std::size_t k = 0; k < view_group; ++k) {
      into[i + k] = std::max(into[i + k], from[i + k]);
    }
  }
}

// A view stored with a message: a stretch of the pool. Locations beyond its length are at 0.
struct view_slice {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

class view_pool {
 public:
  void clear() { used_ = 0; }

  position* take(std::size_t length, view_slice& slice) {
    if (used_ + length > words_.size()) words_.resize(2 * (used_ + length) + 4096);
    slice = {static_cast<std::uint32_t>(used_), static_cast<std::uint32_t>(length)};
    used_ += length;
    return words_.data() + slice.offset;
  }

  const position* at(view_slice slice) const { return words_.data() + slice.offset; }

 private:
  std::vector<position> words_;
  std::size_t used_ = 0;
};

// A full view. `size` arguments are the number of locations in use, in whole groups.
class view {
 public:
  position operator[](std::size_t location) const { return at_[location]; }
  void raise(std::size_t location, position to) { at_[location] = std::max(at_[location], to); }
  void join(const view& other, std::size_t size) { join_positions(at_, other.at_, size); }
  void join(const view_pool& pool, view_slice slice) {
    join_positions(at_, pool.at(slice), slice.length);
  }
  void assign(const view& other, std::size_t size) {
    std::memcpy(at_, other.at_, size * sizeof(position));
  }
  void clear(std::size_t size) { std::memset(at_, 0, size * sizeof(position)); }
  const position* data() const { return at_; }

 private:
  alignas(16) position at_[max_locations] = {};
};

struct clock {
  std::array<std::uint32_t, max_threads> at{};

  void join(const clock& other) {
    for (std::size_t i = 0; i < max_threads; ++i) at[i] = std::max(at[i], other.at[i]);
  }
};

// One moment of one thread, packed; 0 is before everything.
class epoch {
 public:
  constexpr epoch() = default;
  constexpr epoch(std::uint32_t thread, std::uint32_t time) : bits_(time * max_threads + thread) {}
  static constexpr epoch from_bits(std::uint32_t bits) {
    epoch result;
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint32_t bits() const { return bits_; }
  constexpr std::uint32_t thread() const { return bits_ % max_threads; }
  constexpr bool happens_before(const clock& now) const {
    return bits_ / max_threads <= now.at[thread()];
  }

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace spolia::model

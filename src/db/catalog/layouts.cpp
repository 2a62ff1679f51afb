// SPDX-License-Identifier: Apache-2.0
// layouts.cpp: numbers for what tables look like.
#include "db/catalog/layouts.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

struct known_layout {
  std::string all;
  std::uint32_t number = 0;
  known_layout* next = nullptr;
};

// They only grow: without a lock, so that no fork can leave one taken. Of the process, not of what
// the checker looks at.
constexpr std::size_t layout_parts = 8192;
constinit std::array<std::atomic<known_layout*>, layout_parts> known_layouts{};
constinit std::atomic<std::uint64_t> numbers{0};

std::string written_down(const table_spec& spec) {
  std::string all;
  const auto put = [&all](std::uint64_t n) { all += std::to_string(n) + ','; };
  const auto put_name = [&](std::string_view name) {
    put(name.size());
    all += name;
  };
  put_name(spec.name);
  for (const column_spec& c : spec.columns) {
    put_name(c.name);
    put(static_cast<std::uint64_t>(c.type.base));
    put(c.type.bytes);
    put(c.type.digits);
    put(static_cast<std::uint64_t>(c.role));
  }
  return all;
}

/// From there on, but not from `end` on.
const known_layout* look_for(std::string_view all, const known_layout* from,
                             const known_layout* end) noexcept {
  while (from != end && from->all != all) from = from->next;
  return from == end ? nullptr : from;
}

std::uint32_t next_number() {
  const std::uint64_t n = numbers.fetch_add(1, std::memory_order_relaxed) + 1;
  if (n > std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error("spolia::db: there were too many different tables");
  }
  return static_cast<std::uint32_t>(n);
}

}  // namespace

std::uint32_t layout_number(const table_spec& spec) {
  auto made = std::make_unique<known_layout>();
  made->all = written_down(spec);
  std::atomic<known_layout*>& first =
      known_layouts[std::hash<std::string_view>()(made->all) % layout_parts];
  const known_layout* looked_at = nullptr;
  // acquire ← the release below: what its maker has written down.
  for (known_layout* now = first.load(std::memory_order_acquire);;) {
    if (const known_layout* const found = look_for(made->all, now, looked_at)) {
      return found->number;
    }
    looked_at = now;
    if (made->number == 0) made->number = next_number();
    made->next = now;
    // release → the acquires above and here, of threads that look for one later. acquire ← the
    // release here, of the thread that was faster.
    if (first.compare_exchange_strong(now, made.get(), std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      return made.release()->number;
    }
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

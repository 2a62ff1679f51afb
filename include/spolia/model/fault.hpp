// SPDX-License-Identifier: Apache-2.0
/// \file
/// Planted faults: named places where an algorithm goes wrong on purpose while the model checker
/// has that name switched on (options::fault). At most one is on at a time.
#pragma once

#include <cstdint>

namespace spolia::model {

/// The hash of the fault that is switched on now; 0 means none. Only explore() changes it.
extern constinit std::uint64_t active_fault;

/// FNV-1a, so that asking costs one comparison of two words.
constexpr std::uint64_t fault_hash(const char* name) noexcept {
  std::uint64_t hash = 14695981039346656037ull;
  for (; *name != '\0'; ++name) {
    hash = (hash ^ static_cast<unsigned char>(*name)) * 1099511628211ull;
  }
  return hash;
}

inline bool fault_active(std::uint64_t hash) noexcept { return active_fault == hash; }

/// True if the exploration that runs now has this fault switched on.
inline bool fault(const char* name) noexcept { return fault_active(fault_hash(name)); }

}  // namespace spolia::model

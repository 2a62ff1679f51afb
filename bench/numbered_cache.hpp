// SPDX-License-Identifier: Apache-2.0
// numbered_cache.hpp: caches of strings as sets of numbers, which is what trials work on: a number
// is there if the cache has a value of 64 bytes under its digits.
#pragma once

#include <spolia/rlu/domain.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "examples/rlu_cache.hpp"

namespace bench {

/// Cache has set(key, value), true if the key is new; get(key), an optional string; erase(key).
template <class Cache>
class numbered_cache {
 public:
  template <class... Arguments>
  explicit numbered_cache(Arguments&&... arguments)
      : cache_(std::forward<Arguments>(arguments)...) {}

  bool insert(std::uint64_t key, std::uint64_t = 0) {
    return cache_.set(std::to_string(key), std::string(value_bytes, letter(key)));
  }
  bool erase(std::uint64_t key) { return cache_.erase(std::to_string(key)); }
  bool contains(std::uint64_t key) {
    const std::optional<std::string> found = cache_.get(std::to_string(key));
    return found && found->size() == value_bytes && found->front() == letter(key);
  }

 private:
  static constexpr std::size_t value_bytes = 64;
  static char letter(std::uint64_t key) { return static_cast<char>('a' + key % 26); }

  Cache cache_;
};

/// The example, from which nothing has to go.
template <class Domain = spolia::rlu::domain>
struct numbered_rlu_cache : numbered_cache<example::basic_cache<Domain>> {
  using domain_type = Domain;
  numbered_rlu_cache(Domain& home, std::size_t buckets)
      : numbered_cache<example::basic_cache<Domain>>(home, buckets,
                                                     std::numeric_limits<std::uint32_t>::max()) {}
};

/// What one writes first.
class locked_cache {
 public:
  explicit locked_cache(std::size_t buckets) : values_(buckets) {}
  bool set(const std::string& key, std::string value) {
    const std::lock_guard hold(lock_);
    return values_.insert_or_assign(key, std::move(value)).second;
  }
  std::optional<std::string> get(const std::string& key) {
    const std::shared_lock hold(lock_);
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  bool erase(const std::string& key) {
    const std::lock_guard hold(lock_);
    return values_.erase(key) != 0;
  }

 private:
  std::shared_mutex lock_;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace bench

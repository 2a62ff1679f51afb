// SPDX-License-Identifier: Apache-2.0
// kept_pair.hpp: a key and its value as the immutable versions of a bucket keep them. Versions copy
// what they keep from the version before, so copying must be cheap and must not fail.
//
//   inline_pair   the two themselves, if copying them is copying bytes, and few of them
//   boxed_pair    a counted pointer to a block that holds them, for everything else: nothing of the
//                 user's is ever copied, so types that can only be moved will do
//
// Both: make(hash, key, value), key(), value(), has_hash(h) (false: the hashes differ for certain),
// hash_by(f) (the hash, by f(key) if it is not stored), extra_bytes (of a block beside the
// version), bytes_beside() (the same with what the two own; of what several versions hold each has
// its part), and copies that never fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value>
class inline_pair {
 public:
  static constexpr std::size_t extra_bytes = 0;
  [[nodiscard]] static constexpr std::size_t bytes_beside() noexcept { return 0; }

  template <class K, class V>
  static inline_pair make(std::uint64_t, K&& key, V&& value) {
    return inline_pair(std::forward<K>(key), std::forward<V>(value));
  }
  [[nodiscard]] const Key& key() const noexcept { return key_; }
  [[nodiscard]] const Value& value() const noexcept { return value_; }
  [[nodiscard]] static constexpr bool has_hash(std::uint64_t) noexcept { return true; }
  template <class F>
  [[nodiscard]] std::uint64_t hash_by(F&& f) const {
    return f(key_);
  }

 private:
  template <class K, class V>
  inline_pair(K&& key, V&& value)
      : key_(std::forward<K>(key)), value_(Value(std::forward<V>(value))) {}

  Key key_;
  Value value_;
};

template <class Key, class Value>
class boxed_pair {
  struct box {
    template <class K, class V>
    box(std::uint64_t h, K&& k, V&& v)
        : hash(h), key(std::forward<K>(k)), value(Value(std::forward<V>(v))) {
      if constexpr (!weightless<Key, Value>) {
        // relaxed: no other thread knows it.
        holders.store_relaxed(1 + weighing::code_of(weigh(key, value)) * one_code);
      }
    }
    /// In its upper bits the code of what key and value own.
    atomic<std::uint64_t> holders{1};
    const std::uint64_t hash;
    const Key key;
    const Value value;
  };

  static constexpr std::uint64_t one_code = std::uint64_t{1} << 48U;

 public:
  static constexpr std::size_t extra_bytes = sizeof(box);
  [[nodiscard]] std::size_t bytes_beside() const noexcept {
    const std::uint64_t seen = box_->holders.load_relaxed();
    const std::size_t all =
        sizeof(box) + weighing::bytes_of(static_cast<std::uint32_t>(seen / one_code));
    const std::uint64_t holders = seen % one_code;
    return holders == 1 ? all : all / holders;
  }

  /// Throws std::bad_alloc, or what making the key or the value throws. Nothing is moved from
  /// unless there was memory.
  template <class K, class V>
  static boxed_pair make(std::uint64_t hash, K&& key, V&& value) {
    void* const room = memory::allocate(sizeof(box), alignof(box));
    try {
      return boxed_pair(::new (room) box(hash, std::forward<K>(key), std::forward<V>(value)));
    } catch (...) {
      memory::deallocate(room, sizeof(box), alignof(box));
      throw;
    }
  }

  /// relaxed: a thread that copies has a version that holds the block, and hands the copy on in a
  /// version that is published by a release.
  boxed_pair(const boxed_pair& from) noexcept : box_(from.box_) {
    box_->holders.fetch_add_relaxed(1);
  }
  boxed_pair& operator=(const boxed_pair&) = delete;
  ~boxed_pair() {
    // acq_rel: what others did with the pair happens before its end, on whichever thread that is.
    if (box_->holders.fetch_sub_acq_rel(1) % one_code != 1) return;
    box_->~box();
    memory::deallocate(box_, sizeof(box), alignof(box));
  }

  [[nodiscard]] const Key& key() const noexcept { return box_->key; }
  [[nodiscard]] const Value& value() const noexcept { return box_->value; }
  [[nodiscard]] bool has_hash(std::uint64_t h) const noexcept { return box_->hash == h; }
  template <class F>
  [[nodiscard]] std::uint64_t hash_by(F&&) const noexcept {
    return box_->hash;
  }

 private:
  explicit boxed_pair(box* b) noexcept : box_(b) {}
  box* box_;
};

template <class T>
inline constexpr bool is_plain_bytes =
    std::is_trivially_copyable_v<T> && std::is_nothrow_copy_constructible_v<T> &&
    std::is_trivially_destructible_v<T>;

template <class Key, class Value>
using kept_pair =
    std::conditional_t<is_plain_bytes<Key> && is_plain_bytes<Value> &&
                           (sizeof(Key) + sizeof(Value) <= std::size_t{4} * sizeof(void*)),
                       inline_pair<Key, Value>, boxed_pair<Key, Value>>;

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

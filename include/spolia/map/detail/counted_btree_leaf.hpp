// SPDX-License-Identifier: Apache-2.0
// counted_btree_leaf.hpp: the leaves of B+ trees over counted pointers, and memory for things that
// come one by one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/map/detail/leaf_value.hpp>
#include <spolia/map/detail/seen_value.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Memory for so many; the owner says which of them there are.
template <class T, std::size_t Many>
class places {
 public:
  T* data() noexcept { return std::launder(reinterpret_cast<T*>(raw_)); }
  const T* data() const noexcept { return std::launder(reinterpret_cast<const T*>(raw_)); }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }

 private:
  alignas(T) std::byte raw_[sizeof(T) * Many];
};

/// The same, made for a number that is known later. One thread at a time adds to it; others may
/// look at what they were told of.
template <class T>
class room {
 public:
  explicit room(std::size_t most)
      : most_(most),
        at_(most == 0 ? nullptr : static_cast<T*>(memory::allocate(most * sizeof(T), alignof(T)))) {
  }
  room(const room&) = delete;
  room& operator=(const room&) = delete;
  ~room() {
    cut(0);
    if (at_ != nullptr) memory::deallocate(at_, most_ * sizeof(T), alignof(T));
  }

  template <class... Args>
  void add(Args&&... args) {
    std::construct_at(at_ + size_, std::forward<Args>(args)...);
    ++size_;
  }
  /// Leaves the first n.
  void cut(std::size_t n) noexcept {
    while (size_ > n) std::destroy_at(at_ + --size_);
  }
  [[nodiscard]] bool has_room() const noexcept { return size_ < most_; }
  /// Whether it is for any at all.
  explicit operator bool() const noexcept { return at_ != nullptr; }
  const T* begin() const noexcept { return at_; }
  T& operator[](std::size_t i) const noexcept { return at_[i]; }

 private:
  const std::size_t most_;
  T* const at_;
  std::size_t size_ = 0;
};

/// The slots of a leaf's pairs, in the order of their keys.
template <std::size_t Most>
struct slots_in_order {
  std::array<std::uint8_t, Most> slot;
  std::size_t size = 0;

  void insert(std::size_t at, std::size_t s) noexcept {
    std::copy_backward(slot.begin() + at, slot.begin() + size, slot.begin() + size + 1);
    slot[at] = static_cast<std::uint8_t>(s);
    ++size;
  }
  void erase(std::size_t s) noexcept {
    const auto end = std::remove(slot.begin(), slot.begin() + size, s);
    size = static_cast<std::size_t>(end - slot.begin());
  }
  void reverse() noexcept { std::reverse(slot.begin(), slot.begin() + size); }
  [[nodiscard]] const std::uint8_t* begin() const noexcept { return slot.data(); }
  [[nodiscard]] const std::uint8_t* end() const noexcept { return slot.data() + size; }
};

/// Beside the values of a leaf, slot by slot.
template <class Value, std::size_t Many, bool ToldByBytes = is_plain_bytes<Value>>
class stamps_of_slots {
 public:
  [[nodiscard]] value_stamp<Value> of(std::size_t i) const noexcept { return of_[i]; }
  void put(std::size_t i, value_stamp<Value> stamp) noexcept { of_[i] = stamp; }

 private:
  std::array<value_stamp<Value>, Many> of_;
};
template <class Value, std::size_t Many>
class stamps_of_slots<Value, Many, true> {
 public:
  [[nodiscard]] static value_stamp<Value> of(std::size_t) noexcept { return {}; }
  static void put(std::size_t, value_stamp<Value>) noexcept {}
};

/// Each pair has a slot, which is written once. The slots that a leaf was made with ascend; after
/// them, in any order, stand the pairs that came later. Which slots count is said in one word: so
/// one store takes a pair in, out, or for another one.
template <class Key, class Value, class Lock>
class counted_leaf {
  using kept = leaf_value<Value>;

 public:
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t most = 2;
  static constexpr std::size_t most_late = 1;
#else
  static constexpr std::size_t most = 32;
  static constexpr std::size_t most_late = 16;  // look-ups go through all of them
#endif
  /// With more, what would be made anew is divided: else there would soon be no room again.
  static constexpr std::size_t crowded = most - most / 8;
  static constexpr std::size_t absent = most;
  /// Pairs can stay where they are when they are taken out: nothing of the user's is to run then.
  static constexpr bool forgets =
      std::is_trivially_destructible_v<Key> && std::is_trivially_destructible_v<Value>;
  using order = slots_in_order<most + 1>;

  /// For weight_of.
  static constexpr bool is_weighed_late = !weightless<Key, Value>;
  [[nodiscard]] std::size_t owned_bytes() const noexcept
    requires is_weighed_late
  {
    std::size_t sum = 0;
    for (std::size_t i = used(state_.load_relaxed()); i-- > 0;) sum += weigh(keys_[i], values_[i]);
    return sum;
  }

  counted_leaf() noexcept = default;
  counted_leaf(const counted_leaf&) = delete;
  counted_leaf& operator=(const counted_leaf&) = delete;
  ~counted_leaf()
    requires forgets
  = default;
  ~counted_leaf() {
    for (std::size_t i = used(state_.load_relaxed()); i-- > 0;) {
      std::destroy_at(&values_[i]);
      std::destroy_at(&keys_[i]);
    }
  }

  /// The key's slot, or absent.
  template <class K, class Compare>
  [[nodiscard]] std::size_t find(const K& key, const Compare& less) const {
    // acquire ← the release in publish: all that was done before to what the word names.
    const std::uint64_t state = state_.load_acquire();
    const Key* const keys = keys_.data();
    const auto i =
        static_cast<std::size_t>(std::lower_bound(keys, keys + ascending_, key, less) - keys);
    if (i < ascending_ && (state >> i & 1U) != 0 && !less(key, keys[i])) return i;
    for (std::uint64_t late = live(state) >> ascending_ << ascending_; late != 0;
         late &= late - 1) {
      const auto j = static_cast<std::size_t>(std::countr_zero(late));
      if (!less(key, keys[j]) && !less(keys[j], key)) return j;
    }
    return absent;
  }
  [[nodiscard]] const Value& value(std::size_t i) const noexcept { return values_[i].value(); }
  void look(std::size_t i, seen_value<Value>& to) const { to.look(value(i), stamps_.of(i)); }
  [[nodiscard]] bool has(std::size_t i, const seen_value<Value>& seen) const noexcept {
    return seen.is(value(i), stamps_.of(i));
  }

  /// As in_order, for a thread that reads beside the writer.
  template <class Compare>
  [[nodiscard]] order order_seen(const Key* bound, const Compare& less) const {
    // acquire ← the release in publish: the pairs.
    return order_of(state_.load_acquire(), bound, less);
  }

  // What follows is for the writer, but for the keys of pairs that others were told of.

  [[no_unique_address]] Lock lock;

  [[nodiscard]] const Key& key(std::size_t i) const noexcept { return keys_[i]; }
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(std::popcount(live(state_.load_relaxed())));
  }

  /// Whether a pair can be added to the leaf as it is.
  [[nodiscard]] bool has_room() const noexcept {
    const std::size_t n = used(state_.load_relaxed());
    return n < most && n - ascending_ < most_late;
  }
  /// One more pair, instead of that in the slot unless it is `absent`.
  void add(const Key& key, const Value& value, value_stamp<Value> stamp, std::size_t instead) {
    const std::uint64_t before = state_.load_relaxed();
    const std::uint64_t after = with_one_more(before, key, value, stamp);
    publish(instead == absent ? after : after & ~used_bit(instead));
  }
  void take_out(std::size_t i) noexcept { publish(state_.load_relaxed() & ~used_bit(i)); }
  /// Of a leaf whose writer was lost in a fork: takes out what belongs elsewhere.
  template <class Compare>
  void take_out_from(const Key* bound, const Compare& less) {
    if (bound == nullptr) return;
    std::uint64_t stays = 0;
    for (const std::uint8_t i : in_order(bound, less)) stays |= used_bit(i);
    const std::uint64_t state = state_.load_relaxed();
    publish((state & ~live(state)) | stays);
  }

  /// Without what is not below the bound, if there is one: see counted_inner::bound.
  template <class Compare>
  [[nodiscard]] order in_order(const Key* bound, const Compare& less) const {
    return order_of(state_.load_relaxed(), bound, less);
  }
  /// The same with one pair more, which `absent` stands for, instead of that in the slot unless
  /// that is `absent`, too.
  template <class Compare>
  [[nodiscard]] order in_order_with(const Key& key, std::size_t instead, const Key* bound,
                                    const Compare& less) const {
    order all = in_order(bound, less);
    if (instead == absent) {
      all.insert(place(all, key, less), absent);
    } else {
      *std::find(all.slot.begin(), all.slot.begin() + all.size, instead) = absent;
    }
    return all;
  }

  /// While the leaf is new: one pair more, with a key after all that it has.
  void append(const Key& key, const Value& value, value_stamp<Value> stamp) {
    state_.store_relaxed(with_one_more(state_.load_relaxed(), key, value, stamp));
    ++ascending_;
  }
  /// While the leaf is new: the pairs that `from` has in those slots. Where `absent` stands, the
  /// pair comes.
  void fill(const counted_leaf& from, const std::uint8_t* begin, const std::uint8_t* end,
            const Key& key, const Value& value, value_stamp<Value> stamp) {
    for (; begin != end; ++begin, ++ascending_) {
      const std::uint64_t before = state_.load_relaxed();
      state_.store_relaxed(*begin == absent
                               ? with_one_more(before, key, value, stamp)
                               : with_one_more(before, from.keys_[*begin], from.values_[*begin],
                                               from.stamps_.of(*begin)));
    }
  }

 private:
  static constexpr std::uint64_t one_used = std::uint64_t{1} << 32U;
  static_assert(most <= 32);
  static std::uint64_t used_bit(std::size_t i) noexcept { return std::uint64_t{1} << i; }
  static std::uint64_t live(std::uint64_t state) noexcept { return state & (one_used - 1); }
  static std::size_t used(std::uint64_t state) noexcept { return state >> 32U; }

  void publish(std::uint64_t state) noexcept {
    // release → the acquire in find: the pair that was written.
    SPOLIA_FAULT("counted_btree.publish_relaxed") ? state_.store_relaxed(state)
                                                  : state_.store_release(state);
  }
  template <class V>  // of the user's, or as another leaf has it
  std::uint64_t with_one_more(std::uint64_t state, const Key& key, const V& value,
                              value_stamp<Value> stamp) {
    const std::size_t i = used(state);
    std::construct_at(std::addressof(keys_[i]), key);
    try {
      std::construct_at(std::addressof(values_[i]), value);
    } catch (...) {
      std::destroy_at(std::addressof(keys_[i]));
      throw;
    }
    stamps_.put(i, stamp);
    return (state + one_used) | used_bit(i);
  }
  template <class Compare>
  order order_of(std::uint64_t state, const Key* bound, const Compare& less) const {
    order all;
    for (std::uint64_t rest = live(state); rest != 0; rest &= rest - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(rest));
      if (bound != nullptr && !less(keys_[i], *bound)) continue;
      all.insert(i < ascending_ ? all.size : place(all, keys_[i], less), i);
    }
    return all;
  }
  template <class Compare>
  std::size_t place(const order& all, const Key& key, const Compare& less) const {
    const auto* const begin = all.slot.data();
    return static_cast<std::size_t>(
        std::upper_bound(begin, begin + all.size, key,
                         [&](const Key& k, std::uint8_t s) { return less(k, keys_[s]); }) -
        begin);
  }

  // How many slots are written above, and a bit for each that counts below; so in the child of a
  // fork, too, one tells of the other.
  atomic<std::uint64_t> state_{0};
  std::size_t ascending_ = 0;  // never changes once others see the leaf
  places<Key, most> keys_;
  places<kept, most> values_;
  [[no_unique_address]] stamps_of_slots<Value, most> stamps_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

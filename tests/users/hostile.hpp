// SPDX-License-Identifier: Apache-2.0
/// \file
/// Types of users that are hard on templates. Their namespace has function templates of the usual
/// names, and of names that the library uses inside: a call without a namespace, of an argument
/// that has anything to do with these types, finds them too, and does not compile.
///
///     hostile::plain        a key, a value or an object: &x, (x, y), p->*m and !x are refused
///     hostile::final_plain  the same, final
///     hostile::unallocated  the same, and `new` of it is refused
///     hostile::below        the order of the three, whose answer is a bool only where one is asked
///                           for; hostile::hash and hostile::same go with it
///     hostile::reader       a function that they are shown to
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

namespace hostile {

// Names of the standard library, and of functions in the library's own namespaces.
// clang-format off
#define SPOLIA_TEST_GRABBED(X) \
  X(swap) X(move) X(forward) X(advance) X(next) X(prev) X(distance) X(find) X(begin) X(end) \
  X(data) X(exchange) X(construct_at) X(destroy_at) X(destroy) X(destroy_n) X(launder) \
  X(addressof) X(as_const) X(invoke) X(apply) X(ref) X(cref) X(to_address) X(copy) X(min) X(max) \
  X(sort) X(fill) X(hash_value) X(make_pair) X(make_tuple) X(make_unique) X(make_shared) \
  X(allocate_shared) X(bit_cast) X(memcpy) X(equal) X(tie) X(lower_bound) X(upper_bound) \
  X(all_of) X(any_of) X(remove_if) X(static_pointer_cast) X(after_update) X(after_update_if) \
  X(allocate) X(block_of) X(block_of_entry) X(entry_of) X(finish) X(found_in_order) X(gather) \
  X(head_of) X(holder_of) X(in_groups) X(inner_count) X(make_array) X(make_fresh) X(make_object) \
  X(make_raw) X(make_thin) X(make_whole) X(name_of) X(no_fresh) X(no_longer_traced) \
  X(note_access) X(pair_of) X(peek) X(plain_pointer) X(plain_read) X(plain_write) X(put_name) \
  X(read) X(scan_in_batches) X(seek_by_any) X(self_base) X(separate) X(settle) X(show) \
  X(show_copies) X(shown) X(sum) X(take_back) X(tell_traced) X(until_done) X(walk) \
  X(walk_guarded) X(write) X(check) X(checked) X(claim) X(drain) X(drop_weak) X(end_object) \
  X(ends_silently) X(give_block) X(join) X(lies_apart) X(load) X(store) X(maybe_lock) \
  X(order_of) X(owner_of) X(rank) X(record) X(report) X(restamp) X(since_of) X(start) X(stop) \
  X(take_block) X(take_lock) X(trim) X(type_of) X(unblock) X(wait_for) X(wake) X(base_of) \
  X(bytes_of) X(fresh) X(here) X(help) X(is_linked) X(is_mark) X(is_this) X(record_bytes) \
  X(retire_by_rcu) X(rcu_retire) X(task_of) X(unstamped) X(with_stride) X(word_of) X(key_of) \
  X(publish) X(prefetch) X(retire) X(access) X(float_rank) X(place_of_key) X(identity)
// clang-format on

#define SPOLIA_TEST_GRAB(name)  \
  template <class... Arguments> \
  void name(Arguments&&...) = delete;
SPOLIA_TEST_GRABBED(SPOLIA_TEST_GRAB)
#undef SPOLIA_TEST_GRAB
#undef SPOLIA_TEST_GRABBED
template <std::size_t I, class T>
void get(T&&) = delete;
template <class To, class T>
void get_if(T&&) = delete;

/// What a comparison gives: as much of a bool as the standard's containers ask for.
struct answer {
  bool is;
  explicit operator bool() const noexcept { return is; }
};

struct refusing {
  int number = 0;

  void operator&() = delete;
  void operator&() const = delete;
  void operator!() const = delete;
  void operator~() const = delete;
  explicit operator bool() const = delete;
  template <class T>
  void operator->*(T&&) const = delete;

 protected:
  refusing() = default;
  explicit refusing(int n) : number(n) {}
  ~refusing() = default;
};

struct plain : refusing {
  plain() = default;
  explicit plain(int n) : refusing(n) {}
};
struct final_plain final : refusing {
  final_plain() = default;
  explicit final_plain(int n) : refusing(n) {}
};
struct unallocated : refusing {
  unallocated() = default;
  explicit unallocated(int n) : refusing(n) {}
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;
};

template <class T>
concept one = std::derived_from<std::remove_cvref_t<T>, refusing>;

template <one T, class U>
void operator,(T&&, U&&) = delete;
template <class U, one T>
void operator,(U&&, T&&) = delete;

/// The user's functions are no less so: of a final class, and &f is refused.
struct below final {
  template <one T>
  answer operator()(const T& a, const T& b) const noexcept {
    return {a.number < b.number};
  }
  void operator&() = delete;
  void operator&() const = delete;
};
struct same final {
  template <one T>
  answer operator()(const T& a, const T& b) const noexcept {
    return {a.number == b.number};
  }
  void operator&() = delete;
  void operator&() const = delete;
};
struct hash final {
  template <one T>
  std::size_t operator()(const T& a) const noexcept {
    return static_cast<std::size_t>(a.number) * 7;
  }
  void operator&() = delete;
  void operator&() const = delete;
};

/// Adds up what it is shown, wherever that is.
struct reader final {
  long* sum;
  template <class... Shown>
  void operator()(const Shown&... shown) const {
    *sum += (... + shown.number);
  }
  void operator&() = delete;
  void operator&() const = delete;
};
template <class T>
void operator,(reader, T&&) = delete;

/// For maps that have no equality of the user's, and std::equal_to asks for a bool.
template <one T>
bool operator==(const T& a, const T& b) noexcept {
  return a.number == b.number;
}

}  // namespace hostile

// SPDX-License-Identifier: Apache-2.0
// list_queue.hpp: the queue of lists that the threads of a range tracker share. Lists are named by
// their first version, so nothing is allocated. Beside it lie short lists, at most one of each
// length's number of bits, which are not long enough for the queue yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

class list_queue {
 public:
  using lists = std::array<tracked*, 2>;

  /// Puts a list in; null is allowed.
  void push(tracked* list) noexcept {
    const std::lock_guard here(lock_);
    append(list);
  }
  template <class... Lists>
  void push_all(Lists... some) noexcept {
    const std::lock_guard here(lock_);
    (append(some), ...);
  }

  /// Puts a short list of `count` versions beside the queue, if there is none of about that length.
  /// Else returns that one, which is the caller's now as well.
  tracked* put_aside(tracked* list, std::uint64_t count) noexcept {
    const std::lock_guard here(lock_);
    plain<tracked*>& place = short_[bit_length(count)];
    tracked* const other = place.read();
    place.write(other == nullptr ? list : nullptr);
    return other;
  }

  /// Takes the two oldest lists out; null where there is none.
  lists take_two() noexcept {
    const std::lock_guard here(lock_);
    lists oldest{};
    for (tracked*& one : oldest) one = take();
    return oldest;
  }

  /// The oldest list; null: there is none.
  tracked* take_one() noexcept {
    const std::lock_guard here(lock_);
    return take();
  }

  /// Takes everything, the short lists, too: the first list, linked by next_list.
  tracked* take_all() noexcept {
    const std::lock_guard here(lock_);
    append_short();
    tracked* const all = first_.read();
    first_.write(nullptr);
    count_.write(0);
    return all;
  }

  /// How many lists there are, the short ones with them, which are in the queue from now on.
  std::uint64_t count_all() noexcept {
    const std::lock_guard here(lock_);
    append_short();
    return count_.read();
  }

  /// In a fork's child: if the lock was held, the lists may be half-written and are forgotten.
  void after_fork() noexcept {
    if (!lock_.reset()) return;
    first_.write(nullptr);
    count_.write(0);
    for (plain<tracked*>& place : short_) place.write(nullptr);
  }

 private:
  void append(tracked* list) noexcept {
    if (list == nullptr) return;
    list->next_list.write(nullptr);
    if (first_.read() == nullptr) {
      first_.write(list);
    } else {
      last_.read()->next_list.write(list);
    }
    last_.write(list);
    count_.write(count_.read() + 1);
  }
  void append_short() noexcept {
    for (plain<tracked*>& place : short_) {
      append(place.read());
      place.write(nullptr);
    }
  }
  tracked* take() noexcept {
    tracked* const list = first_.read();
    if (list == nullptr) return nullptr;
    first_.write(list->next_list.read());
    count_.write(count_.read() - 1);
    return list;
  }

  short_lock lock_;
  plain<tracked*> first_{nullptr};
  plain<tracked*> last_{nullptr};
  plain<std::uint64_t> count_{0};
  std::array<plain<tracked*>, 65> short_{};
};

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// label.hpp: what the program calls a reader or transaction. Internal.
//
// The label belongs to the session, whose owners come and go while other threads list them. So a
// list takes the text under a lock, and only if it is of the announcement that the list has found.
// An owner without a label takes the lock only if the one before it had one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class owned_label {
  using shared_text = std::shared_ptr<const std::string>;

 public:
  owned_label() = default;
  owned_label(const owned_label&) = delete;
  owned_label& operator=(const owned_label&) = delete;

  /// Owner, before it announces itself. Throws std::bad_alloc; then it is the former owner's.
  void set(std::string_view text) {
    if (text.empty() && !there_) [[likely]]
      return;
    shared_text made = text.empty() ? nullptr : std::make_shared<const std::string>(text);
    there_ = made != nullptr;
    const std::lock_guard hold(lock_);
    text_.swap(made);  // what was there is freed without the lock
    time_ = not_announced;
  }
  /// Owner, when it has announced itself at that time.
  void announced(std::uint64_t time) noexcept {
    if (!there_) [[likely]]
      return;
    const std::lock_guard hold(lock_);
    time_ = time;
  }

  /// What the census knows as the label.
  [[nodiscard]] const char* mark() const noexcept { return &mark_; }
  /// Whose mark that is. Owners come and go; the session stays.
  [[nodiscard]] static const owned_label& of(const char* mark) noexcept {
    static_assert(std::is_standard_layout_v<owned_label>);  // so its address is that of mark_
    return *reinterpret_cast<const owned_label*>(mark);
  }
  /// For other threads: the label of the announcement at that time; null: it has none.
  [[nodiscard]] shared_text text_at(std::uint64_t time) const noexcept {
    const std::lock_guard hold(lock_);
    return time == time_ ? text_ : nullptr;
  }
  /// For threads that keep the owner from ending.
  [[nodiscard]] shared_text text() const noexcept {
    const std::lock_guard hold(lock_);
    return text_;
  }
  /// As text_at(), as much as there is room for.
  void copy_at(std::uint64_t time, std::span<char> to) const noexcept {
    const std::lock_guard hold(lock_);
    if (time == time_ && text_ != nullptr) {
      std::copy_n(text_->data(), std::min(text_->size(), to.size()), to.begin());
    }
  }

 private:
  static constexpr std::uint64_t not_announced = ~std::uint64_t{0};

  char mark_ = 0;
  bool there_ = false;  // the owner's own
  mutable spolia::detail::short_lock lock_;
  shared_text text_;
  std::uint64_t time_ = not_announced;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

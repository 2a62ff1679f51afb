// SPDX-License-Identifier: Apache-2.0
// stop.hpp: lets any thread tell a query that its answer is not wanted any more.
//
//     spolia::db::stop_source enough;                       // or a std::stop_source
//     auto answer = query.run({.stop = enough.get_token()});  // meanwhile, in another thread:
//                                                             // enough.request_stop();
//
// Not every standard library has the types of <stop_token> (libc++ wants a switch for them). So the
// library does not use them, and takes them as any other type that can be asked.
// Memory:      a source and its tokens share one block of 32 bytes; a token of another type is kept
//              in a block of its own, 16 bytes larger than it is.
// Complexity:  constant.
// Thread safety: as std::stop_source and std::stop_token: one object belongs to one thread at a
//              time, its copies to any.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// What can be asked whether to stop, by several threads at once: std::stop_token is such a type.
template <class Token>
concept asked_to_stop = requires(const Token& of) {
  { of.stop_requested() } noexcept -> std::convertible_to<bool>;
};

/// Code that takes long asks one of these from time to time.
class stop_token {
 public:
  /// Never stops.
  stop_token() noexcept = default;

  /// Stops when `of` says so.
  /// \throws std::bad_alloc
  template <asked_to_stop Token>
    requires(!std::same_as<Token, stop_token>)
  // Implicit: it stands where a token of the standard library may.
  stop_token(Token of) : stop_token(std::make_shared<const Token>(std::move(of))) {}

  [[nodiscard]] bool stop_requested() const noexcept {
    return asks_ != nullptr && asks_(of_.get());
  }

 private:
  friend class stop_source;
  template <class Token>
  explicit stop_token(std::shared_ptr<Token> of) noexcept
      : of_(std::move(of)), asks_([](const void* shared) noexcept -> bool {
          return static_cast<const Token*>(shared)->stop_requested();
        }) {}

  std::shared_ptr<const void> of_;
  bool (*asks_)(const void*) noexcept = nullptr;
};

/// Tells all of its tokens to stop, once and for all. Its copies are the same source.
class stop_source {
 public:
  /// \throws std::bad_alloc
  stop_source() : state_(std::make_shared<state>()) {}

  void request_stop() const noexcept {
    // release → the acquire in stop_requested(): what was written before the request is seen by
    // what was stopped by it.
    state_->requested.store_release(true);
  }
  [[nodiscard]] bool stop_requested() const noexcept { return state_->stop_requested(); }
  [[nodiscard]] stop_token get_token() const noexcept { return stop_token(state_); }

 private:
  struct state {
    [[nodiscard]] bool stop_requested() const noexcept {
      // acquire: the partner of request_stop().
      return requested.load_acquire();
    }
    atomic<bool> requested{false};
  };

  // Constant, so that a source that was moved from is one still.
  const std::shared_ptr<state> state_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

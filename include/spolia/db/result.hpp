// SPDX-License-Identifier: Apache-2.0
// result.hpp: how an operation of a transaction ended. Conflicts and the like are results; mistakes
// of the program (a column that is not there, a value of another type) are std::invalid_argument,
// and running out of memory is std::bad_alloc.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

enum class outcome : std::uint8_t {
  ok,
  conflict,         ///< another transaction was faster: roll back, and try again
  not_found,        ///< there is no such row at this snapshot
  duplicate_key,    ///< a row with this key, or with this value in a unique index, exists
  limit,            ///< a budget, for versions or for all, is used up
  ended_by_policy,  ///< it has read for too long, or was in the way: database options
  ended,            ///< the transaction was rolled back or committed before
  stopped,          ///< a query was told to stop, or has taken as long as it may
  read_only,        ///< the database was opened to be read
  storage_failed,   ///< the log has no room: nothing has happened; or has failed: durable or not
  schema_changed,   ///< a table or its indexes were changed since the transaction began: try again
  dropped           ///< the table, or the index, does not exist any more
};

constexpr std::string_view message(outcome o) noexcept {
  switch (o) {
    case outcome::ok:
      return "ok";
    case outcome::conflict:
      return "conflict with another transaction";
    case outcome::not_found:
      return "no such row";
    case outcome::duplicate_key:
      return "a row with this key exists";
    case outcome::limit:
      return "a budget for memory is used up";
    case outcome::ended_by_policy:
      return "the snapshot was ended for the sake of others";
    case outcome::ended:
      return "the transaction has ended";
    case outcome::stopped:
      return "the query was stopped";
    case outcome::read_only:
      return "the database was opened to be read";
    case outcome::storage_failed:
      return "the log cannot be written";
    case outcome::schema_changed:
      return "the table or its indexes were changed meanwhile";
    case outcome::dropped:
      return "the table or index was dropped";
  }
  return "unknown";
}

/// True if it went well.
class [[nodiscard]] status {
 public:
  constexpr status() noexcept = default;
  constexpr status(outcome o) noexcept : code_(o) {}  // NOLINT: an outcome is a status
  [[nodiscard]] constexpr outcome code() const noexcept { return code_; }
  [[nodiscard]] constexpr std::string_view message() const noexcept { return db::message(code_); }
  constexpr explicit operator bool() const noexcept { return code_ == outcome::ok; }
  friend constexpr bool operator==(status, status) noexcept = default;
  friend constexpr bool operator==(status s, outcome o) noexcept { return s.code_ == o; }

 private:
  outcome code_ = outcome::ok;
};

/// Thrown by result::value() where there is none, and by scans that cannot go on.
class no_result : public std::runtime_error {
 public:
  explicit no_result(outcome o)
      : std::runtime_error(std::string("spolia::db: ") + std::string(message(o))), code_(o) {}
  [[nodiscard]] outcome code() const noexcept { return code_; }

 private:
  outcome code_;
};

/// A T, or why there is none.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : value_(std::move(value)) {}  // NOLINT: a T is a result
  result(outcome why) noexcept : why_(why) {}    // NOLINT: so is a reason
  result(status why) noexcept : why_(why) {}     // NOLINT
  explicit operator bool() const noexcept { return value_.has_value(); }
  [[nodiscard]] status why() const noexcept { return why_; }
  [[nodiscard]] outcome code() const noexcept { return why_.code(); }
  // Precondition of these six: there is a T. Otherwise the checked build variant names the
  // mistake, and throws no_result if the program goes on.
  T& operator*() & noexcept(!SPOLIA_CHECKS) {
    must_have();
    return *value_;
  }
  const T& operator*() const& noexcept(!SPOLIA_CHECKS) {
    must_have();
    return *value_;
  }
  T operator*() && noexcept(!SPOLIA_CHECKS) {
    must_have();
    return std::move(*value_);
  }
  T* operator->() & noexcept(!SPOLIA_CHECKS) { return &**this; }
  const T* operator->() const& noexcept(!SPOLIA_CHECKS) { return &**this; }
  /// Of a T that goes with this expression: as T::unnamed has it, if it has one.
  auto operator->() && noexcept(!SPOLIA_CHECKS) {
    must_have();
    if constexpr (requires { typename T::unnamed; }) {
      return typename T::unnamed(std::move(*value_));
    } else {
      return &*value_;
    }
  }
  /// Throws no_result if there is none.
  T& value() & {
    if (!value_) throw no_result(why_.code());
    return *value_;
  }
  const T& value() const& {
    if (!value_) throw no_result(why_.code());
    return *value_;
  }
  T value() && { return std::move(value()); }

 private:
  void must_have() const noexcept(!SPOLIA_CHECKS) {
    if constexpr (SPOLIA_CHECKS) {
      if (value_) return;
      misuse::report("a result without a value is looked into", threads::number());
      throw no_result(why_.code());
    }
  }

  std::optional<T> value_;
  status why_{};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// result.hpp: how an operation of a transaction ended. Conflicts and the like are results; mistakes
// of the program (a column that is not there, a value of another type) are std::invalid_argument,
// and running out of memory is std::bad_alloc.
//
//     db::status done = base.transact([&](db::transaction& tx) -> db::status {
//       auto from = tx.edit(accounts, {1});
//       if (!from) return from.why();
//       if (from->get(balance) < 10) return db::refused("the balance is too low");
//       return from->set(balance, from->get(balance) - 10);
//     });
//     if (done == db::outcome::refused) say(done.reason());
//
// Reasons:     each outcome but ok has a reason, in status::reason(): what it is about, and what to
// do.
// Cost:        a status is one word: the outcome with its cause, or the address of an outcome with
//              words of its own, which copies share. The words of a cause are the library's, and
//              are not allocated. duplicate_key and limit share their words from call to call: a
//              key or a budget keeps them from the first call that it has refused. A thread that is
//              refused again makes words that name a table only once.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

enum class outcome : std::uint8_t {
  ok,
  conflict,         ///< another transaction was faster: this one has ended, so try again
  not_found,        ///< there is no such row at this snapshot
  duplicate_key,    ///< a row with this key exists, or in a unique index: reason() says in which
  limit,            ///< a budget, for versions or for all, is used up: reason() says which
  ended_by_policy,  ///< its own deadline was over, or it was in the way: reason() says which
  ended,            ///< the transaction was rolled back or committed before
  stopped,          ///< a query was told to stop, or has taken as long as it may
  read_only,        ///< the database was opened to be read
  storage_failed,   ///< the log has no room, or has failed: see transaction::commit_time()
  schema_changed,   ///< a table or its indexes were changed since the transaction began: try again
  dropped,          ///< the table, or the index, does not exist any more
  refused,          ///< the program has a reason, or the transact() around this one what it wants
  too_long          ///< a value has more bytes than its column takes; reason() says which
};

/// Which of several causes has led to an outcome. Internal.
enum class cause : std::uint8_t {
  usual,
  deadline,       ///< of ended_by_policy
  slow_reader,    ///< of ended_by_policy
  committed,      ///< of ended
  rolled_back,    ///< of ended
  stop_wanted,    ///< of stopped
  longest,        ///< of stopped
  what_was_read,  ///< of conflict, in a serializable transaction
  same_row        ///< of not_found, by an editor
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
    case outcome::refused:
      return "refused by the program";
    case outcome::too_long:
      return "data is too long";
  }
  return "unknown";
}

/// What a status says that has no words of its own. Internal; see status::reason().
constexpr std::string_view usual_reason(outcome o, cause c) noexcept {
  switch (o) {
    case outcome::ok:
      return "";
    case outcome::conflict:
      if (c == cause::what_was_read) {
        return "another transaction has changed what this serializable one has read: run it again, "
               "as transact() does";
      }
      return "another transaction has changed or locked a row that this one wants: run it again, "
             "as transact() does";
    case outcome::not_found:
      if (c == cause::same_row)
        return "the row that is edited was erased since: edit() another one";
      return "the table has no row with this key at this snapshot: insert() or put() makes one";
    case outcome::duplicate_key:
      return "the key, or a value of a unique index, is taken: give another one, or use put()";
    case outcome::limit:
      return "options::budget or options::version_budget has no room for it: delete rows, end slow "
             "readers, or do less in one transaction";
    case outcome::ended_by_policy:
      if (c == cause::deadline) {
        return "its own deadline was over: begin again with a longer one, or with less to read";
      }
      if (c == cause::slow_reader) {
        return "options::on_slow_reader has said so: begin again with less to read";
      }
      return "its own deadline was over, or options::on_slow_reader has said so: begin again with "
             "less to read";
    case outcome::ended:
      if (c == cause::committed) return "it was committed before this call: begin another one";
      if (c == cause::rolled_back) return "it was rolled back before this call: begin another one";
      return "it was committed, rolled back or moved from before this call: begin another one";
    case outcome::stopped:
      if (c == cause::stop_wanted) return "query_options::stop was requested: ask again";
      if (c == cause::longest) {
        return "query_options::longest was over: give it longer, or ask for less";
      }
      return "query_options::stop was requested, or query_options::longest was over: ask again";
    case outcome::read_only:
      return "options::read_only was set, and commit() would change rows: open it without";
    case outcome::storage_failed:
      return "database::storage_failure() says which file, and why: make room, or call "
             "database::resume() where stats().log.failed";
    case outcome::schema_changed:
      return "create_index, drop_index or drop_table came since it began: run it again, as "
             "transact() does";
    case outcome::dropped:
      return "drop_table or drop_index came before: look the table up again, by "
             "database::find_table()";
    case outcome::refused:
      return "the program has given none: refused() takes one";
    case outcome::too_long:
      return "a value has more bytes than its column takes: give a shorter one, or make the column "
             "text()";
  }
  return "";
}

/// True if the operation went well. Two are equal if their outcomes are.
class [[nodiscard]] status {
 public:
  constexpr status() noexcept = default;
  constexpr status(outcome o) noexcept : word_(static_cast<std::uintptr_t>(o)) {}  // NOLINT
  constexpr status(outcome o, cause c) noexcept
      : word_(static_cast<std::uintptr_t>(c) << 8U | static_cast<std::uintptr_t>(o)) {}
  /// The reason is copied; an empty one is the usual one. Throws std::bad_alloc.
  SPOLIA_EXPORT status(outcome o, std::string_view reason);
  constexpr status(const status& from) noexcept : word_(from.word_) {
    if (has_reason()) share();
  }
  /// What was moved from says ok.
  constexpr status(status&& from) noexcept : word_(std::exchange(from.word_, 0)) {}
  constexpr status& operator=(status&& from) noexcept {
    std::swap(word_, from.word_);
    return *this;
  }
  constexpr status& operator=(const status& from) noexcept {
    if (from.has_reason()) from.share();  // first: it may be the same
    if (has_reason()) give_back();
    word_ = from.word_;
    return *this;
  }
  constexpr ~status() {
    if (has_reason()) give_back();
  }

  [[nodiscard]] constexpr outcome code() const noexcept {
    return has_reason() ? code_with_reason() : static_cast<outcome>(word_ & 0xffU);
  }
  [[nodiscard]] constexpr std::string_view message() const noexcept { return db::message(code()); }
  /// What the outcome is about, and what to do, in words; empty of ok alone. It is
  ///   refused          what the program has given to refused();
  ///   duplicate_key    "primary key of table users" or "index by_email of table users";
  ///   limit            which budget, and how many bytes it has;
  ///   too_long         the column, what it takes, and what it got;
  ///   not_found, conflict, schema_changed, dropped    the table, and what was the matter with it;
  ///   storage_failed   the file and what the system says of it, or the time of the commit that is
  ///                    in doubt;
  ///   ended_by_policy, ended, stopped    which of the things that lead to it;
  ///   read_only        the option.
  /// It is what can be said of the outcome in general if there is no memory for such words, if the
  /// program makes the status from an outcome, or if an editor's transaction has ended. It lives as
  /// long as a copy of the status does.
  [[nodiscard]] std::string_view reason() const& noexcept {
    if (has_reason()) return text();
    return usual_reason(code(), static_cast<cause>(word_ >> 8U));
  }
  [[nodiscard]] std::string reason() && { return std::string(std::as_const(*this).reason()); }
  constexpr explicit operator bool() const noexcept { return word_ == 0; }
  friend constexpr bool operator==(const status& a, const status& b) noexcept {
    return a.code() == b.code();
  }
  friend constexpr bool operator==(const status& s, outcome o) noexcept { return s.code() == o; }

 private:
  struct told;
  static constexpr std::uintptr_t outcomes = 1U << 16U;  // smaller than every address

  [[nodiscard]] constexpr bool has_reason() const noexcept { return word_ >= outcomes; }
  [[nodiscard]] told& there() const noexcept;
  [[nodiscard]] SPOLIA_EXPORT outcome code_with_reason() const noexcept;
  [[nodiscard]] SPOLIA_EXPORT std::string_view text() const noexcept;
  SPOLIA_EXPORT void share() const noexcept;
  SPOLIA_EXPORT void give_back() const noexcept;

  std::uintptr_t word_ = 0;  // an outcome, or the address of what was told
};

/// What a program's function returns to end a transaction without committing it, for a reason of
/// its own: database::transact() returns this, and does not try again.
[[nodiscard]] inline status refused(std::string_view reason = {}) {
  return {outcome::refused, reason};
}

/// Thrown by result::value() where there is none, and by scans that cannot go on.
class SPOLIA_EXPORT no_result : public std::runtime_error {
 public:
  explicit no_result(const status& why);
  [[nodiscard]] outcome code() const noexcept { return why_.code(); }
  [[nodiscard]] const status& why() const noexcept { return why_; }

 private:
  status why_;
};

[[noreturn]] SPOLIA_EXPORT void refuse_ok_without_value();

/// A T, or why there is none.
template <class T>
class [[nodiscard]] result {
 public:
  result(T&& value) : value_(std::move(value)) {}  // NOLINT: a T is a result
  result(const T& value)                           // NOLINT
    requires std::copy_constructible<T>
      : value_(value) {}
  /// From anything of which a class T can be made: "a text" is a result<std::string>.
  template <class From>
    requires(std::is_class_v<T> && !std::same_as<std::remove_cvref_t<From>, T> &&
             !std::same_as<std::remove_cvref_t<From>, result> &&
             !std::convertible_to<From, status> && std::convertible_to<From, T>)
  result(From&& value) : value_(std::forward<From>(value)) {}  // NOLINT
  /// A reason is a result, too. Throws std::invalid_argument if the reason is ok, as there is no T
  /// then.
  result(outcome why) : result(status(why)) {}  // NOLINT
  result(status why) : why_(std::move(why)) {   // NOLINT
    if (why_) [[unlikely]]
      refuse_ok_without_value();
  }
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
    if (!value_) throw no_result(why_);
    return *value_;
  }
  const T& value() const& {
    if (!value_) throw no_result(why_);
    return *value_;
  }
  T value() && { return std::move(value()); }

 private:
  void must_have() const noexcept(!SPOLIA_CHECKS) {
    if constexpr (SPOLIA_CHECKS) {
      if (value_) return;
      misuse::report("a result without a value is looked into", threads::number());
      throw no_result(why_);
    }
  }

  std::optional<T> value_;
  status why_{};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// query.hpp: filters, sums and groups over a table at a snapshot, by several threads.
//
//     const db::reader now = base.snapshot("report");
//     const auto sums = now.query(orders)
//                           .where("qty", db::greater, 5)
//                           .group_by("district")
//                           .aggregate(db::count(), db::sum("amount"))
//                           .run();
//     if (!sums) ...                                            // ended_by_policy, stopped
//     for (std::size_t i = 0; i < sums->size(); ++i) {
//       use(sums->get<std::string_view>(i, 0), sums->get<std::int64_t>(i, 2));
//     }
//
// Source:      Leis, Boncz, Kemper, Neumann: Morsel-Driven Parallelism, SIGMOD 2014 (a morsel is a
//              run of rows, which a thread that has nothing to do takes from a shared counter);
//              Boncz, Zukowski, Nes: MonetDB/X100, CIDR 2005 (some hundred values at a time go
//              through each step).
// Idea:        the rows of a table lie in blocks, column by column. A thread copies the columns
//              that it needs of some hundred rows (block.hpp). It looks for no versions of rows
//              that were not changed since the snapshot. Filters leave a list of row numbers, and
//              sums go over that. Each thread has sums and groups of its own, which are put
//              together at the end.
// Nulls:       no comparison is true of a null. Sums, min, max, avg and count(column) leave nulls
//              out. Where nothing is left they are null, and count is 0. All nulls make one group.
// Integers:    a sum is computed in 128 bits, which no table fills. If it does not fit into 64
//              bits, get<std::int64_t> throws std::overflow_error, and get<double> gives a double.
//              Results are the same for any number of threads. So are sums of decimals, which have
//              the digits of their column.
// Doubles:     sums carry what was lost by rounding (Neumaier). So the number of threads changes
//              the last digit at most, unless the numbers cancel each other out. NaN and the
//              infinities are ordered as in indexes: there is one NaN, which is above all others,
//              is equal to itself, and makes one group. The processor computes sums: where it
//              flushes small numbers to zero, sums do, too. Filters, groups, min and max compare
//              the bits.
// Long values: conditions and count() take texts without a limit, and blobs; group_by(), min() and
//              max() do not. A reader that may be ended copies each such value that a condition is
//              about. So conditions that leave few rows should come first.
// Threads:     the threads of a query end with it. A query holds no lock and no guard, and no
//              thread waits for it. A reader that may be ended is in a step only while some hundred
//              rows are copied.
// Errors:      std::invalid_argument for columns that do not exist and types that do not fit,
//              std::bad_alloc, and what a condition of the program throws: then there is no answer.
#pragma once

#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/db/result.hpp>
#include <spolia/db/schema.hpp>
#include <spolia/db/stop.hpp>
#include <spolia/db/table.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class reader;
struct session;

enum class comparison : std::uint8_t { equal, unequal, less, less_equal, greater, greater_equal };
using enum comparison;

/// A column of the table that is asked: by its name, or one that was looked up.
class query_column {
 public:
  query_column(std::string name) : name_(std::move(name)) {}  // NOLINT: a name is a column
  query_column(std::string_view name) : name_(name) {}        // NOLINT
  query_column(const char* name) : name_(name) {}             // NOLINT
  template <class T>
  query_column(column<T> c) noexcept  // NOLINT
      : known_(true), number_(c.number), table_(c.of) {}

 private:
  friend class query;
  [[nodiscard]] const column_layout& in(const schema& s) const;

  std::string name_;
  bool known_ = false;
  std::uint32_t number_ = 0;
  std::uint32_t table_ = 0;  // schema::tag()
};

/// A value that is computed from many rows: what count() and its like return.
struct measure {
  enum class kind : std::uint8_t { rows, present, sum, min, max, avg };
  kind what = kind::rows;
  query_column of{""};
};
/// Rows.
inline measure count() { return {}; }
/// Values that are not null.
inline measure count(query_column of) { return {measure::kind::present, std::move(of)}; }
/// Of int64, float64 and decimals.
inline measure sum(query_column of) { return {measure::kind::sum, std::move(of)}; }
/// Always a double.
inline measure avg(query_column of) { return {measure::kind::avg, std::move(of)}; }
/// Of any type but text() and blob(); texts compare as bytes.
// In parentheses, since <windows.h> has macros of these names.
inline measure(min)(query_column of) { return {measure::kind::min, std::move(of)}; }
inline measure(max)(query_column of) { return {measure::kind::max, std::move(of)}; }

struct query_options {
  /// Threads that work, the caller's included; 0: as many as there are processors, or fewer for a
  /// small table. If one cannot be started, the others do its work.
  std::uint32_t threads = 0;
  /// Called for each further thread, instead of starting one: it is given the work, and hands it to
  /// a thread of the program. That thread may run it late, or never. If it throws, there are no
  /// more threads.
  std::function<void(std::function<void()>)> lend{};
  /// After so long the answer is outcome::stopped; 0: never.
  std::chrono::nanoseconds longest{0};
  /// The token of a stop_source, or a std::stop_token, which ends the query in the same way.
  stop_token stop{};
  /// Rows that a thread takes at a time.
  std::uint32_t morsel = 16384;
};

/// What the query took.
struct query_figures {
  std::uint64_t looked_at = 0;  ///< positions of rows that were read
  std::uint64_t rows = 0;       ///< rows that all conditions hold for
  std::uint64_t old = 0;        ///< positions that were read one by one, by way of their versions
  std::uint32_t threads = 0;    ///< that had some of the work
};

struct query_plan;
class query_groups;

/// Rows of results: the columns of group_by(), then those of aggregate(), each in the order in
/// which they were asked for. Groups ascend by their columns, nulls first. An answer that was moved
/// from has no rows and no columns. It needs neither its query nor its reader any more.
class SPOLIA_EXPORT answer {
 public:
  answer(answer&&) noexcept;
  answer& operator=(answer&&) noexcept;
  ~answer();

  // Rows and columns that are not there throw std::invalid_argument.

  /// Without group_by() this is 1.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::size_t columns() const noexcept;
  /// "district", "sum(amount)".
  [[nodiscard]] const std::string& name(std::size_t column) const;
  /// Text lives as the answer does. Throws std::overflow_error if it is a sum of integers that does
  /// not fit.
  [[nodiscard]] value at(std::size_t row, std::size_t column) const;
  [[nodiscard]] bool null(std::size_t row, std::size_t column) const;
  /// A null is zero, false or empty. T is std::int64_t, double, bool, std::string_view,
  /// decimal_number or instant; sums of integers and of decimals are doubles, too. Throws
  /// std::invalid_argument for other types, and as at().
  template <class T>
  [[nodiscard]] T get(std::size_t row, std::size_t column) const {
    if constexpr (std::same_as<T, double>) {
      return real(row, column);
    } else {
      const value v = at(row, column);
      if (v.null()) return T{};
      if (const T* const t = std::get_if<T>(&v.what())) return *t;
      refuse_type(column, v);
    }
  }
  [[nodiscard]] const query_figures& figures() const noexcept { return figures_; }

 private:
  friend class query;
  answer(std::shared_ptr<const query_plan> of, std::unique_ptr<query_groups> all,
         const query_figures& took);
  [[nodiscard]] double real(std::size_t row, std::size_t column) const;
  [[nodiscard]] const std::uint64_t* entry(std::size_t row, std::size_t column) const;
  [[noreturn]] void refuse_type(std::size_t column, const value& is) const;

  std::shared_ptr<const query_plan> plan_;
  std::unique_ptr<query_groups> groups_;
  std::vector<std::uint32_t> order_;
  query_figures figures_;
};

/// A question about one table. It may be run any number of times while the reader lives, also after
/// the reader was moved. In a transaction it sees the transaction's own changes, too. When the
/// reader or the transaction has ended, run() returns how. For a transaction that had ended before
/// the question was made, that is what transaction::state() says; else it is the outcome without a
/// reason.
/// Precondition of all members: the database is there.
class SPOLIA_EXPORT query {
 public:
  query(const reader& at, const table& of);
  query(const query&) noexcept;
  query& operator=(const query&) = delete;
  ~query();

  /// Takes only rows for which this and all other conditions hold. A comparison with null throws
  /// std::invalid_argument: use where_null().
  query& where(const query_column& c, comparison how, const value& v);
  query& where_null(const query_column& c);
  query& where_not_null(const query_column& c);
  /// `f(value)` says; it is not asked about nulls. Called by all threads of the query.
  template <class T, std::predicate<T> F>
  query& where(column<T> c, F f) {
    return where_words(c, [f = std::move(f), c](const std::uint64_t* words) -> bool {
      return f(value_in(c, words));
    });
  }

  template <class... Columns>
  query& group_by(const Columns&... columns) {
    (group_by_column(query_column(columns)), ...);
    return *this;
  }
  template <class... Measures>
  query& aggregate(const Measures&... measures) {
    (add_measure(measures), ...);
    return *this;
  }

  /// Throws std::invalid_argument if nothing is asked for.
  [[nodiscard]] result<answer> run(const query_options& o = {}) const;

 private:
  query& where_words(const query_column& c, std::function<bool(const std::uint64_t*)> holds);
  void group_by_column(const query_column& c);
  void add_measure(const measure& m);
  query_plan& plan();

  session* at_;  // null: the reader had ended, as ended_ says
  status ended_;
  std::uint64_t turn_;  // of the reader, in the session
  const table& of_;
  std::shared_ptr<query_plan> plan_;  // shared by answers: never changed then
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

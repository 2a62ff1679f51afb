// SPDX-License-Identifier: Apache-2.0
// ycsb_engine.hpp: what an engine must do to be measured by `spolia-bench ycsb`: ours, and those of
// other libraries.
#pragma once

#include <spolia/base/counters.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/durability.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace bench {

enum class ycsb_action : std::uint8_t {
  read,
  update,
  insert,
  scan,
  modify  ///< reads the whole row, then updates it
};

/// One operation of a transaction.
struct ycsb_op {
  ycsb_action what = ycsb_action::read;
  std::uint64_t key = 0;
  std::uint32_t count = 0;   ///< of rows to scan, from the key upwards
  std::uint32_t column = 0;  ///< to be updated, if not all are
};

/// What the rows are. Columns of 8 bytes are numbers, others are text.
struct ycsb_shape {
  std::string versions;  ///< ours: the version storage
  std::string index;     ///< ours: the kind of its hash index
  std::uint32_t columns = 10;
  std::uint32_t width = 8;
  bool update_all = true;   ///< an update adds one to every column; else it writes one column anew
  std::uint32_t touch = 0;  ///< so many of the first columns are read and updated; 0: all
  bool changes = false;     ///< ours: versions have the changed columns only, where they can
  bool ordered = false;     ///< there are scans
  std::uint64_t rows = 0;   ///< to begin with
  std::uint32_t partition = 1024;
  std::uint64_t partition_cache = 1U << 20U;
  std::string durability = "memory";  ///< or none, async, sync: in a directory
  std::string directory;              ///< where a folder is made for it; empty: anywhere
  [[nodiscard]] std::uint32_t bytes() const noexcept { return columns * width; }
  [[nodiscard]] std::uint32_t touched() const noexcept { return touch == 0 ? columns : touch; }
};

/// Tries that were not committed, by cause.
struct ycsb_aborts {
  spolia::tally conflict;    ///< another client changed a row first, or has it locked
  spolia::tally limit;       ///< no memory for versions
  spolia::tally no_history;  ///< the engine has dropped what it needs to find a conflict
  spolia::tally given_up;    ///< transactions that were dropped after a thousand tries
};

/// What one thread works with.
class ycsb_session {
 public:
  ycsb_session() = default;
  virtual ~ycsb_session() = default;
  ycsb_session(const ycsb_session&) = delete;
  ycsb_session& operator=(const ycsb_session&) = delete;
  /// Runs these as one transaction, again after conflicts. False: given up.
  virtual bool run(std::span<const ycsb_op> ops) = 0;

  ycsb_aborts aborts;
  spolia::tally missed;   ///< reads and updates that found no row
  std::uint64_t sum = 0;  ///< of what was read, so that it is
};

class ycsb_engine {
 public:
  ycsb_engine() = default;
  virtual ~ycsb_engine() = default;
  ycsb_engine(const ycsb_engine&) = delete;
  ycsb_engine& operator=(const ycsb_engine&) = delete;
  virtual std::unique_ptr<ycsb_session> open() = 0;
  /// Opens a snapshot of everything and keeps it. Throws usage_error where that would keep all
  /// threads from writing.
  virtual void hold() = 0;
  /// Adds up a column of all rows as of now: row by row, or, with threads, by a query. How many
  /// rows there were; none where there is no such thing.
  virtual std::optional<std::uint64_t> scan(std::uint32_t /*threads*/) { return {}; }
  /// Of the version storage. None: the engine has no such figures.
  [[nodiscard]] virtual std::optional<spolia::db::delta_stats> versions() const { return {}; }
  [[nodiscard]] virtual std::optional<std::uint64_t> table_bytes() const { return {}; }
  [[nodiscard]] virtual std::optional<spolia::db::log_stats> log() const { return {}; }
  /// Takes a checkpoint, where there is such a thing.
  virtual std::optional<spolia::db::checkpoint_report> checkpoint() { return {}; }
};

/// An engine by name. Those of other libraries put themselves here before main.
struct ycsb_choice {
  std::string name;
  std::unique_ptr<ycsb_engine> (*make)(const ycsb_shape&);
  bool grows = true;  ///< rows can be inserted while others work; rows can be scanned
};
std::vector<ycsb_choice>& ycsb_engines();

/// Calls attempt() until it is true, with growing pauses, a thousand times at most.
template <class F>
bool until_committed(ycsb_aborts& aborts, F&& attempt) {
  constexpr unsigned tries = 1000;
  constexpr std::chrono::microseconds longest{1000};
  for (unsigned n = 1; n <= tries; ++n) {
    if (attempt()) return true;
    if (n < 4) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(
          std::min(longest, std::chrono::microseconds{1 << std::min(n, 10U)}));
    }
  }
  aborts.given_up.add();
  return false;
}

/// For engines that know bytes only: all columns of a row, one after the other.
class ycsb_bytes {
 public:
  explicit ycsb_bytes(const ycsb_shape& shape) : shape_(shape), row_(shape.bytes(), 'a') {}

  /// A row to be inserted.
  const std::string& fresh() {
    if (shape_.width == 8) {
      std::fill(row_.begin(), row_.end(), '\0');
    } else {
      std::fill(row_.begin(), row_.end(), 'a');
    }
    return row_;
  }
  /// A row after an update.
  const std::string& changed(const char* row, const ycsb_op& op) {
    row_.assign(row, shape_.bytes());
    change(row_.data(), op);
    return row_;
  }
  /// The same in place.
  void change(char* row, const ycsb_op& op) {
    const std::uint32_t first = shape_.update_all ? 0 : op.column;
    const std::uint32_t end = shape_.update_all ? shape_.touched() : op.column + 1;
    for (std::uint32_t c = first; c < end; ++c) {
      char* const at = row + std::size_t{c} * shape_.width;
      if (shape_.width == 8) {
        std::uint64_t v = 0;
        std::memcpy(&v, at, 8);
        ++v;
        std::memcpy(at, &v, 8);
      } else {
        std::memset(at, 'a' + static_cast<int>(++writes_ % 26), shape_.width);
      }
    }
  }
  /// Something of every column.
  [[nodiscard]] std::uint64_t look(const char* row) const noexcept {
    std::uint64_t sum = 0;
    for (std::uint32_t c = 0; c < shape_.touched(); ++c) {
      sum += static_cast<unsigned char>(row[std::size_t{c} * shape_.width]);
    }
    return sum;
  }

 private:
  const ycsb_shape shape_;
  std::string row_;
  std::uint64_t writes_ = 0;
};

/// A key whose bytes compare as the numbers do.
inline std::string_view ycsb_key(std::uint64_t key, char (&to)[8]) noexcept {
  for (unsigned i = 0; i < 8; ++i) to[i] = static_cast<char>(key >> (56 - 8 * i));
  return {to, 8};
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// transaction_options.hpp: what a program can ask of a snapshot or a transaction.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

enum class isolation : std::uint8_t { snapshot, serializable };

struct reader_options {
  std::string label{};  ///< shows in readers()
  /// When it has lived for so long, others may end it; 0: never. See outcome::ended_by_policy.
  std::chrono::nanoseconds deadline{0};
};

struct transaction_options {
  std::string label{};  ///< shows in readers()
  db::isolation isolation = db::isolation::snapshot;
  /// How long to wait for one lock, if it is a younger transaction's, or that of one that does not
  /// wait. 0: never.
  std::chrono::microseconds longest_wait{0};
  /// As for readers.
  std::chrono::nanoseconds deadline{0};
  /// transaction::age() of an earlier try; 0: the youngest of all.
  std::uint64_t age = 0;
  /// commit() returns ok only when everything that the transaction can have seen is durable, also
  /// if it has changed nothing: commits become visible before the disk has them, so without this
  /// a crash can take back what a transaction that only read was told. It waits for the log up to
  /// its snapshot, and not for what came later. Nothing is waited for in a database that is only in
  /// memory, is read_only, or has durability_level::none. Also on with options::durable_reads.
  bool durable_reads = false;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

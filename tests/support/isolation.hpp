// SPDX-License-Identifier: Apache-2.0
/// \file
/// Whether what transactions saw could have come from snapshot isolation, or from one transaction
/// after the other.
///
/// The test gives each version that it writes a number of its own, and notes which versions each
/// committed transaction read and replaced. From that follow the dependencies of Adya (Weak
/// Consistency, PhD thesis, MIT 1999): one transaction read a version of another (wr), replaced one
/// (ww), replaced what the other had read (rw), or came after the other in one thread. A history is
/// one of snapshot isolation, in which each thread also sees its own commits, if and only if there
/// is no cycle in which no two rw edges follow each other (Cerone and Gotsman: Analysing Snapshot
/// Isolation, PODC 2016). It is serializable, with each thread's transactions in their order, if
/// and only if there is no cycle at all. What the checkers say names the kind: G0 (a cycle of
/// ww), G1a (a version of a transaction that was rolled back was read), G1b (one that its own
/// transaction replaced), G1c (a cycle of ww and wr), G2 (one with rw).
///
/// That a key is not there is a version, too: that of the transaction that deleted it, or 0. A
/// transaction that looked through a range has read all keys of it; and where rows are in a range
/// by something that changes, what came into it later is `missed`.
///
///     transaction_log t{.thread = 0};
///     t.reads.push_back({key, version});  t.writes.push_back({key, replaced, made});
///     EXPECT_EQ(snapshot_isolation_broken(all), "");
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spolia::test {

/// One committed transaction. Version 0 is what every key has at first.
struct transaction_log {
  struct read {
    std::uint64_t key;
    std::uint64_t version;
  };
  struct write {
    std::uint64_t key;
    std::uint64_t replaced;
    std::uint64_t made;  ///< not 0, and no other version's
  };
  unsigned thread = 0;          ///< transactions of one thread are listed in their order
  std::vector<read> reads{};    ///< of versions that the transaction has not made itself
  std::vector<write> writes{};  ///< one for each key: the last version
  std::vector<read> passed{};   ///< versions that it has made and replaced itself
  std::vector<read> missed{};   ///< versions that a scan would have shown after they were committed
  bool rolled_back = false;     ///< no transaction may see what it has made
};

/// What is wrong, in one sentence; empty if nothing.
[[nodiscard]] std::string snapshot_isolation_broken(const std::vector<transaction_log>& all);
[[nodiscard]] std::string serializability_broken(const std::vector<transaction_log>& all);

}  // namespace spolia::test

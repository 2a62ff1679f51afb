// SPDX-License-Identifier: Apache-2.0
/// \file What the parts of the contract suite share. The suite states what every domain promises,
/// whatever its scheme and release policy; contract_*_test.cpp are its parts.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include <spolia/reclaim.hpp>

#include "support/all_domains.hpp"
#include "support/elsewhere.hpp"
#include "support/ledger.hpp"

namespace spolia::test {

template <class Domain, class Value = tracked>
struct block : Domain::header {
  explicit block(ledger& book, std::uint64_t v = 0) : value(book, v) {}
  Value value;
};

/// Unlinks nothing: for blocks that only the caller knows, or that the caller has just unlinked.
template <class Guard, class Block>
void retire_tracked(Guard& guard, Block* b) {
  b->value.note_retired();
  guard.retire(b);
}

/// Makes and retires `count` blocks, each in an operation of its own.
template <class Domain>
void retire_fresh(Domain& d, ledger& book, int count) {
  for (int i = 0; i < count; ++i) {
    auto* const fresh = d.template make<block<Domain>>(book);
    auto guard = d.enter();
    retire_tracked(guard, fresh);
  }
}

/// Reads a pointer and protects what it leads to, under any scheme.
template <class Guard, class T>
auto hold(Guard& guard, const atomic<T*>& source) {
  return guard.read([&](auto& phase) { return phase.keep(phase.protect(source)); });
}

}  // namespace spolia::test

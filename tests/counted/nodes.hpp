// SPDX-License-Identifier: Apache-2.0
/// \file
/// Nodes over a family of pointers, in a book, and the fixture that wants them all to have ended.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include <spolia/memory.hpp>

#include "support/ledger.hpp"

namespace spolia::test {

template <class Family>
struct booked_node {
  booked_node(ledger& book, int key) : value(book, static_cast<std::uint64_t>(key)) {}
  [[nodiscard]] int key() const { return static_cast<int>(value.read()); }

  tracked value;
  typename Family::template location<booked_node> next;
  typename Family::template location<booked_node> other;
  typename Family::template pointer<booked_node> owned;
};

template <class Family>
class nodes_end : public testing::Test {
 public:
  ~nodes_end() override {
    EXPECT_TRUE(counted::drain());
    book.expect_empty();
  }
  auto make(int key) { return Family::template make<booked_node<Family>>(book, key); }

  ledger book;
};

}  // namespace spolia::test

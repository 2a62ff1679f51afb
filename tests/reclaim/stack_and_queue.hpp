// SPDX-License-Identifier: Apache-2.0
/// \file Threads put values into a stack or a queue (support/structures.hpp) and take them out,
/// over domains with options of their own, and a ledger says what was kept.
#pragma once

#include <atomic>
#include <cstdint>

#include <spolia/reclaim/domain.hpp>

#include "support/ledger.hpp"
#include "support/stress.hpp"
#include "support/structures.hpp"
#include "support/within_bound.hpp"

namespace spolia::test {

/// Threads put and take; what was put is taken once, garbage stays within the scheme's bound, and
/// in the end nothing is left.
template <template <class, class> class Container, class Domain>
void stress_container(typename Domain::options options, unsigned threads) {
  ledger book;
  std::atomic<std::uint64_t> put{0};
  std::atomic<std::uint64_t> taken{0};
  {
    Domain domain(options);
    {
      Container<tracked, Domain> container(domain);
      run_stress({.threads = threads}, [&](stress_thread& self) {
        std::uint64_t in = 0;
        std::uint64_t out = 0;
        while (self.running()) {
          if (self.random().chance(1, 2)) {
            const std::uint64_t value = self.random()() >> 8U;
            container.put(tracked(book, value));
            in += value;
          } else if (const auto value = container.take()) {
            out += value->read();
          }
          const auto look = [](const tracked& value) { static_cast<void>(value.read()); };
          if constexpr (requires { container.walk(20, look); }) container.walk(20, look);
          expect_within_bound(domain, threads + 1, [&] { return book.limbo(); }, threads + 1);
        }
        put += in;
        taken += out;
      });
      while (const auto value = container.take()) taken += value->read();
      ASSERT_NE(domain.garbage_bound(threads + 1).has_value(),
                protects_eras<typename Domain::scheme_type>);
    }
    EXPECT_TRUE(domain.drain());
  }
  EXPECT_EQ(put.load(), taken.load());
  EXPECT_GT(book.retired(), 0);
  book.expect_empty();
}

}  // namespace spolia::test

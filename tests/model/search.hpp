// SPDX-License-Identifier: Apache-2.0
/// \file
/// How far to search for what should not be there.
#pragma once

#include <cstdlib>
#include <functional>

#include <spolia/model/engine.hpp>

namespace spolia::test {

/// How much further than usual to search: `./dev model --deeper`.
inline int deeper() {
  const char* const asked = std::getenv("SPOLIA_MODEL_DEEPER");
  return asked == nullptr ? 0 : std::atoi(asked);
}

/// Whether a search of what is right may end before it has tried everything: in each day's run.
/// `./dev model` and `./dev test --all` try everything. Planted faults are always looked for until
/// they are found.
#if SPOLIA_TEST_EVERY_DAY
inline constexpr bool cut_short = true;
#else
inline constexpr bool cut_short = false;
#endif

/// The outcome of a search of what is right. If it is cut short, what is left is sampled: by random
/// priorities that change as often as preemptions are allowed. Then it counts as exhausted. Of a
/// search in random orders, half is tried.
inline model::outcome searched(model::options how,
                               const std::function<void(model::scenario&)>& setup) {
  const bool shorter = cut_short && deeper() == 0;
  if (shorter && how.how == model::options::mode::pct) how.executions = (how.executions + 1) / 2;
  const bool cut = shorter && how.how == model::options::mode::exhaustive;
  if (cut) how.executions = 8'000;
  model::outcome got = model::explore(how, setup);
  if (!cut || got.exhausted || !got.ok) return got;
  how.how = model::options::mode::pct;
  how.executions = 2'000;
  how.pct_depth = how.preemptions + 1;
  model::outcome sampled = model::explore(how, setup);
  sampled.executions += got.executions;
  sampled.exhausted = true;
  return sampled;
}

}  // namespace spolia::test

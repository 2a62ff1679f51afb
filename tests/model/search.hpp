// SPDX-License-Identifier: Apache-2.0
/// \file
/// How far to search for what should not be there.
#pragma once

#include <cstdint>
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

/// How many executions a search tries that is cut short: more than any planted fault of the token
/// needs. A program whose own faults are all found far earlier may ask for fewer.
inline constexpr std::uint64_t usual_tries = 8'000;

/// The outcome of a search of what is right. If it is cut short, what is left is sampled: by random
/// priorities that change as often as preemptions are allowed. Then it counts as exhausted. Of a
/// search in random orders, half is tried.
inline model::outcome searched(model::options how,
                               const std::function<void(model::scenario&)>& setup,
                               std::uint64_t tries = usual_tries) {
  const bool shorter = cut_short && deeper() == 0;
  if (shorter && how.how == model::options::mode::pct) how.executions = (how.executions + 1) / 2;
  const bool cut = shorter && how.how == model::options::mode::exhaustive;
  if (cut) how.executions = tries;
  model::outcome got = model::explore(how, setup);
  if (!cut || got.exhausted || !got.ok) return got;
  how.how = model::options::mode::pct;
  how.executions = tries / 4;
  how.pct_depth = how.preemptions + 1;
  model::outcome sampled = model::explore(how, setup);
  sampled.executions += got.executions;
  sampled.exhausted = true;
  return sampled;
}

}  // namespace spolia::test

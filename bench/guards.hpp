// SPDX-License-Identifier: Apache-2.0
// guards.hpp: what protection costs where nothing is contended.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace bench {

/// One record for each scheme and operation: nanoseconds for one, the median and the extremes of
/// `rounds` interleaved measurements, on one thread.
std::vector<nlohmann::json> measure_guards(std::uint32_t rounds);

}  // namespace bench

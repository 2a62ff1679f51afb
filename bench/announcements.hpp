// SPDX-License-Identifier: Apache-2.0
// announcements.hpp: how many other threads' announcements a scheme reads, counted.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace bench {

/// One record for each scheme and each number of threads: how often an operation that retires one
/// block looks at another thread's part of the scheme. A count, not a time: it can be had for more
/// threads than there are cores.
std::vector<nlohmann::json> count_announcements(const std::vector<std::uint32_t>& threads,
                                                std::uint32_t operations);

}  // namespace bench

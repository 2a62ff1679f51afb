// SPDX-License-Identifier: Apache-2.0
// tpcc_check.hpp: TPC-C's conditions of consistency (clause 3.3.2).
#pragma once

#include <spolia/db.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tpcc_tables.hpp"

namespace bench {

/// How many conditions there are: 1 to 12.
inline constexpr std::uint32_t tpcc_conditions = 12;

/// What does not hold at this snapshot, a sentence each, the first few of each condition.
/// `delivered` has the orders that Delivery has brought, district by district: condition 11, which
/// the specification has for the beginning only, is checked for any time with it.
std::vector<std::string> check_tpcc(const spolia::db::reader& at, const tpcc_tables& in,
                                    const tpcc_scale& scale,
                                    const std::vector<std::uint64_t>& delivered);

/// Changes rows so that this condition does not hold any more, to try the check.
void spoil_tpcc(spolia::db::database& base, tpcc_tables& in, std::uint32_t condition);

}  // namespace bench

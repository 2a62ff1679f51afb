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

/// What was done in a district, as far as no row tells it.
struct tpcc_done {
  std::uint64_t delivered = 0;   ///< orders that Delivery has brought
  std::uint64_t unrecorded = 0;  ///< orders without rows; of mix dbx1000, like what follows
  std::int64_t paid = 0;         ///< without a row in HISTORY

  tpcc_done& operator+=(const tpcc_done& other) {
    delivered += other.delivered;
    unrecorded += other.unrecorded;
    paid += other.paid;
    return *this;
  }
};

/// What does not hold at this snapshot, a sentence each, the first few of each condition. `done` is
/// in the order of the districts: condition 11, which the specification has for the beginning only,
/// is checked for any time with it. Condition 10 is left out where rows are missing.
std::vector<std::string> check_tpcc(const spolia::db::reader& at, const tpcc_tables& in,
                                    const tpcc_scale& scale, const std::vector<tpcc_done>& done);

/// Changes rows so that this condition does not hold any more, to try the check.
void spoil_tpcc(spolia::db::database& base, tpcc_tables& in, std::uint32_t condition);

}  // namespace bench

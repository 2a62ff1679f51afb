// SPDX-License-Identifier: Apache-2.0
// layouts.hpp: numbers for what tables look like. Internal.
#pragma once

#include <cstdint>

#include <spolia/db/schema.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The same for tables with the same columns, in all databases of the process, and another one for
/// each other: what a column says that it belongs to can be trusted. Names of tables are no part of
/// it, since they change. It remembers each that it was asked about until the process ends, in 48
/// bytes. Lock-free; throws std::bad_alloc, and std::length_error after four billion of them.
std::uint32_t layout_number(const table_spec& spec);

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// machine.hpp: where a figure was measured, how much memory the process holds, and what processor
// time its threads have had.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace bench {

nlohmann::json machine();
/// The allocator behind malloc in this process: glibc, jemalloc, tcmalloc, mimalloc or unknown.
std::string allocator();
std::string compiler();

/// Starts the peak of the resident set anew, where the kernel allows it.
void reset_peak_rss();
std::uint64_t peak_rss_bytes();
/// Pages that this process has had mapped on first use, so far.
std::uint64_t page_faults();
/// The resident set now; 0 where the kernel does not tell.
std::uint64_t rss_bytes();

/// Processor time that the calling thread has had, in nanoseconds.
std::uint64_t processor_ns();

}  // namespace bench

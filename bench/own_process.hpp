// SPDX-License-Identifier: Apache-2.0
// own_process.hpp: a trial in a process of its own, for figures of memory: what an earlier trial
// has freed is still resident, and a later one would seem to need less than it does.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>

namespace bench {

/// What `run` returns, which runs in a child process. What it throws comes out as a
/// std::runtime_error with the same words, and so does the end of the child by a signal. No other
/// thread may run.
nlohmann::json in_own_process(const std::function<nlohmann::json()>& run);

}  // namespace bench

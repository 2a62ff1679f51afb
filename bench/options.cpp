// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>

namespace bench {
void check(const set_options& o) {
  within<std::uint64_t>("threads", o.threads, 1, 4096);
  within<std::uint64_t>("keys", o.keys, 1, std::uint64_t{1} << 32U);
  within("theta", o.theta, 0.0, 0.999);
  within<std::uint64_t>("update", o.update, 0, 100);
  within("seconds", o.seconds, 0.01, 86400.0);
  within("warm-up", o.warm_up, 0.0, 86400.0);
  within<std::uint64_t>("trials", o.trials, 1, 100000);
  within<std::uint64_t>("batch", o.batch, 0, std::uint64_t{1} << 30U);
  within<std::uint64_t>("time-frees", o.time_frees, 0, 1000000);
  const bool listed = o.structure.ends_with("list") && !o.structure.ends_with("skip_list");
  if (listed && o.keys > 100000) {
    throw usage_error(
        fmt::format("--keys {} with --structure {}: a list of that length is too slow to measure; "
                    "at most 100000",
                    o.keys, o.structure));
  }
}

}  // namespace bench

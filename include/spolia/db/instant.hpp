// SPDX-License-Identifier: Apache-2.0
// instant.hpp: the values of timestamp columns, which are microseconds since 1970 in UTC. They are
// written as in ISO 8601: "2026-11-22T21:14:00.25Z".
//
// Errors:      std::invalid_argument with one sentence.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

using instant = std::chrono::time_point<std::chrono::system_clock,
                                        std::chrono::duration<std::int64_t, std::micro>>;

constexpr instant instant_at(std::int64_t microseconds) noexcept {
  return instant(instant::duration(microseconds));
}
constexpr std::int64_t microseconds_of(instant t) noexcept { return t.time_since_epoch().count(); }

/// Without a fraction where that is zero, else with as many digits as it needs. Years before 0 and
/// after 9999 have a sign and six digits. Reads back as the same instant, whichever it is.
SPOLIA_EXPORT std::string to_text(instant t);
/// "2026-11-22T21:14:00Z", with a fraction of a second or without; instead of Z a difference to UTC
/// such as +02:00, of T a space. Refuses days and times that do not exist, and parts of a
/// microsecond.
SPOLIA_EXPORT instant instant_of(std::string_view text);

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// text.hpp: values as text, and back, without loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <spolia/db.hpp>
#include <spolia/db/json.hpp>

#include "base/so_many.hpp"

namespace tool {

void append(std::string& to, std::int64_t v);
/// The shortest decimals that read back as the same number; inf, -inf and nan.
void append(std::string& to, double v);

/// The whole text, or nothing.
std::optional<std::int64_t> to_int64(std::string_view s) noexcept;
std::optional<double> to_float64(std::string_view s) noexcept;

std::optional<spolia::db::decimal_number> to_decimal(std::string_view s);
std::optional<spolia::db::instant> to_instant(std::string_view s);

using spolia::so_many;
using spolia::db::append_base64;
using spolia::db::is_utf8;
std::optional<std::string> from_base64(std::string_view s);

inline constexpr std::uint64_t fnv1a_of_nothing = 0xcbf29ce484222325U;
/// FNV-1a, of what `before` is of and then of these.
std::uint64_t fnv1a(std::string_view s, std::uint64_t before = fnv1a_of_nothing) noexcept;

/// The outcome, and its reason if it has one.
std::string in_words(const spolia::db::status& s);

/// For a terminal: what could move its cursor is a question mark.
std::string printable(std::string_view s);

/// On standard error. What cannot be written there is lost, and ends nothing.
void say(std::string_view words) noexcept;

/// 1234567 as 1.2 M; bytes as 1.2 MB.
std::string short_count(std::uint64_t n);

}  // namespace tool

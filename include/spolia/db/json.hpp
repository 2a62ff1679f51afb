// SPDX-License-Identifier: Apache-2.0
// json.hpp: values and rows as JSON, as `spolia dump` writes them and `spolia load` reads them.
//
// Exact:       numbers are the shortest decimals that read back as the same number; text that is
//              not UTF-8, and blobs, are {"base64":"..."}; numbers that JSON has no word for are
//              "nan", "inf" and "-inf"; decimals have all their digits, timestamps are text.
// Errors:      std::bad_alloc.
#pragma once

#include <string>
#include <string_view>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/db/schema.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

[[nodiscard]] SPOLIA_EXPORT bool is_utf8(std::string_view s) noexcept;
/// A JSON string of UTF-8, with its quotes.
SPOLIA_EXPORT void append_json_string(std::string& to, std::string_view s);
SPOLIA_EXPORT void append_base64(std::string& to, std::string_view bytes);
/// The shortest decimals that read back as the same number; inf, -inf and nan. Whatever mode the
/// processor is in.
SPOLIA_EXPORT void append_number(std::string& to, double v);
SPOLIA_EXPORT void append_json(std::string& to, const argument& v);

/// An object with a member for each column; value_of(column) is what the row has in it.
template <class Value>
void append_json_row(std::string& to, const schema& of, Value&& value_of) {
  to += '{';
  for (const column_layout& c : of.columns()) {
    if (c.number != 0) to += ',';
    append_json_string(to, c.name);
    to += ':';
    append_json(to, value_of(c));
  }
  to += '}';
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

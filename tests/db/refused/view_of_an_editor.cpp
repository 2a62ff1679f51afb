// SPDX-License-Identifier: Apache-2.0
// A function of editor::visit() that returns the view, which is good until it returns.
// refused: returns a view, which is good until it returns
#include <string>
#include <string_view>

#include <spolia/db/database.hpp>

namespace db = spolia::db;

std::string owner_of(const db::editor& account, db::column<std::string_view> owner) {
#if defined(REFUSED)
  const auto shown = account.visit(owner, [](std::string_view text) { return text; });
#else
  const auto shown = account.visit(owner, [](std::string_view text) { return std::string(text); });
#endif
  return std::string(shown);
}

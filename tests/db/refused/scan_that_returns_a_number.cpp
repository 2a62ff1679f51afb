// SPDX-License-Identifier: Apache-2.0
// A function of a scan that returns a number, which would not stop it.
// refused: return false to stop, true to go on, or nothing
#include <cstdint>

#include <spolia/db/database.hpp>

namespace db = spolia::db;

std::int64_t first_of(const db::reader& at, const db::table& accounts) {
  std::int64_t first = 0;
  const auto id = accounts.column<std::int64_t>("id");
  at.for_each(accounts, [&](const db::row& r) {
    first = r.get(id);
#if defined(REFUSED)
    return 0;
#else
    return false;
#endif
  });
  return first;
}

// SPDX-License-Identifier: Apache-2.0
// reserve_file.cpp: made where there is room, and opened where there is none.
#include "db/files/reserve_file.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>

#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

bool means_full(const storage_error& e) noexcept {
  const std::error_code why = e.reason();
  return why == std::errc::no_space_on_device || why == std::errc::file_too_large ||
         (why.category() == std::system_category() && why.value() == EDQUOT);
}

void remove_quietly(folder& in, const std::string& name) noexcept {
  try {
    in.remove(name);
  } catch (const std::exception&) {
    return;
  }
}

/// A header may be there of a time before: nothing else may, for it would be taken for records.
std::unique_ptr<storage_file> reserve_file::open() {
  if (!folder_.has(name)) return nullptr;
  const file_bytes all = read_file(folder_, name);
  const bytes_view rest = all.view().subspan(std::min(all.size, file_header::bytes));
  return only_zeros(rest) ? folder_.open(name, file_mode::write) : nullptr;
}

/// One that was made with smaller segments is not. Where a layer of files reserves without making
/// files longer, it has no size.
bool reserve_file::is_large_enough() {
  if (!folder_.has(name)) return false;
  const std::uint64_t size = folder_.open(name, file_mode::read)->size();
  return size == 0 || size >= bytes_;
}

void reserve_file::make() noexcept {
  try {
    if (is_large_enough()) return;
    const std::string temporary = std::string(name) + ".tmp";
    try {
      const auto file = folder_.open(temporary, file_mode::fresh);
      file->reserve(0, bytes_);
      file->sync();
      folder_.rename(temporary, name);
      folder_.sync();
    } catch (...) {
      remove_quietly(folder_, temporary);
      throw;
    }
  } catch (const std::exception&) {
    look_again();
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

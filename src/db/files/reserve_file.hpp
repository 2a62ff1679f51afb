// SPDX-License-Identifier: Apache-2.0
// reserve_file.hpp: the file that becomes the next segment where the disk is full. Internal.
//
// An opening that may write needs another segment, and a disk that is full has no room for one.
// So a file of zeros lies ready, whose room no other file gets. With a header at its beginning and
// another name it is a segment.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <spolia/base/atomic.hpp>
#include <spolia/db/files.hpp>

#include "db/files/folder.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class reserve_file {
 public:
  static constexpr const char* name = "reserve.spl";

  /// Of so many bytes.
  reserve_file(folder& where, std::uint64_t bytes) noexcept : folder_(where), bytes_(bytes) {}

  /// To be made a segment of: null if there is none that is as it should be. Throws storage_error.
  std::unique_ptr<storage_file> open();
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// It may be missing from here on.
  void look_again() noexcept { wanted_.store_relaxed(true); }
  /// Makes it, if it is missing or too small and there is room. What fails is tried again by the
  /// next call.
  void refill() noexcept {
    // relaxed: the file says whether it is there.
    if (wanted_.load_relaxed() && wanted_.exchange_relaxed(false)) make();
  }

 private:
  bool is_large_enough();
  void make() noexcept;

  folder& folder_;
  const std::uint64_t bytes_;
  atomic<bool> wanted_{true};
};

/// Whether a reason says that there is no room: on the disk, in a quota, or for a file as long.
bool means_full(const storage_error& e) noexcept;

/// Calls `f`. Where that finds the disk full, the error says also which file it was for, and what
/// helps.
template <class F>
auto saying(const char* tried, F&& f) {
  try {
    return f();
  } catch (const storage_error& e) {
    if (!means_full(e)) throw;
    throw storage_error(e.file(), e.offset(), e.problem() + tried, e.reason(), e.fault());
  }
}

/// Takes away what was left of a file that could not be made. Fails without a word: the next
/// opening takes it away.
void remove_quietly(folder& in, const std::string& name) noexcept;

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

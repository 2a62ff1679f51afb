// SPDX-License-Identifier: Apache-2.0
// log_room.hpp: how much of a file's room no record was promised yet.
//
// Idea:        a commit can only be refused before it is published. So the room for its record is
//              promised before: one number says how many bytes were made and promised to none, and
//              a promise takes from it by compare-and-swap. What was promised stays promised until
//              the record is written, or its commit ends otherwise and gives it back. A thread that
//              moves on to another file brings at least as much room as the old one has left.
// Reserve:     some bytes are kept for commits that free room. The number counts from there: it is
//              negative where some of them were promised. The last of them are promised to none:
//              the next opening makes its segment of them, see log_writer::prepare_first().
// Progress:    lock-free.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class log_room {
 public:
  /// So many bytes are kept for what frees room, and as many more for the next opening.
  log_room(std::uint64_t for_deletions, std::uint64_t for_opening) noexcept
      : kept_(static_cast<std::int64_t>(for_deletions + for_opening)),
        for_deletions_(static_cast<std::int64_t>(for_deletions)) {}
  log_room(const log_room&) = delete;
  log_room& operator=(const log_room&) = delete;

  /// True: there is room for so many bytes, and no other record gets it.
  bool promise(std::size_t bytes) noexcept { return take(static_cast<std::int64_t>(bytes), 0); }
  /// The same, of what is kept for such as well.
  bool promise_kept(std::size_t bytes) noexcept {
    return take(static_cast<std::int64_t>(bytes), -for_deletions_);
  }
  /// A promise that will not be used. relaxed: the file is as it was.
  void give_back(std::size_t bytes) noexcept {
    left_.fetch_add_relaxed(static_cast<std::int64_t>(bytes));
  }
  /// So many bytes were made. release → the acquire in take().
  void made(std::uint64_t bytes) noexcept {
    left_.fetch_add_release(static_cast<std::int64_t>(bytes));
  }
  /// The first file has so much. Precondition: no other thread uses this yet.
  void begin(std::uint64_t bytes) noexcept {
    left_.store_relaxed(static_cast<std::int64_t>(bytes) - kept_);
  }
  /// How much of what is kept was promised.
  [[nodiscard]] std::uint64_t owed() const noexcept {
    const std::int64_t left = left_.load_relaxed();
    return left < 0 ? static_cast<std::uint64_t>(-left) : 0;
  }
  [[nodiscard]] std::uint64_t kept() const noexcept { return static_cast<std::uint64_t>(kept_); }

 private:
  bool take(std::int64_t bytes, std::int64_t least) noexcept {
    std::int64_t left = left_.load_relaxed();
    for (;;) {
      if (left - bytes < least) return false;
      if (SPOLIA_FAULT("log_room.promised_twice")) {
        left_.store_relaxed(left - bytes);
        return true;
      }
      // acquire ← the release in made(): the file was made longer before anything is written there.
      // give_back() continues that release, as every read-modify-write does.
      if (left_.cas_weak_acquire(left, left - bytes)) return true;
    }
  }

  const std::int64_t kept_;
  const std::int64_t for_deletions_;
  atomic<std::int64_t> left_{0};  // beyond what is kept
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// lock_file.hpp: which process has a directory where the file system has no locks. Internal.
//
// Idea:        an empty file whose name says which opening of which process it belongs to. So it is
//              made whole at once. No other opening makes the same name again, so any process that
//              knows that the owner has ended can remove the file. An opening makes its own file
//              first and then looks for others: of two openings at one time, one sees the other at
//              least (and both may, and be refused).
// Bounds:      processes of one machine that see each other's numbers are kept apart. Whether a
//              process of another machine or container lives cannot be known, so its file is in the
//              way until a user removes it. Openings that only read make no file: a file keeps them
//              out, and they keep out no other opening.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <spolia/base/config.hpp>
#include <spolia/db/files.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class lock_file {
 public:
  /// What stands in the way of an opening.
  struct obstacle {
    std::string name;          ///< of another's file
    const char* unknown;       ///< why it is not known whether its process lives; null: it does
    std::uint64_t number = 0;  ///< of its process, if it lives
  };

  /// What distinguishes a process from all others.
  struct process {
    std::uint64_t machine = 0;
    std::uint64_t boot = 0;     // which start of the machine
    std::uint64_t numbers = 0;  // the container in which it has its number
    std::uint64_t number = 0;
    std::uint64_t start = 0;  // its own, since another one may get its number
  };
  /// Nothing: the system does not say what names are made of, so that there cannot be any.
  [[nodiscard]] static std::optional<process> this_process();

  /// Which process has a lock of the system's on the file, in words for an error.
  [[nodiscard]] static std::string holder_of(const file_identity& locked);
  /// A process of this machine, in such words.
  [[nodiscard]] static std::string in_words(std::uint64_t process);

  /// One for this opening, by this process, of the directory whose SPOLIA is `of`.
  lock_file(storage_directory& in, const file_identity& of, const process& mine);
  ~lock_file();
  lock_file(const lock_file&) = delete;
  lock_file& operator=(const lock_file&) = delete;

  /// The first that is in the way; of those whose process lives, if there is one.
  [[nodiscard]] static std::optional<obstacle> in_the_way(storage_directory& in,
                                                          const file_identity& of,
                                                          const process& mine,
                                                          std::string_view but);
  /// Removes those of processes that have ended, and of directories that this one was copied from.
  void remove_ended();
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  storage_directory& in_;
  const file_identity of_;
  const process mine_;
  const std::string name_;
  const ::pid_t home_ = ::getpid();
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

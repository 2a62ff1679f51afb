// SPDX-License-Identifier: Apache-2.0
// errors.hpp: how a command ends that cannot do what it was told. One sentence each.
#pragma once

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>

namespace tool {

/// A wrong word on the command line or in a file of options: exit code 2, nothing was done.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// It was tried, and failed: exit code 1.
class failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// It was done, as far as it could be: exit code 3.
class something_is_missing : public failure {
 public:
  using failure::failure;
};

/// All that there is can be read, and the log ends in bytes that are no record: exit code 4.
class torn_end : public failure {
 public:
  using failure::failure;
};

/// The system has not let this process do it, or has not had the means, or the medium has not
/// answered; or files are of a format that this version does not know. That says nothing about the
/// store: exit code 5.
class could_not_look : public failure {
 public:
  using failure::failure;
};
/// Rights, memory, descriptors; and a medium that does not answer, or the way to it. What a file
/// system has found wrong with itself is no answer either.
inline bool is_denied(int reason) noexcept {
  switch (reason) {
    case EACCES:
    case EPERM:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EIO:
    case ENXIO:
    case ENODEV:
    case ESTALE:
    case ETIMEDOUT:
    case EBADMSG:
#if defined(__linux__)
    case EUCLEAN:
    case EREMOTEIO:
    case ENOMEDIUM:
#endif
      return true;
    default:
      return false;
  }
}

/// The input is not what it should be, at this place.
class bad_input : public failure {
 public:
  bad_input(const std::string& file, std::uint64_t line, std::uint64_t column,
            const std::string& what)
      : failure(file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + what) {}
};

/// A write to standard output has just failed.
inline std::string output_failure() {
  return "cannot write to standard output: " + std::generic_category().message(errno);
}

/// The user has had enough: exit code 128 and the signal's number.
class interrupted : public failure {
 public:
  interrupted() : failure("interrupted") {}
};

}  // namespace tool

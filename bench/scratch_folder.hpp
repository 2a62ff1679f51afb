// SPDX-License-Identifier: Apache-2.0
// scratch_folder.hpp: a folder for engines that want files: in memory where the system has such a
// place, and gone when the engine goes.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace bench {

class scratch_folder {
 public:
  /// `above`; empty: in memory, if there is such a place.
  static std::filesystem::path place(const std::string& above) {
    if (!above.empty()) return above;
    const bool memory = std::filesystem::is_directory("/dev/shm");
    return memory ? "/dev/shm" : std::filesystem::temp_directory_path();
  }
  /// There.
  explicit scratch_folder(const std::string& above = {}) {
    const std::filesystem::path in = place(above);
    path_ = in / "spolia-bench-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::runtime_error("cannot make a folder in " + in.string());
    }
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// What a program of a guide prints, run in an empty folder: see guides.cmake.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace guides {

inline std::string printed_by(void (*program)()) {
  namespace fs = std::filesystem;
  const fs::path before = fs::current_path();
  std::string name = (fs::temp_directory_path() / "spolia-guide-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    ADD_FAILURE() << "no folder can be made in " << fs::temp_directory_path();
    return {};
  }
  fs::current_path(name);
  testing::internal::CaptureStdout();
  program();
  std::string printed = testing::internal::GetCapturedStdout();
  fs::current_path(before);
  fs::remove_all(name);
  return printed;
}

}  // namespace guides

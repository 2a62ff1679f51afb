// SPDX-License-Identifier: Apache-2.0
// program.hpp: runs `spolia` as a user does, in a folder that goes afterwards.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern char** environ;

namespace tool_test {

namespace fs = std::filesystem;

inline std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_text(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

struct ended {
  int code = -1;  ///< minus the signal, if it was one
  std::string out;
  std::string err;
};

class program : public testing::Test {
 protected:
  program() {
    std::string name = (fs::temp_directory_path() / "spolia-tool-XXXXXX").string();
    here = ::mkdtemp(name.data());
  }
  ~program() override { fs::remove_all(here); }

  /// Starts it in the folder; its words go to the files out and err there.
  [[nodiscard]] pid_t start(const std::vector<std::string>& words,
                            const std::string& input = "/dev/null") const {
    std::string command = SPOLIA_PROGRAM;
    std::vector<char*> all{command.data()};
    std::vector<std::string> copies = words;
    for (std::string& w : copies) all.push_back(w.data());
    all.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addchdir_np(&files, here.c_str());
    posix_spawn_file_actions_addopen(&files, 0, input.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, "err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = 0;
    EXPECT_EQ(posix_spawn(&child, command.c_str(), &files, nullptr, all.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    return child;
  }
  [[nodiscard]] ended wait(pid_t child) const {
    int how = 0;
    EXPECT_EQ(waitpid(child, &how, 0), child);
    return {WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how), read_text(here / "out"),
            read_text(here / "err")};
  }
  [[nodiscard]] ended run(const std::vector<std::string>& words,
                          const std::string& input = "/dev/null") const {
    return wait(start(words, input));
  }
  /// It must succeed, in silence but for its output.
  [[nodiscard]] std::string good(const std::vector<std::string>& words,
                                 const std::string& input = "/dev/null") const {
    const ended e = run(words, input);
    EXPECT_EQ(e.code, 0) << e.err;
    EXPECT_EQ(e.err, "");
    return e.out;
  }
  /// It must fail with this code and one line that has these words in it, and leave no new file
  /// outside of the bank.
  void bad(int code, const std::string& said, const std::vector<std::string>& words,
           const std::string& input = "/dev/null") const {
    const auto before = names();
    const ended e = run(words, input);
    EXPECT_EQ(e.code, code) << e.err;
    EXPECT_EQ(e.out, "");
    EXPECT_TRUE(e.err.starts_with("spolia: ")) << e.err;
    EXPECT_EQ(e.err.find('\n'), e.err.size() - 1) << e.err;
    EXPECT_NE(e.err.find(said), std::string::npos) << e.err;
    EXPECT_EQ(names(), before);
  }
  /// All files below the folder, but for what the program has said, and the bank's own.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& one : fs::recursive_directory_iterator(here)) {
      const std::string name = fs::relative(one.path(), here).string();
      if (name != "out" && name != "err" && !name.starts_with("bank/")) all.push_back(name);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  fs::path here;
};

}  // namespace tool_test

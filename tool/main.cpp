// SPDX-License-Identifier: Apache-2.0
// main.cpp: spolia, the command-line tool of the store. docs/tool.md is the guide.
#include <spolia/version.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "errors.hpp"
#include "progress.hpp"
#include "store.hpp"
#include "text.hpp"

namespace {

/// What was asked for may be help, which has to be read somewhere.
int end_of_line(const CLI::App& app, const CLI::ParseError& e) {
  if (app.exit(e) != 0) return 2;
  if (std::cout && std::fflush(stdout) == 0) return 0;
  tool::say(fmt::format("spolia: {}\n", tool::output_failure()));
  return 1;
}

/// A command has failed with this exit code; or it was told to end, as shells expect that.
int fail(const std::string& why, int code) {
  tool::say(fmt::format("spolia: {}\n", why));
  return tool::interrupted_now() ? 128 + tool::interrupted_by() : code;
}

/// One of the first three descriptors may have been closed when this was started. The next file
/// that is opened would have its number, and what is printed would be written into that. So each is
/// taken by something that refuses what it is for, as a closed one does.
void have_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest number that is free, and so this one.
    static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

/// A store has a file for each segment of its log, and looking into one that a program has keeps as
/// many open as it may.
void have_descriptors() {
  struct rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur == most.rlim_max) return;
  most.rlim_cur = most.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &most));  // or it does with what it has
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tool;
  have_standard_streams();
  CLI::App app{"Looks after stores of Spolia: inspects, checks, dumps, loads, copies, watches.",
               "spolia"};
  app.set_version_flag("--version", std::string(SPOLIA_VERSION_STRING));
  app.require_subcommand(1);
  const std::vector<std::string> words = with_help({argv + std::min(argc, 1), argv + argc});
  app.failure_message([&](const CLI::App* of, const CLI::Error& e) {
    return fmt::format("spolia: {}\n", what_is_wrong(*of, e, words));
  });
  std::function<void()> run;
  add_commands(app, run);
  try {
    refuse_unknown(app, words);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // the last one first
    watch_for_interrupts();
    have_descriptors();
    run();
    if (std::fflush(stdout) != 0) throw failure(output_failure());
  } catch (const CLI::ParseError& e) {
    return end_of_line(app, e);
  } catch (const usage_error& e) {
    say(fmt::format("spolia: {}\n", plain(e)));
    return 2;
  } catch (const something_is_missing& e) {
    if (std::fflush(stdout) != 0) {
      say(fmt::format("spolia: {}\n", output_failure()));
      return 1;
    }
    say(fmt::format("spolia: {}\n", plain(e)));
    return 3;
  } catch (const torn_end& e) {
    say(fmt::format("spolia: {}\n", plain(e)));
    return 4;
  } catch (const could_not_look& e) {
    return fail(plain(e), 5);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 5);
  } catch (const db::storage_error& e) {
    return fail(plain(e), says_nothing(e) ? 5 : 1);
  } catch (const std::filesystem::filesystem_error& e) {
    return fail(plain(e), is_denied(e.code().value()) ? 5 : 1);
  } catch (const std::exception& e) {
    return fail(plain(e), 1);
  }
  return 0;
}

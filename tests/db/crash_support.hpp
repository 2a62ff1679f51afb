// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the programs that are killed need besides their database: steps of files that fail,
/// processes, arguments.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <utility>

#include <spolia/base/atomic.hpp>

#include "db/faulty_files.hpp"
#include "db/seals.hpp"

namespace spolia::test {

[[noreturn]] inline void wrong(const std::string& what) {
  std::fprintf(stderr, "spolia-crash: %s\n", what.c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

/// Makes steps of files fail: not what is done to records that were published, which would end the
/// log, nor what opens a directory.
class fault_maker {
 public:
  fault_maker(spolia::atomic<std::uint64_t>& count, std::uint64_t seed)
      : count_(count), random_(seed) {}
  int operator()(const file_step& s) {
    using kind = file_step::kind;
    // A thread that could not sync a directory takes back what it has done in it, and that may not
    // fail, too.
    thread_local int spared = 0;
    if (spared != 0) {
      --spared;
      return 0;
    }
    const std::lock_guard hold(lock_);
    if (!on_) return 0;
    const bool data = s.what == kind::write || s.what == kind::sync;
    if ((data && !s.is_temporary()) || s.what == kind::open_directory || s.what == kind::read) {
      return 0;
    }
    if (random_() % 12 != 0) return 0;
    if (s.what == kind::sync_directory) spared = 2;
    count_.fetch_add_relaxed(1);
    constexpr std::array<int, 3> reasons{ENOSPC, EMFILE, EIO};
    return reasons[random_() % reasons.size()];
  }
  void turn(bool on) {
    const std::lock_guard hold(lock_);
    on_ = on;
  }

 private:
  spolia::atomic<std::uint64_t>& count_;
  std::mutex lock_;
  std::mt19937_64 random_;
  bool on_ = false;
};

template <class F>
pid_t in_child(F&& f) {
  [[maybe_unused]] const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) wrong("cannot fork");
  if (child == 0) {
#if defined(__linux__)
    // It may have ended before the call.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) std::_Exit(1);
#endif
    f();
    std::_Exit(0);
  }
  return child;
}
inline bool went_well(pid_t child) {
  int how = 0;
  ::waitpid(child, &how, 0);
  return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

struct arguments {
  double seconds = 10;
  std::uint64_t seed = std::random_device{}();
  std::filesystem::path directory;
};
inline arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || i + 1 == argc) {
      std::printf("usage: PROGRAM [--seconds N] [--seed N] [--directory D]\n");
      std::exit(name == "--help" ? 0 : 2);
    }
    const char* const v = argv[++i];
    if (name == "--seconds") {
      a.seconds = std::atof(v);
    } else if (name == "--seed") {
      a.seed = std::strtoull(v, nullptr, 10);
    } else if (name == "--directory") {
      a.directory = v;
    } else {
      std::fprintf(stderr, "spolia-crash: %s is not an option\n", name.c_str());
      std::exit(2);
    }
  }
  if (a.directory.empty()) {
    // What a killed process has written is in the system's memory anyway: a quick place does, and
    // is killed in the middle of more.
    std::filesystem::path quick = "/dev/shm";
    if (!std::filesystem::is_directory(quick)) quick = std::filesystem::temp_directory_path();
    a.directory = quick / ("spolia-crash-" + std::to_string(::getpid()));
  }
  return a;
}

inline bool has_identity(const std::filesystem::path& base) {
  std::error_code none;
  const std::uintmax_t size = std::filesystem::file_size(base / "SPOLIA", none);
  return !none && size != 0;
}

/// As a program of format 4 leaves it: what differs is the number of the format, which checksums
/// cover. A segment's first record follows the last one of the segment before, so there it is in
/// the header's alone; the blocks of a checkpoint follow its header.
inline void make_older(const std::filesystem::path& base) {
  constexpr std::uint32_t older = 4;
  std::fstream identity(base / "SPOLIA", std::ios::in | std::ios::out | std::ios::binary);
  identity.seekp(static_cast<std::streamoff>(std::strlen("spolia database\nformat ")));
  identity.put('4');
  for (const auto& one : std::filesystem::directory_iterator(base)) {
    const std::string name = one.path().filename().string();
    const bool checkpoint = name.starts_with("checkpoint-");
    if (!name.ends_with(".spl") || !(checkpoint || name.starts_with("log-"))) continue;
    std::fstream file(one.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes content(checkpoint ? std::filesystem::file_size(one.path()) : file_head);
    file.read(reinterpret_cast<char*>(content.data()),
              static_cast<std::streamsize>(content.size()));
    if (!file) wrong(name + " cannot be read");
    put_at(content, 12, older);
    put_at(content, 8, plain_crc(std::span(content).subspan(12, file_head - 12)));
    if (checkpoint) seal_again(content, false, [](std::span<std::byte>) {});
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
    file.flush();
    if (!file) wrong(name + " cannot be written");
  }
}

/// Ends with 0 if a directory that has this SPOLIA alone is refused.
inline void check_lost(const std::filesystem::path& base) {
  const auto lost = base.parent_path() / "lost";
  std::filesystem::remove_all(lost);
  std::filesystem::create_directory(lost);
  std::filesystem::copy(base / "SPOLIA", lost);
  try {
    db::options o;
    o.read_only = true;
    const auto opened = db::database::open(lost, o);
  } catch (const db::storage_error&) {
    return;
  }
  wrong("a database without its files was opened");
}

/// So that no other run uses the directory: until all processes of this one have ended.
inline void have_alone(const std::filesystem::path& directory) {
  std::error_code why;
  std::filesystem::create_directories(directory, why);
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0) return;
  std::fprintf(stderr, "spolia-crash: %s: %s\n", directory.c_str(),
               errno == EWOULDBLOCK ? "another run uses it" : std::strerror(errno));
  std::exit(2);
}

}  // namespace spolia::test

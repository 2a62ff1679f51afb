// SPDX-License-Identifier: Apache-2.0
// demo.cpp: the demonstration's record and its measuring, and main().
#include "demo.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <exception>
#include <fstream>
#include <system_error>
#include <utility>

namespace demo {

double since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

double resident() {
  std::ifstream statm("/proc/self/statm");
  double all = 0;
  double here = 0;
  statm >> all >> here;
  return here * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

double resident_after_trim() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
  return resident();
}

double kept_by_allocator() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  return static_cast<double>(::mallinfo2().fordblks) / 1e6;
#else
  return 0;
#endif
}

std::string say(const char* format, ...) {
  char text[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

record::record(const std::filesystem::path& file, std::string part)
    : file_(std::fopen(file.c_str(), "w")), part_(std::move(part)) {
  if (file_ == nullptr) {
    throw std::system_error(errno, std::generic_category(), file.string());
  }
}

record::~record() { std::fclose(file_); }

void record::line(const std::string& object) {
  const std::lock_guard hold(lock_);
  std::fprintf(file_, "%s\n", object.c_str());
  std::fflush(file_);
}

void record::point(std::string_view curve, double x, double y) {
  line(say(R"({"kind": "point", "part": "%s", "curve": "%.*s", "x": %.6g, "y": %.6g})",
           part_.c_str(), static_cast<int>(curve.size()), curve.data(), x, y));
}

void record::bound(std::string_view curve, double y) {
  line(say(R"({"kind": "bound", "part": "%s", "curve": "%.*s", "y": %.6g})", part_.c_str(),
           static_cast<int>(curve.size()), curve.data(), y));
}

void record::note(const std::string& says) {
  line(say(R"({"kind": "note", "part": "%s", "says": "%s"})", part_.c_str(), says.c_str()));
}

void record::in_short(const std::string& says) {
  line(say(R"({"kind": "short", "part": "%s", "says": "%s"})", part_.c_str(), says.c_str()));
}

void record::check(bool ok, const std::string& says) {
  kept_ = kept_ && ok;
  line(say(R"({"kind": "check", "part": "%s", "ok": %s, "says": "%s"})", part_.c_str(),
           ok ? "true" : "false", says.c_str()));
}

sampler::sampler(std::function<void(double)> look, std::chrono::milliseconds pause)
    : thread_([this, look = std::move(look), pause] {
        const clock::time_point start = clock::now();
        while (!over_.load_relaxed()) {
          look(since(start));
          std::this_thread::sleep_for(pause);
        }
        look(since(start));
      }) {}

void sampler::end() {
  over_.store_relaxed(true);
  if (thread_.joinable()) thread_.join();
}

namespace {

int run(const std::string& part, const std::filesystem::path& folder) {
  record to(folder / (part + ".jsonl"), part);
  const std::filesystem::path scratch = folder / (part + ".scratch");
  std::filesystem::remove_all(scratch);
  std::filesystem::create_directories(scratch);
  if (part == "sleeper") {
    sleeping_reader(to);
  } else if (part == "snapshot") {
    held_snapshot(to);
  } else if (part == "queue") {
    queue_beside_a_reader(to);
  } else if (part == "crash") {
    killed_in_commits(to, scratch);
  } else if (part == "backup") {
    backup_beside_load(to, scratch);
  } else {
    std::fprintf(stderr,
                 "spolia-demo: no part is called '%s'; there are sleeper, snapshot, queue, "
                 "crash and backup\n",
                 part.c_str());
    return 2;
  }
  std::filesystem::remove_all(scratch);
  return to.all_kept() ? 0 : 1;
}

}  // namespace
}  // namespace demo

/// Runs one part in a process of its own, so that none sees the memory of another. Ends with 0 if
/// every promise was kept, with 1 if one was not, with 2 if it could not run.
int main(int count, char** words) {
  try {
    if (count == 3 && std::string_view(words[1]) == "--commit-for-ever") {
      return demo::commit_for_ever(words[2]);
    }
    if (count == 3) return demo::run(words[1], words[2]);
    std::fprintf(stderr, "usage: spolia-demo PART FOLDER\n");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "spolia-demo: %s\n", e.what());
  }
  return 2;
}

// SPDX-License-Identifier: Apache-2.0
// demo.hpp: what the parts of the demonstration share: the record that they write, and measuring.
//
// The record is a file of JSON objects, one a line, which tools/devtool/demo_page.py draws:
//
//   {"kind": "point", "part": "sleeper", "curve": "token", "x": 0.5, "y": 12.5}
//   {"kind": "bound", "part": "sleeper", "curve": "token", "y": 3.9}
//   {"kind": "check", "part": "sleeper", "ok": true, "says": "..."}
//   {"kind": "note",  "part": "sleeper", "says": "..."}
//   {"kind": "short", "part": "sleeper", "says": "..."}
//
// Memory is resident memory in megabytes, as the system counts it, and not what the library says.
#pragma once

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <spolia/base/atomic.hpp>

namespace demo {

using clock = std::chrono::steady_clock;

/// Seconds since `start`.
double since(clock::time_point start);

/// The resident memory of this process in megabytes.
double resident();
/// The same after the allocator has given back what it keeps for later.
double resident_after_trim();
/// What the allocator has of freed memory and keeps for later, in megabytes: each thread's arena
/// keeps its own. 0 where the allocator does not say.
double kept_by_allocator();

/// What resident memory may grow beyond a stated bound: pages of stacks, of the allocator, and of
/// code that runs for the first time.
constexpr double slack_megabytes = 16;

class record {
 public:
  /// Throws std::system_error if the file cannot be made.
  record(const std::filesystem::path& file, std::string part);
  record(const record&) = delete;
  record& operator=(const record&) = delete;
  ~record();

  void point(std::string_view curve, double x, double y);
  void bound(std::string_view curve, double y);
  void note(const std::string& says);
  /// What the summary says of this part, in one line.
  void in_short(const std::string& says);
  /// A promise, and whether it was kept. `says` is what was measured.
  void check(bool ok, const std::string& says);
  [[nodiscard]] bool all_kept() const { return kept_; }

 private:
  void line(const std::string& object);

  std::mutex lock_;
  std::FILE* file_;
  std::string part_;
  bool kept_ = true;
};

/// Calls `look` every few milliseconds, on a thread of its own, until it goes.
class sampler {
 public:
  explicit sampler(std::function<void(double seconds)> look,
                   std::chrono::milliseconds pause = std::chrono::milliseconds(10));
  sampler(const sampler&) = delete;
  sampler& operator=(const sampler&) = delete;
  ~sampler() { end(); }
  void end();

 private:
  spolia::atomic<bool> over_{false};  // relaxed: the join orders what the thread did
  std::thread thread_;
};

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string say(const char* format, ...);

// The parts. Each writes its curves and checks; `scratch` is an empty folder of its own.
void sleeping_reader(record& to);
void held_snapshot(record& to);
void queue_beside_a_reader(record& to);
void killed_in_commits(record& to, const std::filesystem::path& scratch);
void backup_beside_load(record& to, const std::filesystem::path& scratch);
/// What killed_in_commits() kills: commits rows forever and writes each acknowledged key to
/// standard output.
int commit_for_ever(const std::filesystem::path& directory);

}  // namespace demo

// SPDX-License-Identifier: Apache-2.0
// progress.hpp: a line on a terminal that says how far a command is; and where a command learns
// that the user has had enough.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tool {

enum class progress_mode : std::uint8_t { automatic, always, never };

class progress {
 public:
  /// `total` of bytes or whatever is counted; 0: unknown. Automatic: only on a terminal.
  progress(std::string what, std::uint64_t total, progress_mode mode);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// So much is done, and so many rows. Throws interrupted after SIGINT, SIGTERM or SIGHUP.
  void at(std::uint64_t done, std::uint64_t rows = 0);
  void total(std::uint64_t t) noexcept { total_ = t; }
  [[nodiscard]] static std::string line(const std::string& what, std::uint64_t done,
                                        std::uint64_t total, std::uint64_t rows, double seconds);

 private:
  using clock = std::chrono::steady_clock;
  void draw(std::uint64_t done, std::uint64_t rows);

  std::string what_;
  std::uint64_t total_;
  bool shown_;
  bool drawn_ = false;
  clock::time_point started_ = clock::now();
  clock::time_point next_ = started_ + std::chrono::milliseconds(200);
};

/// From now on SIGINT, SIGTERM and SIGHUP only make progress::at() and interrupted_now() say so.
void watch_for_interrupts();
[[nodiscard]] bool interrupted_now() noexcept;
/// Which of the two it was; 0: none.
[[nodiscard]] int interrupted_by() noexcept;

}  // namespace tool

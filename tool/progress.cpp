// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "errors.hpp"
#include "text.hpp"

namespace tool {
namespace {

volatile std::sig_atomic_t stopped = 0;

extern "C" void on_stop(int signal) { stopped = signal; }

bool wanted(progress_mode m) {
  if (m == progress_mode::automatic) return ::isatty(STDERR_FILENO) == 1;
  return m == progress_mode::always;
}

}  // namespace

void watch_for_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_stop;  // no SA_RESTART: a thread that sleeps or reads wakes up
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before{};
  sigaction(SIGHUP, nullptr, &before);  // a terminal is gone; nohup has it ignored
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  for (const int told_by_a_write : {SIGPIPE, SIGXFSZ}) std::signal(told_by_a_write, SIG_IGN);
}

bool interrupted_now() noexcept { return stopped != 0; }

int interrupted_by() noexcept { return stopped; }

progress::progress(std::string what, std::uint64_t total, progress_mode mode)
    : what_(std::move(what)), total_(total), shown_(wanted(mode)) {
  if (mode == progress_mode::always) next_ = started_;
}

progress::~progress() {
  if (drawn_) say("\r\x1b[K");
}

void progress::at(std::uint64_t done, std::uint64_t rows) {
  if (interrupted_now()) throw interrupted();
  if (!shown_) return;
  const auto now = clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  draw(done, rows);
}

void progress::draw(std::uint64_t done, std::uint64_t rows) {
  const double seconds = std::chrono::duration<double>(clock::now() - started_).count();
  say(fmt::format("\r{}\x1b[K", line(what_, done, total_, rows, seconds)));
  drawn_ = true;
}

std::string progress::line(const std::string& what, std::uint64_t done, std::uint64_t total,
                           std::uint64_t rows, double seconds) {
  std::string s = what;
  if (total != 0) {
    constexpr std::size_t width = 24;
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto full = static_cast<std::size_t>(share * width);
    s += fmt::format(" [{}{}] {:3.0f} %", std::string(full, '#'), std::string(width - full, '-'),
                     share * 100);
    if (share > 0.01 && seconds > 1) {
      s += fmt::format(", {:.0f} s left", seconds / share * (1 - share));
    }
  } else if (done != 0) {
    s += fmt::format(" {}B", short_count(done));
  }
  if (rows != 0) s += fmt::format(", {} {}", short_count(rows), rows == 1 ? "row" : "rows");
  return s;
}

}  // namespace tool

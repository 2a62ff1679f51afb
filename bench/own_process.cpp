// SPDX-License-Identifier: Apache-2.0
#include "own_process.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bench {
namespace {

void send(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::write(to, text.data(), text.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string receive(int from) {
  std::string all;
  std::array<char, 1U << 16U> part{};
  for (;;) {
    const ssize_t got = ::read(from, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return all;
    all.append(part.data(), static_cast<std::size_t>(got));
  }
}

/// Does not return: what the parent has buffered for its files must not be written twice.
[[noreturn]] void be_the_child(int to, const std::function<nlohmann::json()>& run) {
  int code = 0;
  std::string text;
  try {
    text = run().dump();
  } catch (const std::exception& e) {
    text = e.what();
    code = 1;
  }
  send(to, text);
  ::_exit(code);
}

}  // namespace

nlohmann::json in_own_process(const std::function<nlohmann::json()>& run) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    throw std::runtime_error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    be_the_child(ends[1], run);
  }
  const int error = errno;
  ::close(ends[1]);
  const std::string text = child < 0 ? "" : receive(ends[0]);
  ::close(ends[0]);
  if (child < 0) {
    throw std::runtime_error(fmt::format("cannot make a process: {}", std::strerror(error)));
  }
  int how = 0;
  while (::waitpid(child, &how, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(how)) {
    throw std::runtime_error(fmt::format("a trial was ended by signal {}", WTERMSIG(how)));
  }
  if (WEXITSTATUS(how) != 0) throw std::runtime_error(text);
  return nlohmann::json::parse(text);
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// A service that reads its configuration for every request, and reloads it while it runs: the steps
// of docs/memory.md, each checked.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/live.hpp>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "configuration: %s\n", what);
  std::exit(1);
}

spolia::atomic<int> alive{0};

/// Four megabytes, which the object owns elsewhere.
struct config {
  explicit config(int n) : limit(n), routes(std::size_t{1} << 20U, n) { count(1); }
  config(const config& other) : limit(other.limit), routes(other.routes) { count(1); }
  config(config&& other) noexcept : limit(other.limit), routes(std::move(other.routes)) {
    count(1);
  }
  config& operator=(const config&) = delete;
  ~config() { count(-1); }

  static void count(int n) { alive.fetch_add_relaxed(n); }

  int limit;
  std::vector<int> routes;
};

spolia::live<config> current(std::in_place, 1);

/// Requests are served while the configuration is replaced three hundred times.
void reload_beside_readers() {
  spolia::atomic<bool> stop{false};
  std::vector<std::thread> servers;
  for (int i = 0; i < 2; ++i) {
    servers.emplace_back([&] {
      while (!stop.load_relaxed()) {
        const auto now = current.read();  // this request sees one configuration
        check(now->routes.front() == now->limit && now->routes.back() == now->limit, "it is whole");
      }
    });
  }
  int most = 0;
  for (int n = 2; n <= 300; ++n) {
    current.emplace(n);
    most = std::max(most, alive.load_relaxed());
  }
  stop.store_relaxed(true);
  for (std::thread& s : servers) s.join();
  std::printf("300 configurations of 4 MB: at most %d at a time, and now %d\n", most,
              alive.load_relaxed());
  // The current one, one for each reader, and one for each thread that makes or ends one.
  check(most <= 6, "no more wait than readers hold");
  check(alive.load_relaxed() == 1, "no old one is left");
}

/// A report holds the configuration with which it began.
void sleeping_reader() {
  const auto then = current.read();
  for (int n = 1; n <= 100; ++n) current.emplace(n);
  check(then->limit == 300, "it stays what it was");
  check(alive.load_relaxed() == 2, "and is the only old one");
  for (const auto& held : current.old_readings()) {
    std::printf("version %llu is held by thread %u (%s)\n",
                static_cast<unsigned long long>(held.version), held.thread,
                held.thread_name.c_str());
  }
}

void changes() {
  int heard = 0;
  const auto watch = current.on_change([&](const config& now) { heard = now.limit; });
  check(bool(current.update([](config& c) { c.limit += 20; })), "it is changed");
  check(heard == 120, "and the watch has heard of it");
  const auto done = current.update([](const config& c) { return c.limit < 100; });
  check(!done.changed && done.version == current.version(), "the function has left it as it is");

  const auto seen = current.read();
  config mine = *seen;
  mine.limit = 7;
  check(bool(current.store_if(seen.version(), std::move(mine))), "no change came in between");
  check(!current.store_if(seen.version(), config(8)), "now one did");
  check(heard == 7, "what was put in is told");
}

}  // namespace

int main() {
  reload_beside_readers();
  sleeping_reader();
  changes();
  return 0;
}

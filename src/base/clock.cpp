// SPDX-License-Identifier: Apache-2.0
// clock.cpp: how long a tick is, and how far the processors' counters are apart.
#include <spolia/base/clock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <spolia/base/made_once.hpp>

#include "base/processor_list.hpp"

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {
namespace {

using std::chrono::steady_clock;

/// The same moment on both clocks.
struct moment {
  steady_clock::time_point steady;
  std::uint64_t ticks;
};

/// Of several readings the one that was disturbed least.
moment read_both() noexcept {
  moment best{};
  auto shortest = steady_clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    const auto before = steady_clock::now();
    const std::uint64_t ticks = ticks::read_in_order();
    const auto took = steady_clock::now() - before;
    if (took < shortest) {
      shortest = took;
      best = {before + took / 2, ticks};
    }
  }
  return best;
}

/// If the clock stands, or tells nonsense, a tick is taken for a nanosecond.
double measure_tick() noexcept {
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
  constexpr int most_looks = 1'000'000;  // ten times what two milliseconds take
  const moment first = read_both();
  for (int i = 0; i < most_looks; ++i) {
    if (steady_clock::now() - first.steady >= std::chrono::milliseconds(2)) break;
    cpu_relax();
  }
  const moment last = read_both();
  const double length = std::chrono::duration<double, std::nano>(last.steady - first.steady) /
                        std::chrono::duration<double, std::nano>(1) /
                        static_cast<double>(last.ticks - first.ticks);
  // Counters of 1 kHz to 100 GHz. Not so for what is no number, either.
  return length > 0.01 && length < 1e6 ? length : 1;
#else
  return 1;  // it is the clock itself
#endif
}

/// Does the counter run at one rate, whatever the processor does to save power?
std::string_view why_not_constant() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned power_management = 0x80000007U;
  constexpr unsigned invariant_counter = 1U << 8U;
  if (__get_cpuid(power_management, &a, &b, &c, &d) == 0 || (d & invariant_counter) == 0) {
    return "the processor does not promise a time stamp counter of constant rate";
  }
  return {};
#elif defined(__aarch64__)
  return {};  // the architecture promises it
#else
  return "this kind of processor has no counter that the library can read";
#endif
}

#if defined(__linux__)

// On an idle machine two hundred exchanges take a tenth of a millisecond. On a busy one the two
// threads seldom run at the same time, and an exchange in which one of them slept tells nothing:
// then it is worth waiting for a good one.
constexpr int rounds = 200;
constexpr int most_rounds = 200'000;  // where the clock stands
constexpr double good_enough_ns = 1000;
constexpr auto patience_for_a_pair = std::chrono::seconds(1);
constexpr auto patience_for_all = std::chrono::seconds(2);

bool run_on(std::uint32_t cpu) noexcept {
  const std::size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  cpu_set_t* const set = CPU_ALLOC(cpu + 1);
  if (set == nullptr) return false;
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(cpu, bytes, set);
  const bool done = sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return done;
}

/// One direction of the conversation between two processors.
struct alignas(cache_line) mailbox {
  static constexpr std::uint64_t empty = 0;
  static constexpr std::uint64_t end = 1;  // no counter reads this any more

  void send(std::uint64_t what) noexcept {
    // release → the acquire in receive(): keeps the counter's reading before the sending.
    word.store(what, std::memory_order_release);
    word.notify_one();
  }
  /// Spins, for the sake of speed; but sleeps when the other thread seems to have lost its
  /// processor. Two threads that only spin can miss each other for seconds on a busy machine, each
  /// burning its turn while the other waits for one; a sleeper is woken into the sender's turn.
  std::uint64_t receive() noexcept {
    constexpr int spins = 20000;
    std::uint64_t got;
    int left = spins;
    // acquire ← the release in send(): the receiver reads its counter after the sender did.
    while ((got = word.load(std::memory_order_acquire)) == empty) {
      if (--left < 0) word.wait(empty, std::memory_order_relaxed);
    }
    word.store(empty, std::memory_order_relaxed);
    return got;
  }

  std::atomic<std::uint64_t> word{empty};
};

std::int64_t ahead_of(std::uint64_t sent) noexcept {
  return static_cast<std::int64_t>(ticks::read_in_order() - sent);
}

/// What two processors found out about each other: how far the receiver's counter seemed ahead.
struct pair_result {
  std::int64_t to = std::numeric_limits<std::int64_t>::max();
  std::int64_t from = std::numeric_limits<std::int64_t>::max();
  bool pinned = false;
};

class conversation {
 public:
  /// Throws std::system_error if the system gives it no threads.
  pair_result run(std::uint32_t reference, std::uint32_t other) {
    std::thread peer([&] { answer(other); });
    try {
      std::thread starter([&] { ask(reference); });
      starter.join();
    } catch (...) {
      to_.send(mailbox::end);
      peer.join();
      throw;
    }
    peer.join();
    result_.pinned = reference_pinned_ && other_pinned_;
    return result_;
  }

 private:
  void ask(std::uint32_t cpu) noexcept {
    reference_pinned_ = run_on(cpu);
    const auto until = steady_clock::now() + patience_for_a_pair;
    const auto good = static_cast<std::int64_t>(good_enough_ns / ns_per_tick());
    const auto satisfied = [&](int i) {
      // result_.to is the other thread's, which wrote it before its last message to us.
      return i >= rounds && std::max(result_.to, result_.from) <= good;
    };
    for (int i = 0; i < most_rounds && reference_pinned_ && !satisfied(i); ++i) {
      if (steady_clock::now() >= until) break;
      to_.send(ticks::read_in_order());
      const std::uint64_t sent = from_.receive();
      if (sent == mailbox::end) return;
      result_.from = std::min(result_.from, ahead_of(sent));
    }
    to_.send(mailbox::end);
  }

  void answer(std::uint32_t cpu) noexcept {
    other_pinned_ = run_on(cpu);
    for (;;) {
      const std::uint64_t sent = to_.receive();
      if (sent == mailbox::end) return;
      if (!other_pinned_) break;
      result_.to = std::min(result_.to, ahead_of(sent));
      from_.send(ticks::read_in_order());
    }
    from_.send(mailbox::end);
  }

  mailbox to_;
  mailbox from_;
  pair_result result_;
  bool reference_pinned_ = false;
  bool other_pinned_ = false;
};

/// What the kernel says of the numbers that processors may ever have here; empty: it does not.
std::string possible_cpus() {
  std::string list;
  std::FILE* const file = std::fopen("/sys/devices/system/cpu/possible", "re");
  if (file == nullptr) return list;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) list += static_cast<char>(c);
  std::fclose(file);
  return list;
}

/// All processors that a thread of this process may run on, whatever its affinity is now: each
/// number is tried, since no count bounds them.
std::vector<std::uint32_t> usable_cpus() {
  constexpr std::uint32_t most = 8192;  // more than any kernel is built for
  std::vector<std::uint32_t> usable;
  std::thread([&] {
    for (std::uint32_t cpu = 0; cpu < most; ++cpu) {
      if (run_on(cpu)) usable.push_back(cpu);
    }
  }).join();
  return usable;
}

counter_report compare_all() {
  counter_report report;
  const std::vector<std::uint32_t> cpus = usable_cpus();
  const auto until = steady_clock::now() + patience_for_all;
  std::vector<std::int64_t> to;
  std::vector<std::int64_t> from;
  if (cpus.empty()) report.reason = "no processor lets a thread be pinned to it";
  if (!all_among(possible_cpus(), cpus.data(), static_cast<std::uint32_t>(cpus.size()))) {
    report.reason = "there may be processors whose counters could not be compared";
    return report;
  }
  for (std::size_t i = 1; i < cpus.size(); ++i) {
    if (steady_clock::now() > until) {
      report.reason = "there was no time to compare the counters of all processors";
      return report;
    }
    const pair_result found = conversation().run(cpus[0], cpus[i]);
    if (!found.pinned || found.from == std::numeric_limits<std::int64_t>::max()) {
      report.reason = "the counters of two processors could not be compared";
      return report;
    }
    to.push_back(found.to);
    from.push_back(found.from);
  }
  report.cpus = static_cast<std::uint32_t>(cpus.size());
  report.bound = offset_bound(to.data(), from.data(), static_cast<std::uint32_t>(to.size()));
  return report;
}

#else

counter_report compare_all() {
  counter_report report;
  report.reason = "the library cannot pin threads to processors on this system";
  return report;
}

#endif

counter_report compare_counters() noexcept {
  counter_report report;
  report.reason = why_not_constant();
  if (!report.reason.empty()) return report;
  try {
    report = compare_all();
  } catch (const std::system_error&) {
    report.reason = "there were no threads to compare the processors' counters with";
  } catch (const std::bad_alloc&) {
    report.reason = "there was no memory to compare the processors' counters with";
  }
  // Known machines need half a microsecond; a tick() much slower than that is of no use.
  constexpr double largest_useful_ns = 10e3;
  if (report.reason.empty() &&
      static_cast<double>(report.bound) * ns_per_tick() > largest_useful_ns) {
    report.reason = "the processors' counters may differ by more than 10 microseconds";
  }
  report.trusted = report.reason.empty();
  return report;
}

}  // namespace

double ns_per_tick() noexcept {
  // No static variable and no lock: a child of a fork must not wait for a thread that was
  // measuring. Threads that come at once each measure, and the first one's word holds.
  static constinit std::atomic<double> length{0};
  double known = length.load(std::memory_order_relaxed);
  if (known == 0) {
    const double mine = measure_tick();
    if (length.compare_exchange_strong(known, mine, std::memory_order_relaxed)) return mine;
  }
  return known;
}

std::uint64_t offset_bound(const std::int64_t* to, const std::int64_t* from,
                           std::uint32_t count) noexcept {
  std::int64_t bound = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    bound = std::max({bound, to[i], from[i]});
    for (std::uint32_t j = 0; j < count; ++j) {
      if (i != j) bound = std::max(bound, from[i] + to[j]);  // how far j can be ahead of i
    }
  }
  return static_cast<std::uint64_t>(bound);
}

bool all_among(std::string_view list, const std::uint32_t* cpus, std::uint32_t count) noexcept {
  return every_listed(
      list, [&](std::uint32_t cpu) { return std::find(cpus, cpus + count, cpu) != cpus + count; });
}

const counter_report& counters_compared() noexcept {
  static constinit made_once<counter_report> report;
  return report.get([](void* place) { return ::new (place) counter_report(compare_counters()); });
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

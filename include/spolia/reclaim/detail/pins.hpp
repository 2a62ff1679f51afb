// SPDX-License-Identifier: Apache-2.0
// pins.hpp: what holds garbage up: the guards that have been alive for long, and a budget for what
// they may cost.
//
//     spolia::domain<> nodes({.budget_bytes = 64 << 20,
//                             .over_budget = [](const spolia::over_budget& now) { log(now.pins);
//                             }});
//     auto guard = nodes.enter("monthly report");
//     for (const spolia::pin& p : nodes.pins()) ...       // the oldest first
//
// Nothing is measured when a guard begins: the threads of a domain look at each other now and then,
// and a guard's age counts from the first such look that found it. So young guards do not show.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// A guard that is alive and was alive at an earlier look, or whose thread has ended.
struct pin {
  std::uint32_t thread;           ///< its number (threads.hpp)
  long os_thread;                 ///< the system's number of it; 0 if it is not known
  std::string thread_name;        ///< the system's name of it; empty if it is not known
  const char* label;              ///< what was given to enter(); null: nothing
  std::chrono::nanoseconds age;   ///< at least so long
  std::uint64_t retired_since;    ///< bytes that the domain's threads have retired since then
  bool thread_has_ended = false;  ///< it has left the guard behind, which cannot end by itself
};

/// What the function that watches a budget is told.
struct over_budget {
  std::uint64_t budget_bytes;
  std::uint64_t garbage_bytes;
  std::uint64_t garbage_blocks;
  /// As domain::pins() gives them; if there are none, the guards that are alive now, of age 0: one
  /// of them, or several, hold this up. Empty: no guard does, or there was no memory for it. Then
  /// what waits has only not been found to be safe yet, and drain() frees it.
  std::vector<pin> pins;
};

namespace detail::reclaim {

/// What is known of one thread's guards, which are told apart by numbers from 1 on. The first three
/// are written by the thread, the others by the thread that looks; two that look at once may spoil
/// each other's figures, which are for people.
struct pin_watch {
  latest<const char*> label;
  latest<std::uint64_t> labelled;  // the guard with that label
  latest<long> os_thread;
  latest<std::uint64_t> seen;  // the guard that was alive at the last look
  latest<std::int64_t> since_ns;
  latest<std::uint64_t> retired_then;
  latest<bool> ended;  // the thread has, inside the guard that is seen here
  std::array<latest<std::uint64_t>, 2> name_at_end;  // its name then, of 15 bytes at most

  static std::int64_t now_ns() noexcept {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  void name(const char* text, std::uint64_t guard) noexcept {
    label.set(text);
    labelled.set(guard);
  }

  /// A guard that does not end as it should, with its label, which tells where it began.
  void report_left(const char* what, std::uint64_t guard, std::uint32_t thread) const noexcept {
    if (!SPOLIA_CHECKS) return;
    const char* const text = labelled.value() == guard ? label.value() : nullptr;
    if (text == nullptr) return misuse::report(what, thread);
    std::array<char, 256> all{};
    std::snprintf(all.data(), all.size(), "%s: \"%s\"", what, text);
    misuse::report(all.data(), thread);
  }

  /// The thread ends inside a guard. Its name goes with it.
  void thread_ends() noexcept {
    try {
      std::array<char, 16> text{};
      threads::os_name(os_thread.value()).copy(text.data(), text.size() - 1);
      const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(text);
      for (std::size_t i = 0; i < words.size(); ++i) name_at_end[i].set(words[i]);
    } catch (const std::bad_alloc&) {  // then without
    }
    ended.set(true);
  }
  std::string ended_name() const {
    const std::array<std::uint64_t, 2> words{name_at_end[0].value(), name_at_end[1].value()};
    return std::bit_cast<std::array<char, 16>>(words).data();
  }

  /// A look, which found `guard` alive; 0: none. True if the last look found the same, or if the
  /// guard cannot end by itself.
  bool look(std::uint64_t guard, std::int64_t now, std::uint64_t retired_bytes) noexcept {
    if (guard != 0 && guard == seen.value()) return true;
    seen.set(guard);
    since_ns.set(now);
    retired_then.set(retired_bytes);
    return guard != 0 && ended.value();
  }

  pin describe(std::uint32_t thread, std::int64_t now, std::uint64_t retired_bytes) const {
    const long id = os_thread.value();
    const bool has_label = labelled.value() == seen.value();
    const std::uint64_t then = retired_then.value();
    return {thread,
            id,
            ended.value() ? ended_name() : threads::os_name(id),
            has_label ? label.value() : nullptr,
            std::chrono::nanoseconds(std::max<std::int64_t>(now - since_ns.value(), 0)),
            retired_bytes > then ? retired_bytes - then : 0,
            ended.value()};
  }
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR

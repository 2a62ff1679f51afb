// SPDX-License-Identifier: Apache-2.0
// counted.cpp: the process's one collector of counted objects.
#include <spolia/counted/holders.hpp>
#include <spolia/counted/home.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include <spolia/base/made_once.hpp>
#include <spolia/base/misuse.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

constinit thread_local SPOLIA_TLS_MODEL void* counted_member = nullptr;
namespace {
/// Its first slot does not say that it is free: it is in use, forever. No thread scans or writes
/// it.
constinit counted::detail::pin never_free{};
}  // namespace
constinit thread_local SPOLIA_TLS_MODEL std::array<void*, 4> counted_firsts{
    &never_free, &never_free, &never_free, &never_free};
static_assert(std::tuple_size_v<counted::detail::first_pins> == 4);
constinit thread_local SPOLIA_TLS_MODEL own_count_cache counted_cache =
    counted::detail::nothing_cached;

namespace {

using counted::detail::collector;
using counted::detail::member;

collector& home() noexcept {
  static constinit made_once<collector> it;
  return it.get();
}

/// Null if the thread has no part in the collector, and there is no memory to give it one.
member* try_here() noexcept {
  if (counted_member != nullptr) return static_cast<member*>(counted_member);
  try {
    return static_cast<member*>(join_counted());
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// How often threads were woken, by the address of what they wait for. A number and no lock, so
/// that a fork leaves nothing locked.
std::atomic<std::uint32_t>& calls_about(const void* about) noexcept {
  static constinit std::array<std::atomic<std::uint32_t>, 64> calls{};
  const auto bits = reinterpret_cast<std::uintptr_t>(about) >> 3U;
  return calls[(bits ^ (bits >> 6U)) % calls.size()];
}

}  // namespace

void* join_counted() {
  member& me = home().here();
  me.os_thread.set(os_id());
  if (asymmetric()) {
    counted::detail::pin* const firsts = me.pins.firsts(threads::number());
    for (std::size_t i = 0; i < counted_firsts.size(); ++i) counted_firsts[i] = firsts + i;
  }
  return counted_member = &me;
}

void help_counted(void* m) noexcept { home().help(*static_cast<member*>(m)); }

void look_at_counted_time(void* m) noexcept { home().look(*static_cast<member*>(m)); }

void fill_counted_cache(void* m, std::uintptr_t entry, std::uintptr_t word) noexcept {
  home().fill_count_cache(*static_cast<member*>(m), {entry, word});
}

void spill_counted_cache(void* m) noexcept { home().spill(*static_cast<member*>(m)); }

void end_counted_location(std::uintptr_t entry, std::size_t bytes) noexcept {
  home().end_of_location(try_here(), entry, bytes);
}

void end_counted_object(std::uintptr_t entry) noexcept { home().object_ends(try_here(), entry); }

void end_what_was_put_off(void* m) noexcept { home().end_put_off(*static_cast<member*>(m)); }

bool drain_counted() noexcept {
  member* const me = try_here();
  return me != nullptr && home().drain(*me);
}

namespace {
/// "17 'reader'", or what is known of it.
std::string system_thread(long id) {
  if (id == 0) return "not known";
  const std::string called = os_name(id);
  return std::to_string(id) + (called.empty() ? "" : " '" + called + "'");
}
}  // namespace

void report_private_pointer(std::uint32_t owner, std::uint32_t user) noexcept {
  constexpr const char* what =
      "a private pointer is used or destroyed by another thread than its owner";
  std::array<char, 256> text{};
  try {
    long id = 0;
    home().each_member([&](std::uint32_t number, const member& m) {
      if (number == owner) id = m.os_thread.value();
    });
    std::snprintf(text.data(), text.size(), "%s (system threads: owner %s, user %s)", what,
                  system_thread(id).c_str(), system_thread(os_id()).c_str());
  } catch (const std::bad_alloc&) {
    return report_misuse(what, user);
  }
  report_misuse(text.data(), user);
}

std::vector<std::uintptr_t> names_of_counted_pins() {
  std::vector<std::uintptr_t> names;
  home().each_pin([&](counted::detail::word w) { names.push_back(counted::detail::name_of(w)); });
  return names;
}

std::vector<holder> counted_holders(const std::vector<holder>& before) {
  const auto now = std::chrono::steady_clock::now();
  std::vector<holder> found;
  home().each_member([&](std::uint32_t number, const member& m) {
    const std::size_t first = found.size();  // of this thread
    const long id = m.os_thread.value();     // its number may have been another one's
    m.pins.visit([&](counted::detail::word w) {
      const void* const object = reinterpret_cast<const void*>(w & ~counted::detail::tag_mask);
      const auto same = [&](const holder& h) {
        return h.thread == number && h.os_thread == id && h.object == object;
      };
      if (std::any_of(found.begin() + static_cast<std::ptrdiff_t>(first), found.end(), same))
        return;
      const auto known = std::find_if(before.begin(), before.end(), same);
      const auto since = known != before.end() ? known->seen : now;
      found.push_back({number, id, {}, object, now - since, since});
    });
  });
  for (holder& h : found) h.thread_name = os_name(h.os_thread);
  std::stable_sort(found.begin(), found.end(),
                   [](const holder& a, const holder& b) { return a.age > b.age; });
  return found;
}

counted_figures figures_of_counted() noexcept {
  const counted::collector_counts c = home().counts();
  return {c.logged, c.dropped,    c.doomed,      c.ended,    c.epochs,
          c.pins,   c.scan_ticks, c.sweep_ticks, c.end_ticks};
}

void time_counted(bool wanted) noexcept { home().time_tasks(wanted); }

void wait_counted(const void* about, bool (*changed)(const void*), const void* argument) {
  std::atomic<std::uint32_t>& calls = calls_about(about);
  for (;;) {
    // acquire ← the release in wake_counted: if we see its call, we see what was changed before.
    const std::uint32_t seen = calls.load(std::memory_order_acquire);
    if (changed(argument)) return;
    calls.wait(seen, std::memory_order_acquire);  // not if there was a call since
  }
}

void wake_counted(const void* about) noexcept {
  std::atomic<std::uint32_t>& calls = calls_about(about);
  // release → the acquires above.
  calls.fetch_add(1, std::memory_order_release);
  calls.notify_all();
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

void forget_this_thread() noexcept {
  core::counted_member = nullptr;
  core::counted_firsts.fill(&core::never_free);
}

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

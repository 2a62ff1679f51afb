// SPDX-License-Identifier: Apache-2.0
#include "counting.hpp"

#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/trace.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <string>

namespace bench {
namespace {

constexpr unsigned address_bits = 47;
constexpr unsigned granule_bits = 4;  // malloc aligns to 16
constexpr std::size_t table_bytes = sizeof(std::uint16_t) << (address_bits - granule_bits);
constexpr std::uint64_t slow_ns = 100'000;  // as the paper's figure 9

std::size_t granule_of(const void* block) noexcept {
  return reinterpret_cast<std::uintptr_t>(block) >> granule_bits;
}
bool covered(const void* block) noexcept {
  return granule_of(block) < (std::size_t{1} << (address_bits - granule_bits));
}

}  // namespace

owner_table::owner_table() noexcept
    : table_(
          static_cast<std::uint16_t*>(mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  if (table_ == MAP_FAILED) table_ = nullptr;
}

owner_table::~owner_table() {
  if (usable()) munmap(table_, table_bytes);
}

void owner_table::note(const void* block, std::uint32_t thread) noexcept {
  if (usable() && covered(block))
    table_[granule_of(block)] = static_cast<std::uint16_t>(thread + 1);
}

bool owner_table::is_remote(const void* block, std::uint32_t thread) const noexcept {
  if (!usable() || !covered(block)) return false;
  const std::uint16_t owner = table_[granule_of(block)];
  return owner != 0 && owner != static_cast<std::uint16_t>(thread + 1);
}

void* counting_resource::do_allocate(std::size_t bytes, std::size_t align) {
  const std::uint32_t thread = spolia::threads::number();
  threads_.of(thread).run = 0;
  void* const block = spolia::memory::allocate(bytes, align);
  owners_.note(block, thread);
  return block;
}

void counting_resource::do_deallocate(void* block, std::size_t bytes, std::size_t align) {
  if (!on_.load_relaxed()) return spolia::memory::deallocate(block, bytes, align);
  const std::uint32_t thread = spolia::threads::number();
  of_thread& me = threads_.of(thread);
  if (me.run++ == 0) me.runs.add();
  me.longest_run.raise(me.run);
  if (owners_.is_remote(block, thread)) me.remote.add();
  const std::uint64_t start = spolia::trace::ticks();
  spolia::memory::deallocate(block, bytes, align);
  const std::uint64_t spent = spolia::trace::ticks() - start;
  const auto ns =
      static_cast<std::uint64_t>(static_cast<double>(spent) * spolia::trace::ns_per_tick());
  me.frees.add();
  me.ticks.add(spent);
  me.calls.record(ns);
  if (ns > slow_ns) me.over_100us.add();
  // A pause of one block has its event from the release policy; calls within a batch have none.
  if (me.run > 1 && ns >= traced_ns) {
    spolia::trace::record(spolia::trace::event::single_free, start, start + spent, 1);
  }
}

free_counts counting_resource::counts() const {
  free_counts all;
  spolia::histogram_snapshot calls;
  std::uint64_t ticks = 0;
  std::uint64_t remote = 0;
  threads_.for_each([&](std::uint32_t, const of_thread& t) {
    all.frees += t.frees.value();
    all.over_100us += t.over_100us.value();
    all.runs += t.runs.value();
    all.longest_run = std::max(all.longest_run, t.longest_run.value());
    remote += t.remote.value();
    ticks += t.ticks.value();
    calls.merge(t.calls);
    return true;
  });
  if (owners_.usable()) all.remote = remote;
  all.ns = static_cast<std::uint64_t>(static_cast<double>(ticks) * spolia::trace::ns_per_tick());
  all.ns_p50 = calls.quantile(0.5);
  all.ns_p99 = calls.quantile(0.99);
  all.ns_p999 = calls.quantile(0.999);
  all.ns_max = calls.max();
  return all;
}

std::optional<allocator_counts> allocator_counts_now() {
  using control = int (*)(const char*, void*, std::size_t*, void*, std::size_t);
  const auto mallctl = reinterpret_cast<control>(dlsym(RTLD_DEFAULT, "mallctl"));
  if (mallctl == nullptr) return std::nullopt;
  std::uint64_t refresh = 1;  // figures are those of the last refresh
  mallctl("epoch", nullptr, nullptr, &refresh, sizeof refresh);
  unsigned bins = 0;
  std::size_t length = sizeof bins;
  if (mallctl("arenas.nbins", &bins, &length, nullptr, 0) != 0) return std::nullopt;

  constexpr unsigned all_arenas = 4096;  // MALLCTL_ARENAS_ALL
  bool told = true;
  const auto sum = [&](const char* what) {
    std::uint64_t total = 0;
    for (unsigned bin = 0; bin < bins; ++bin) {
      std::uint64_t value = 0;
      std::size_t size = sizeof value;
      const std::string name = fmt::format("stats.arenas.{}.bins.{}.{}", all_arenas, bin, what);
      told = mallctl(name.c_str(), &value, &size, nullptr, 0) == 0 && told;
      total += value;
    }
    return total;
  };
  const allocator_counts now{sum("nflushes"), sum("nfills"), sum("mutex.num_ops"),
                             sum("mutex.num_wait"), sum("mutex.total_wait_time")};
  return told ? std::optional(now) : std::nullopt;
}

}  // namespace bench

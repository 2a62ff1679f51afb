// SPDX-License-Identifier: Apache-2.0
// status_file.cpp: what a database shows to other processes.
#include "db/files/status_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <spolia/base/unwind.hpp>
#include <spolia/db/files.hpp>

#include "db/engine.hpp"
#include "db/files/folder.hpp"
#include "db/files/reserve_file.hpp"
#include "db/files/storage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint64_t status_mark = 0x5359'5453'4c4f'5053;  // SPOLSTYS
constexpr std::uint64_t status_version = 8;
constexpr double status_pause_ns = 100e6;

/// The file: words of the processor that wrote it.
struct status_page {
  std::uint64_t mark = status_mark;
  std::uint64_t version = status_version;
  store_status what{};
  std::uint64_t sum = 0;  // of all above
};
static_assert(std::has_unique_object_representations_v<status_page>, "no gaps in the file");
static_assert(sizeof(status_page) == 2736, "docs/formats.md says so");

std::uint64_t sum_of(const status_page& p) noexcept {
  const auto words = std::bit_cast<std::array<std::uint64_t, sizeof(status_page) / 8>>(p);
  std::uint64_t h = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    h = (h ^ words[i]) * 0x9E37'79B9'7F4A'7C15U;
    h ^= h >> 29U;
  }
  return h;
}

template <class Clock>
std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
          .count());
}

[[noreturn]] void fail_status(const std::filesystem::path& file, const char* what) {
  throw storage_error(file, storage_error::nowhere, what,
                      std::error_code(errno, std::system_category()));
}

store_status::reader shown_reader(const census::entry& e, std::uint64_t now) noexcept {
  store_status::reader r;
  r.timestamp = e.timestamp;
  r.behind = now > e.timestamp ? now - e.timestamp : 0;
  r.thread = e.thread;
  r.os_thread = static_cast<std::uint64_t>(threads::os_id_of(e.thread));
  owned_label::of(e.label).copy_at(e.timestamp, std::span(r.label).first(r.label.size() - 1));
  const auto ticks = static_cast<std::int64_t>(ticks::read() - e.start_ticks);
  r.age_ns =
      static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(ticks)) * core::ns_per_tick());
  return r;
}

/// The readers that are furthest behind, without allocating.
void fill_readers(store_status& s, const engine& of) {
  s.readers = 0;
  s.oldest = {};
  std::array<std::uintptr_t, store_status::most_readers> tickets{};
  const std::uint64_t now = of.board.clock.now();
  std::size_t kept = 0;
  of.board.living.for_each([&](const census::entry& e) {
    if (e.label == nullptr) return;  // as in database::readers()
    ++s.readers;
    store_status::reader r = shown_reader(e, now);
    std::uintptr_t ticket = e.id;
    for (std::size_t i = 0; i < kept; ++i) {
      const store_status::reader& other = s.oldest[i];
      const bool older =
          r.behind != other.behind ? r.behind > other.behind : r.age_ns > other.age_ns;
      if (!older) continue;
      std::swap(r, s.oldest[i]);
      std::swap(ticket, tickets[i]);
    }
    if (kept == s.oldest.size()) return;
    tickets[kept] = ticket;
    s.oldest[kept++] = r;
  });
  of.for_each_work([&](std::uintptr_t ticket, std::uint64_t bytes) {
    const auto at = std::find(tickets.begin(), tickets.end(), ticket);
    if (at != tickets.end()) {
      s.oldest[static_cast<std::size_t>(at - tickets.begin())].work_bytes = bytes;
    }
  });
}

/// What waits for them; where that would take time, what was known of it before.
void fill_held(store_status& s, const store_status& before, engine& of) noexcept {
  for (std::size_t i = 0; i < s.oldest.size(); ++i) {
    store_status::reader& r = s.oldest[i];
    // Of readers of one time, which are neighbours, the first is told what hangs at them.
    if (r.timestamp == 0 || (i != 0 && s.oldest[i - 1].timestamp == r.timestamp)) continue;
    const auto was = std::find_if(before.oldest.begin(), before.oldest.end(),
                                  [&](const auto& b) { return b.timestamp == r.timestamp; });
    const auto tell = [&](const auto& held, auto count, auto bytes) {
      if (held) {
        r.*count = held->count;
        r.*bytes = held->bytes;
      } else if (was != before.oldest.end()) {
        r.*count = (*was).*count;
        r.*bytes = (*was).*bytes;
      }
    };
    using reader = store_status::reader;
    tell(of.cleaner.held_at(r.timestamp), &reader::held, &reader::held_bytes);
    tell(of.old->held_at(r.timestamp), &reader::held_versions, &reader::held_version_bytes);
  }
}

void fill_sums(store_status& s, const statistics& sum) noexcept {
  s.commits = sum.commits;
  s.conflicts = sum.conflicts;
  s.limits = sum.limits;
  s.storage_refusals = sum.storage_refusals;
  s.ended_by_policy = sum.ended_by_policy;
  s.index_bytes = sum.index_bytes;
  s.cleaning = sum.cleaning;
  s.cleaning_bytes = sum.cleaning_bytes;
  s.work_bytes = sum.work_bytes;
  s.value_bytes = sum.value_bytes;
  s.value_bytes_waiting = sum.value_bytes_waiting;
  s.versions_made = sum.versions.versions_made;
  s.versions_dropped = sum.versions.versions_dropped;
  s.version_bytes = sum.versions.bytes;
  s.partitions = sum.versions.partitions;
  s.partitions_used = sum.versions.partitions_used;
  s.partition_drops = sum.versions.drops;
  s.log_sequence = sum.log.sequence;
  s.log_durable = sum.log.durable;
  s.log_bytes = sum.log.bytes;
  s.log_since_checkpoint = sum.log.since_checkpoint;
  s.log_flushes = sum.log.flushes;
  s.log_longest_flush_ns = static_cast<std::uint64_t>(sum.log.longest_flush.count());
  s.checkpoints = sum.log.checkpoints;
  s.failed_checkpoints = sum.log.failed_checkpoints;
  s.storage_failed = sum.log.failed ? 1 : 0;
}

/// Of what an exception says.
std::string without_name(std::string what) {
  constexpr std::string_view ours = "spolia::db: ";
  if (what.starts_with(ours)) what.erase(0, ours.size());
  return what;
}

/// Its beginning, and no half of a character at the end.
void copy_text(std::array<char, 256>& to, std::string_view from) noexcept {
  std::size_t size = std::min(from.size(), to.size() - 1);
  const auto is_within = [&] { return (static_cast<unsigned char>(from[size]) & 0xc0U) == 0x80; };
  while (size != 0 && size < from.size() && is_within()) --size;
  to.fill('\0');
  std::copy_n(from.begin(), size, to.begin());
}

void fill_failures(store_status& s, const engine& of) {
  if (!of.files) return;
  copy_text(s.storage_failure, without_name(of.files->failure()));
  copy_text(s.checkpoint_failure, without_name(of.files->checkpoint_failure()));
}

/// Closes itself.
struct open_status {
  explicit open_status(const std::filesystem::path& file)
      : descriptor(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  open_status(const open_status&) = delete;
  open_status& operator=(const open_status&) = delete;
  ~open_status() {
    if (descriptor >= 0) ::close(descriptor);
  }
  const int descriptor;
};

}  // namespace

status_file::status_file(engine& of, folder& where)
    : engine_(of),
      folder_(where),
      pause_(static_cast<std::uint64_t>(status_pause_ns / core::ns_per_tick())) {
  file_ = folder_.open(name, file_mode::write);
  page_.process = static_cast<std::uint64_t>(::getpid());
  page_.opened = now_ns<std::chrono::system_clock>();
  page_.opened_steady = now_ns<std::chrono::steady_clock>();
  publish();
}

void status_file::prepare(folder& where) {
  const std::string temporary = std::string(name) + ".spl.tmp";  // which an opening removes
  try {
    where.open(temporary, file_mode::fresh);
    where.rename(temporary, name);
  } catch (...) {
    remove_quietly(where, temporary);
    throw;
  }
}

status_file::~status_file() {
  // A child of that process leaves its parent's where it is.
  if (page_.process != static_cast<std::uint64_t>(::getpid())) return;
  try {
    folder_.remove(name);
  } catch (const std::exception&) {
    // The next opening removes it.
  }
}

void status_file::remove(folder& where) noexcept {
  try {
    if (where.has(name)) where.remove(name);
  } catch (const std::exception&) {
    // It is for looking at alone: nothing fails for it.
  }
}

void status_file::publish() noexcept {
  // acquire ← the release below: the page as the last one left it.
  if (busy_.load_relaxed() || busy_.exchange_acquire(true)) return;
  const uncancelled whole;  // others leave it to this one
  page_.written = now_ns<std::chrono::system_clock>();
  page_.written_steady = now_ns<std::chrono::steady_clock>();
  {
    // Waits for no thread that changes the catalogue: the next page will have the new figures.
    const std::unique_lock hold(engine_.catalog_lock, std::try_to_lock);
    if (hold) {
      page_.tables = 0;
      page_.row_slots = 0;
      page_.table_bytes = 0;
      for (const auto& [number, t] : engine_.tables.by_number()) {
        page_.table_bytes +=
            t->parts_->bytes.load_relaxed();  // also of one that older snapshots see
        t->count_indexes();
        if (!t->when_.open()) continue;
        ++page_.tables;
        page_.row_slots += t->row_slots();
      }
    }
  }
  fill_sums(page_, engine_.sums());
  const store_status before = page_;
  fill_readers(page_, engine_);
  fill_held(page_, before, engine_);
  try {
    fill_failures(page_, engine_);
  } catch (const std::bad_alloc&) {
    // The texts are those of before.
  }
  status_page p{.what = page_};
  p.sum = sum_of(p);
  try {
    file_->write(0, std::as_bytes(std::span(&p, 1)));
  } catch (const std::exception&) {
    // The next one may do better; a commit does not fail for it.
  }
  next_.store_relaxed(ticks::read() + pause_);
  busy_.store_release(false);  // → the acquire above
}

std::optional<store_status> read_status(const std::filesystem::path& directory) {
  constexpr int most_looks = 50;
  const std::filesystem::path file = directory / status_file::name;
  const open_status of(file);
  if (of.descriptor < 0) {
    if (errno == ENOENT) return std::nullopt;
    fail_status(file, "it cannot be read");
  }
  struct stat s{};
  if (::fstat(of.descriptor, &s) != 0) fail_status(file, "it cannot be read");
  if (!S_ISREG(s.st_mode))
    throw storage_error(file, storage_error::nowhere, "is not a regular file");
  for (int look = 0; look < most_looks; ++look) {
    status_page p;
    const auto got = ::pread(of.descriptor, &p, sizeof p, 0);
    if (got < 0 && errno != EINTR) fail_status(file, "it cannot be read");
    if (got >= 16 && (p.mark != status_mark || p.version != status_version)) {
      throw storage_error(file, 0, "this is no status that this version knows", {},
                          storage_fault::unknown_format);
    }
    if (got == static_cast<::ssize_t>(sizeof p) && p.sum == sum_of(p)) {
      // The writer may have been any program.
      for (store_status::reader& r : p.what.oldest) r.label.back() = '\0';
      p.what.storage_failure.back() = p.what.checkpoint_failure.back() = '\0';
      return p.what;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw damage_at(file, 0, "it is damaged");
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

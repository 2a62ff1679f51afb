// SPDX-License-Identifier: Apache-2.0
#include "recovery.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <spolia/db.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "machine.hpp"
#include "options.hpp"
#include "random.hpp"
#include "record.hpp"
#include "scratch_folder.hpp"
#include "store.hpp"

namespace bench {
namespace {

namespace db = spolia::db;
using steady = std::chrono::steady_clock;

double seconds_since(steady::time_point then) {
  return std::chrono::duration<double>(steady::now() - then).count();
}

/// Writes the store that is opened afterwards.
class maker {
 public:
  maker(const recovery_options& o, const std::filesystem::path& directory)
      : o_(o),
        base_(db::database::open(directory, chosen(o))),
        table_(base_.create_table(spec(o))),
        text_(o.width, 'a'),
        random_(o.seed) {
    row_.resize(o.columns + 1, o.width == 8 ? db::value(0) : db::value(std::string_view(text_)));
  }
  void run() {
    const bool log = o_.from == "log";
    std::uint64_t done = 0;
    const std::uint64_t fresh = log ? std::min(o_.records, o_.changes) : o_.records;
    while (done < fresh) done += commit(done, std::min(fresh - done, batch()), true);
    while (log && done < o_.changes)
      done += commit(done, std::min(o_.changes - done, batch()), false);
    if (!log) base_.checkpoint();
  }

 private:
  static db::options chosen(const recovery_options& o) {
    db::options chosen;
    chosen.durability = o.from == "log" ? db::durability_level::async : db::durability_level::none;
    chosen.checkpoint_log_bytes = 0;
    return chosen;
  }
  static db::table_spec spec(const recovery_options& o) {
    db::table_spec s{.name = "usertable",
                     .columns = {{"k", db::int64, db::primary_key}},
                     .primary = o.ordered ? db::index_kind::ordered : db::index_kind::hash};
    for (std::uint32_t c = 0; c < o.columns; ++c) {
      s.columns.push_back({fmt::format("f{}", c), o.width == 8 ? db::int64 : db::text(o.width)});
    }
    return s;
  }
  [[nodiscard]] std::uint64_t batch() const {
    return o_.from == "log" ? o_.operations : std::max<std::uint64_t>(o_.operations, 500);
  }
  std::uint64_t commit(std::uint64_t first, std::uint64_t count, bool fresh) {
    keys_.clear();
    while (keys_.size() < count) {
      const std::uint64_t k = fresh ? first + keys_.size() : random_.below(o_.records);
      if (fresh || std::find(keys_.begin(), keys_.end(), k) == keys_.end()) keys_.push_back(k);
    }
    const db::status s = base_.transact([&](db::transaction& tx) -> db::status {
      for (const std::uint64_t k : keys_) {
        row_[0] = db::value(k);
        if (o_.width == 8) row_[1] = db::value(first);
        text_[0] = static_cast<char>('a' + first % 26);
        const db::status done = fresh ? tx.insert(table_, row_) : change(tx, k);
        if (!done) return done;
      }
      return db::outcome::ok;
    });
    if (!s) throw std::runtime_error("the rows cannot be written: " + base_.storage_failure());
    return count;
  }
  db::status change(db::transaction& tx, std::uint64_t key) {
    return tx.update(table_, {key}, {{"f0", row_[1]}});
  }

  const recovery_options& o_;
  db::database base_;
  db::table& table_;
  std::string text_;
  std::vector<db::value> row_;
  std::vector<std::uint64_t> keys_;
  random_source random_;
};

std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".spl") all.push_back(entry.path());
  }
  return all;
}

/// As `cat` does it; how many bytes.
std::uint64_t read_all(const std::vector<std::filesystem::path>& names) {
  const auto files = db::real_files();
  std::vector<std::byte> part(128U << 10U);
  std::uint64_t sum = 0;
  for (const auto& name : names) {
    const auto folder = files->open_directory(name.parent_path(), db::directory_mode::existing);
    const auto file = folder->open(name.filename().string(), db::file_mode::read);
    std::uint64_t at = 0;
    while (const std::size_t got = file->read(at, part)) at += got;
    sum += at;
  }
  return sum;
}

void drop_from_memory(const std::vector<std::filesystem::path>& names) {
  for (const auto& name : names) {
    const int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    // What was not written yet would stay.
    if (fd >= 0 && ::fsync(fd) == 0) ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fd >= 0) ::close(fd);
  }
}

/// Where a machine gives what is not used back to its host, memory comes from there anew some
/// seconds later, at half a GB/s on the one that this was measured on and 20 to 30 GB/s otherwise.
/// So that the store is measured and not the host, so much is touched and freed before an opening,
/// which then finds it with the machine.
void borrow_memory(std::size_t bytes) {
  void* const all =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  ::madvise(all, bytes, MADV_HUGEPAGE);
#endif
  for (std::size_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(all)[at] = 1;
  ::munmap(all, bytes);
}

nlohmann::json one_opening(const recovery_options& o, const std::filesystem::path& directory,
                           const std::string& index, std::uint32_t trial) {
  const auto names = files_in(directory);
  if (o.cold) drop_from_memory(names);
  auto start = steady::now();
  const std::uint64_t bytes = read_all(names);
  const double read = seconds_since(start);
  if (o.cold) drop_from_memory(names);
  if (o.own_memory) borrow_memory(3 * bytes);
  reset_peak_rss();
  db::options chosen;
  chosen.read_only = true;
  chosen.recovery_threads = o.threads;
  chosen.hash_indexes = hash_kind_of(index);
  start = steady::now();
  const db::database base = db::database::open(directory, chosen);
  const double open = seconds_since(start);
  const db::recovery_report& found = base.recovered();
  const std::uint32_t threads =
      o.threads == 0 ? std::max(1U, std::thread::hardware_concurrency()) : o.threads;
  return make_record("recovery", trial, {.threads = threads, .seconds = nullptr, .warm_up_s = 0},
                     {{"from", o.from},
                      {"records", o.records},
                      {"changes", o.from == "log" ? o.changes : 0},
                      {"columns", o.columns},
                      {"width", o.width},
                      {"operations", o.operations},
                      {"recovery_threads", o.threads},
                      {"ordered", o.ordered},
                      {"index", o.ordered ? nlohmann::json(nullptr) : nlohmann::json(index)},
                      {"cold", o.cold},
                      {"own_memory", o.own_memory},
                      {"directory", scratch_folder::place(o.directory).string()},
                      {"trials", o.trials},
                      {"seed", o.seed}},
                     {{"bytes", bytes},
                      {"read_s", read},
                      {"open_s", open},
                      {"speed_of_reading", read / open},
                      {"log_records", found.log_records},
                      {"checkpoint_rows", found.checkpoint_rows},
                      {"table_bytes", base.stats().table_bytes},
                      {"peak_rss_bytes", peak_rss_bytes()}});
}

}  // namespace

void check(const recovery_options& o) {
  for (const std::string& i : o.indexes) hash_kind_of(i);
  if (o.from != "log" && o.from != "checkpoint") {
    throw usage_error(fmt::format("--from is {}, but must be log or checkpoint", o.from));
  }
  if (o.from == "checkpoint") refuse(o.given, {"--changes"}, "--from checkpoint", "--from log");
  if (o.ordered) refuse(o.given, {"--index"}, "--ordered", "tables whose key is not ordered");
  within<std::uint32_t>("operations", o.operations, 1, 1000);
  within<std::uint64_t>("records", o.records, o.operations, 1000000000);
  within<std::uint64_t>("changes", o.changes, 1, 10000000000);
  within<std::uint32_t>("columns", o.columns, 1, 61);
  within<std::uint32_t>("width", o.width, 8, 1000);
  within<std::uint32_t>("threads", o.threads, 0, 64);
  within<std::uint32_t>("trials", o.trials, 1, 10000);
}

void run_recovery(const recovery_options& o,
                  const std::function<void(const nlohmann::json&)>& take) {
  const scratch_folder folder(o.directory);
  maker(o, folder.path()).run();
  for (std::uint32_t n = 0; n < o.trials; ++n) {
    for (const std::string& index : o.indexes) take(one_opening(o, folder.path(), index, n));
  }
}

}  // namespace bench

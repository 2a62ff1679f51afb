// SPDX-License-Identifier: Apache-2.0
// command_top.cpp: `spolia top`: what another process's store does.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include <spolia/db/store_status.hpp>

#include "commands.hpp"
#include "errors.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

using json = nlohmann::ordered_json;
using status = db::store_status;

template <class Clock>
std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
          .count());
}

/// Seconds from one time to a later one; of two machines, or two starts of one, it may be none.
double seconds(std::uint64_t from, std::uint64_t to) {
  return to > from ? static_cast<double>(to - from) / 1e9 : 0;
}

/// A second between two pages of one process.
double rate(std::uint64_t before, std::uint64_t after, double passed) {
  return passed > 0 && after > before ? static_cast<double>(after - before) / passed : 0;
}

/// Of rows, indexes and out-of-line values.
std::uint64_t data_bytes(const status& s) { return s.table_bytes + s.index_bytes + s.value_bytes; }

std::string label_of(const status::reader& r) {
  return r.label[0] == '\0' ? "(no label)" : printable(r.label.data());
}

/// The system's number of its thread, or the library's where the system has none.
std::string thread_of(const status::reader& r) {
  return r.os_thread != 0 ? fmt::format("{}", r.os_thread) : fmt::format("#{}", r.thread);
}

std::string bytes(std::uint64_t n) { return short_count(n) + (n < 1000 ? " B" : "B"); }

/// What waits for it.
std::string held_by(const status::reader& r) {
  std::string t;
  const auto tell = [&](std::uint64_t count, const char* one, const char* many,
                        std::uint64_t size) {
    if (count == 0) return;
    t += fmt::format("{} {} {} ({})", t.empty() ? "; holds" : " and", short_count(count),
                     count == 1 ? one : many, bytes(size));
  };
  tell(r.held, "row or index entry", "rows and index entries", r.held_bytes);
  tell(r.held_versions, "version", "versions", r.held_version_bytes);
  return t;
}

/// For how long nothing is new of a process that runs, by the clock that it shares with this one
/// and that is never set.
double silence(const status& s) {
  return seconds(s.written_steady, now_ns<std::chrono::steady_clock>());
}

/// For how long it is open, since when nothing is new, and why, if that is known. A store that no
/// process has may have been left before this machine was started: the system's clock alone goes on
/// then.
std::string age(const status& s, bool ended) {
  const double shown = seconds(s.opened_steady, s.written_steady);
  if (ended) {
    return fmt::format("{:.0f} s, NOT OPEN NOW; this is what it did until {:.0f} s ago", shown,
                       seconds(s.written, now_ns<std::chrono::system_clock>()));
  }
  const double silent = silence(s);
  return fmt::format("{:.0f} s{}", shown + silent,
                     silent > 2 ? fmt::format(", nothing new for {:.0f} s", silent) : "");
}

/// What was refused and why, where anything was. The reasons are as of the last that failed.
std::string refusals(const status& s) {
  std::string t;
  const auto why = [](const auto& reason) {
    return reason[0] == '\0' ? std::string() : fmt::format(": {}", printable(reason.data()));
  };
  if (s.limits != 0) {
    t += fmt::format("MEMORY      {:>9}     commits and changes refused: a budget is used up\n",
                     short_count(s.limits));
  }
  if (s.storage_refusals != 0 || s.storage_failure[0] != '\0') {
    t += fmt::format("DISK        {:>9}     commits refused or in doubt{}\n",
                     short_count(s.storage_refusals), why(s.storage_failure));
  }
  if (s.failed_checkpoints != 0 || s.checkpoint_failure[0] != '\0') {
    t += fmt::format("CHECKPOINTS {:>9}     failed{}\n", short_count(s.failed_checkpoints),
                     why(s.checkpoint_failure));
  }
  return t;
}

std::string text(const std::string& store, const status& s, const status& before, bool ended) {
  const double passed = seconds(before.written_steady, s.written_steady);
  std::string t = fmt::format("{}  process {}, open for {}\n", store, s.process, age(s, ended));
  t += fmt::format("commits     {:>9.0f} /s  {:>9} in all; {:.0f} conflicts /s, {} refused\n",
                   rate(before.commits, s.commits, passed), short_count(s.commits),
                   rate(before.conflicts, s.conflicts, passed), s.limits + s.storage_refusals);
  t += refusals(s);
  t += fmt::format(
      "log         {:>9}/s {:>9} in all, {} since the checkpoint; slowest flush "
      "{:.1f} ms; last change {}{}\n",
      bytes(static_cast<std::uint64_t>(rate(before.log_bytes, s.log_bytes, passed))),
      bytes(s.log_bytes), bytes(s.log_since_checkpoint),
      static_cast<double>(s.log_longest_flush_ns) / 1e6, s.log_sequence,
      s.storage_failed != 0 ? "; FAILED: nothing is acknowledged" : "");
  t += fmt::format(
      "versions    {:>9.0f} /s  {:>9} live, {}; partitions {} of {} used, {} dropped\n",
      rate(before.versions_made, s.versions_made, passed),
      short_count(s.versions_made - std::min(s.versions_made, s.versions_dropped)),
      bytes(s.version_bytes), s.partitions_used, s.partitions, short_count(s.partition_drops));
  t += fmt::format("tables      {:>9}     room for {} rows, {}; indexes {}; values {}; {} in all\n",
                   s.tables, short_count(s.row_slots), bytes(s.table_bytes), bytes(s.index_bytes),
                   bytes(s.value_bytes), bytes(data_bytes(s)));
  t += fmt::format("waiting     {:>9}     {:>9} of deleted rows and index entries, {} of values\n",
                   short_count(s.cleaning), bytes(s.cleaning_bytes), bytes(s.value_bytes_waiting));
  t += fmt::format("readers     {:>9}     {:>9} to work with{}\n", s.readers, bytes(s.work_bytes),
                   s.ended_by_policy == 0
                       ? ""
                       : fmt::format("; {} ended by deadline or policy", s.ended_by_policy));
  const std::size_t shown = std::min<std::size_t>(s.readers, s.oldest.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const status::reader& r = s.oldest[i];
    t += fmt::format("  {:<24} thread {:<9} {:>9} {} behind", label_of(r), thread_of(r),
                     short_count(r.behind), r.behind == 1 ? "commit" : "commits");
    const double open = static_cast<double>(r.age_ns) / 1e9 + (ended ? 0 : silence(s));
    if (r.age_ns != 0) t += fmt::format(", open {:.1f} s", open);
    t += held_by(r);
    if (r.work_bytes != 0) t += fmt::format("; works with {}", bytes(r.work_bytes));
    t += '\n';
  }
  return t;
}

std::string line(const status& s, const status& before, bool ended) {
  const double passed = seconds(before.written_steady, s.written_steady);
  json j = {{"process", s.process},
            {"ended", ended},
            {"written_ns", s.written},
            {"commits", s.commits},
            {"commits_per_s", rate(before.commits, s.commits, passed)},
            {"conflicts", s.conflicts},
            {"limits", s.limits},
            {"ended_by_policy", s.ended_by_policy},
            {"tables", s.tables},
            {"slots", s.row_slots},
            {"table_bytes", s.table_bytes},
            {"index_bytes", s.index_bytes},
            {"value_bytes", s.value_bytes},
            {"data_bytes", data_bytes(s)},
            {"value_bytes_waiting", s.value_bytes_waiting},
            {"cleaning", s.cleaning},
            {"cleaning_bytes", s.cleaning_bytes},
            {"work_bytes", s.work_bytes},
            {"versions_made", s.versions_made},
            {"versions_dropped", s.versions_dropped},
            {"version_bytes", s.version_bytes},
            {"partitions", s.partitions},
            {"partitions_used", s.partitions_used},
            {"partition_drops", s.partition_drops},
            {"sequence", s.log_sequence},
            {"log_sequence", s.log_sequence},
            {"log_durable", s.log_durable},
            {"log_bytes", s.log_bytes},
            {"log_since_checkpoint", s.log_since_checkpoint},
            {"log_flushes", s.log_flushes},
            {"log_longest_flush_ns", s.log_longest_flush_ns},
            {"checkpoints", s.checkpoints},
            {"failed_checkpoints", s.failed_checkpoints},
            {"checkpoint_failure", s.checkpoint_failure.data()},
            {"storage_failed", s.storage_failed != 0},
            {"storage_refusals", s.storage_refusals},
            {"storage_failure", s.storage_failure.data()},
            {"readers", json::array()}};
  for (std::size_t i = 0; i < std::min<std::size_t>(s.readers, s.oldest.size()); ++i) {
    const status::reader& r = s.oldest[i];
    j["readers"].push_back({{"label", r.label.data()},
                            {"thread", r.thread},
                            {"os_thread", r.os_thread},
                            {"behind", r.behind},
                            {"held", r.held},
                            {"held_bytes", r.held_bytes},
                            {"held_versions", r.held_versions},
                            {"held_version_bytes", r.held_version_bytes},
                            {"work_bytes", r.work_bytes},
                            {"age_ns", r.age_ns}});
  }
  return j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

status look(const std::filesystem::path& store) {
  const auto s = db::read_status(store);
  if (!s && !is_store(store)) {
    throw failure(
        store.string() +
        ": its file SPOLIA is missing, and its data files are there; no process shows what "
        "it does with them");
  }
  if (!s) {
    throw failure(store.string() +
                  ": no process shows what it does there; one has to open the store with "
                  "options::publish_status");
  }
  return *s;
}

/// Flushes, so that an output which does not take the text is noticed now, and not with the next.
void show(const std::string& text) {
  const bool taken = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!taken || std::fflush(stdout) != 0) throw failure(output_failure());
}

/// False: the user has had enough.
bool sleep_for(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (interrupted_now()) return false;
    const auto rest = end - std::chrono::steady_clock::now();
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(rest, std::chrono::milliseconds(50)));
  }
  return !interrupted_now();
}

}  // namespace

void run_top(const top_request& r, const common& c) {
  if (!is_store(r.store) && !has_data(r.store)) refuse_no_store(r.store);
  const bool screen = !r.json && ::isatty(STDOUT_FILENO) == 1;
  status before = look(r.store);
  for (std::uint64_t n = 0; r.times == 0 || n < r.times; ++n) {
    if (!sleep_for(c.chosen.interval)) return;
    const status now = look(r.store);
    const bool same = now.process == before.process && now.opened == before.opened &&
                      now.opened_steady == before.opened_steady;
    // At last once more: it may have been closed, or opened again, before the lock was asked for.
    const bool ended = same && now.written_steady == before.written_steady && nobody_has(r.store) &&
                       look(r.store).written_steady == now.written_steady;
    const status& since = same ? before : now;
    const std::string shown =
        r.json ? line(now, since, ended) : text(r.store.string(), now, since, ended);
    show((screen ? "\x1b[H\x1b[J" : "") + shown);
    if (ended) {
      throw failure(
          fmt::format("{}: no process has it open. The page is of process {}, which was killed; or "
                      "this folder is a copy, and that process has the one that was copied",
                      r.store.string(), now.process));
    }
    before = now;
  }
}

}  // namespace tool

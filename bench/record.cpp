// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>

#include "counted.hpp"
#include "machine.hpp"
#include "rlu.hpp"
#include "store.hpp"
#include "ycsb.hpp"

namespace bench {
namespace {

nlohmann::json maybe(const std::optional<std::uint64_t>& v) {
  return v.has_value() ? nlohmann::json(*v) : nlohmann::json(nullptr);
}

template <class Key>
nlohmann::json pairs(const std::vector<std::pair<Key, std::uint64_t>>& points) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [at, blocks] : points) list.push_back({at, blocks});
  return list;
}

/// What a trial with --count counted, and null for what the allocator does not tell.
nlohmann::json counts_of(const set_options& o, const trial_result& r) {
  if (!r.counted) return nlohmann::json::object();
  const free_counts& c = *r.counted;
  const auto each = [&](std::uint64_t of) {
    return c.frees == 0 ? nlohmann::json(nullptr)
                        : nlohmann::json(static_cast<double>(of) / static_cast<double>(c.frees));
  };
  const auto told = [&](std::uint64_t allocator_counts::* field) {
    return r.allocator ? nlohmann::json((*r.allocator).*field) : nlohmann::json(nullptr);
  };
  return {{"frees", c.frees},
          {"frees_remote", maybe(c.remote)},
          {"frees_over_100us", c.over_100us},
          {"free_runs", c.runs},
          {"free_run_max", c.longest_run},
          {"free_call_ns_mean", each(c.ns)},
          {"free_call_ns_p50", c.ns_p50},
          {"free_call_ns_p99", c.ns_p99},
          {"free_call_ns_p999", c.ns_p999},
          {"free_call_ns_max", c.ns_max},
          {"free_share", static_cast<double>(c.ns) / (r.elapsed_s * 1e9 * o.threads)},
          {"allocator_flushes", told(&allocator_counts::flushes)},
          {"allocator_fills", told(&allocator_counts::fills)},
          {"allocator_locks", told(&allocator_counts::locks)},
          {"allocator_lock_waits", told(&allocator_counts::lock_waits)},
          {"allocator_lock_wait_ns", told(&allocator_counts::lock_wait_ns)}};
}

const char* word(spolia::protection p) {
  switch (p) {
    case spolia::protection::region:
      return "region";
    case spolia::protection::era:
      return "era";
    case spolia::protection::pointer:
      return "pointer";
    case spolia::protection::restartable:
      return "restartable";
  }
  return "unknown";
}

}  // namespace

nlohmann::json make_record(const char* kind, std::optional<std::uint32_t> trial,
                           const trial_basics& basics, const nlohmann::json& options,
                           const nlohmann::json& results) {
  nlohmann::json made = {{"threads", basics.threads},     {"seconds", basics.seconds},
                         {"warm_up_s", basics.warm_up_s}, {"allocator", allocator()},
                         {"compiler", compiler()},        {"flags", SPOLIA_FLAGS},
                         {"machine", machine()},          {"revision", SPOLIA_REVISION}};
  const auto add = [&](const std::string& name, const nlohmann::json& value) {
    if (!made.emplace(name, value).second) {
      throw std::logic_error(fmt::format("a record of {} has {} twice", kind, name));
    }
  };
  for (const auto& [name, value] : options.items()) add(name, value);
  nlohmann::json conditions = nlohmann::json::array();
  for (const auto& [name, value] : made.items()) conditions.push_back(name);
  for (const auto& [name, value] : results.items()) add(name, value);
  add("kind", kind);
  if (trial) add("trial", *trial);
  add("time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))));
  add("conditions", conditions);
  return made;
}

nlohmann::json record_of(const set_options& o, std::uint32_t trial, const trial_result& r) {
  const bool timed = o.time_frees != 0 && r.pauses.value_or(0) != 0;
  const auto pause = [&](std::uint64_t ns) { return timed ? nlohmann::json(ns) : nullptr; };
  const nlohmann::json options = {
      {"structure", o.structure},
      {"scheme", o.scheme},
      {"release", o.release},
      {"keys", o.keys},
      {"update", o.update},
      {"trials", o.trials},
      {"seed", o.seed},
      {"bag", maybe(r.bag)},
      {"turn_us", o.turn_us ? nlohmann::json(*o.turn_us) : nlohmann::json(nullptr)},
      {"stall", o.stall},
      {"time_frees", r.pauses ? nlohmann::json(o.time_frees) : nlohmann::json(nullptr)},
      {"check", o.check},
      {"paper_size", o.paper_size},
      {"count", o.count},
      {"traced", !o.trace.empty()}};
  nlohmann::json results = {{"elapsed_s", r.elapsed_s},
                            {"operations", r.operations},
                            {"ops_per_s", static_cast<double>(r.operations) / r.elapsed_s},
                            {"peak_rss_bytes", r.peak_rss_bytes},
                            {"garbage_peak", maybe(r.garbage_peak)},
                            {"garbage_bound", maybe(r.garbage_bound)},
                            {"pauses", maybe(r.pauses)},
                            {"free_ns_p50", pause(r.free_ns_p50)},
                            {"free_ns_p999", pause(r.free_ns_p999)},
                            {"free_ns_max", pause(r.free_ns_max)},
                            {"retired", maybe(r.retired)},
                            {"freed", maybe(r.freed)},
                            {"epochs", maybe(r.epochs)},
                            {"page_faults", r.page_faults},
                            {"size_end", r.size_end},
                            {"garbage_over_time", pairs(r.garbage_over_time)},
                            {"garbage_per_epoch", pairs(r.garbage_per_epoch)}};
  if (!o.trace.empty()) results["trace_offset_ms"] = 0;  // it begins with the measured part
  results.update(counts_of(o, r));
  return make_record("sets", trial,
                     {.threads = o.threads, .seconds = o.seconds, .warm_up_s = o.warm_up}, options,
                     results);
}

nlohmann::json rival_listing() {
  nlohmann::json all = {{"libraries", nlohmann::json::object()},
                        {"structures", nlohmann::json::object()},
                        {"schemes", nlohmann::json::object()},
                        {"combinations", nlohmann::json::array()}};
  for (const library& l : libraries()) {
    all["libraries"][l.name] = {{"package", l.package},
                                {"version", l.built() ? nlohmann::json(l.version) : nullptr}};
  }
  for (const rival& r : rivals()) {
    all["structures"][r.structure] = {{"title", r.title},
                                      {"library", r.library},
                                      {"like", r.like},
                                      {"stalls", r.stalls},
                                      {"built", library_of(r).built()}};
    for (const std::string& scheme : r.schemes) {
      all["schemes"][scheme] = {{"title", rival_scheme_title(scheme)}, {"library", r.library}};
      if (!library_of(r).built()) continue;
      all["combinations"].push_back(
          {{"structure", r.structure}, {"scheme", scheme}, {"release", own_release}});
    }
  }
  return all;
}

nlohmann::json listing() {
  std::map<std::string, nlohmann::json> schemes;
  nlohmann::json combinations = nlohmann::json::array();
  std::map<std::string, bool> structures;
  std::map<std::string, bool> releases;
  for (const cell& c : cells()) {
    structures[c.structure] = releases[c.release] = true;
    schemes[c.scheme] = {{"title", c.info->title},
                         {"source", c.info->source},
                         {"protects", word(c.info->protects)},
                         {"robust", c.info->robust},
                         {"reclaims", c.info->reclaims},
                         {"cost", c.info->cost},
                         {"progress", c.info->progress},
                         {"bound", c.info->bound}};
    if (c.supported) {
      combinations.push_back(
          {{"structure", c.structure}, {"scheme", c.scheme}, {"release", c.release}});
    }
  }
  nlohmann::json out = {{"schemes", schemes},
                        {"combinations", combinations},
                        {"rivals", rival_listing()},
                        {"version_storages", version_storage_names()},
                        {"engines", ycsb_engine_names()},
                        {"pointers", nlohmann::json::array()},
                        {"rlu_ways", nlohmann::json::object()}};
  for (const counted_pointer& p : counted_pointers()) out["pointers"].push_back(p.name);
  for (const rlu_way& w : all_rlu_ways()) out["rlu_ways"][w.structure].push_back(w.sync);
  for (const auto& [name, there] : structures) out["structures"].push_back(name);
  for (const auto& [name, there] : releases) out["releases"].push_back(name);
  return out;
}

std::string scheme_table() {
  std::string table =
      "| scheme | source | protects | cost of an operation | progress | blocks that can wait "
      "| measured on |\n"
      "|---|---|---|---|---|---|---|\n";
  std::map<std::string, std::string> structures;
  std::vector<const cell*> schemes;
  for (const cell& c : cells()) {
    if (!c.supported || c.release != cells().front().release) continue;
    std::string& on = structures[c.scheme];
    if (on.empty()) schemes.push_back(&c);
    on += (on.empty() ? "" : ", ") + c.structure;
  }
  std::sort(schemes.begin(), schemes.end(),
            [](const cell* a, const cell* b) { return a->scheme < b->scheme; });
  for (const cell* c : schemes) {
    const spolia::scheme_info& i = *c->info;
    table += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", i.name, i.source,
                         word(i.protects), i.cost, i.progress, i.bound, structures[c->scheme]);
  }
  return table;
}

line_file::line_file(std::string path)
    : path_(std::move(path)),
      fresh_(path_ != "-" && !std::filesystem::exists(path_)),
      file_(path_ == "-" ? stdout : std::fopen(path_.c_str(), "a")) {
  if (file_ == nullptr) {
    throw usage_error(fmt::format("cannot write to {}: {}", path_, std::strerror(errno)));
  }
}

line_file::~line_file() {
  if (file_ == stdout) return;
  std::fseek(file_, 0, SEEK_END);
  const bool empty = std::ftell(file_) == 0;
  std::fclose(file_);
  if (fresh_ && empty) std::remove(path_.c_str());
}

void line_file::write(const nlohmann::json& record) {
  const std::string line = record.dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0) {
    throw usage_error(fmt::format("cannot write to {}: {}", path_, std::strerror(errno)));
  }
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "errors.hpp"

namespace tool {
namespace {

template <class T, std::size_t N>
T one_of(const std::array<std::pair<const char*, T>, N>& all, const std::string& name,
         const char* what) {
  std::string there;
  for (const auto& [n, value] : all) {
    if (name == n) return value;
    there += (there.empty() ? "" : ", ") + std::string(n);
  }
  throw std::invalid_argument(fmt::format("no {} is called '{}'; there are {}", what, name, there));
}

db::version_storage versions_of(const std::string& name) {
  if (name == "steam-epo") return db::version_storage::steam_eager;  // its name before 0.1.0
  std::string there;
  for (const auto& info : db::version_storages()) {
    std::string shown(info.name);
    std::ranges::replace(shown, '_', '-');
    if (name == shown) return info.storage;
    there += (there.empty() ? "" : ", ") + shown;
  }
  throw std::invalid_argument(
      fmt::format("no version storage is called '{}'; there are {}", name, there));
}

db::hash_kind hashes_of(const std::string& name) {
  using enum db::hash_kind;
  return one_of<db::hash_kind, 2>({{{"probing", probing}, {"cuckoo", cuckoo}}}, name, "hash index");
}

/// One key of the file, and where its value goes.
class entry {
 public:
  entry(const std::string& file, std::string key, const toml::node& value)
      : file_(file), key_(std::move(key)), value_(value) {}

  [[noreturn]] void refuse(const std::string& why) const {
    const auto at = value_.source().begin;
    throw usage_error(fmt::format("{}:{}:{}: {}", file_, at.line, at.column, why));
  }
  template <class T>
  void count(T& to, std::uint64_t least = 0,
             std::uint64_t most = std::numeric_limits<std::int64_t>::max()) const {
    const auto* const v = value_.as_integer();
    if (v == nullptr) refuse(key_ + " is a whole number");
    const std::int64_t n = v->get();
    if (n < 0 || static_cast<std::uint64_t>(n) < least || static_cast<std::uint64_t>(n) > most) {
      refuse(fmt::format("{} is {}, but must be from {} to {}", key_, n, least, most));
    }
    to = static_cast<T>(n);
  }
  void flag(bool& to) const {
    const auto* const v = value_.as_boolean();
    if (v == nullptr) refuse(key_ + " is true or false");
    to = v->get();
  }
  void seconds(double& to) const {
    const auto v = value_.value<double>();
    if (!v || !(*v >= 0.01) || *v > 86400)
      refuse(key_ + " is a number of seconds from 0.01 to 86400");
    to = *v;
  }
  template <class T>
  void name(T& to, T (*find)(const std::string&)) const {
    const auto* const v = value_.as_string();
    if (v == nullptr) refuse(key_ + " is a name in quotes");
    try {
      to = find(v->get());
    } catch (const std::invalid_argument& e) {
      refuse(e.what());
    }
  }
  [[noreturn]] void unknown() const { refuse("there is no option " + key_); }

 private:
  const std::string& file_;
  std::string key_;
  const toml::node& value_;
};

constexpr std::uint64_t most32 = std::numeric_limits<std::uint32_t>::max();

void store_entry(db::options& o, std::string_view key, const entry& e) {
  if (key == "versions") return e.name(o.versions, versions_of);
  if (key == "version_budget") return e.count(o.version_budget);
  if (key == "partition_transactions") return e.count(o.partition_transactions, 1, most32);
  if (key == "partition_bytes") return e.count(o.partition_bytes, 1);
  if (key == "partition_cache_bytes") return e.count(o.partition_cache_bytes);
  if (key == "most_partitions") return e.count(o.most_partitions, 2, 256);
  if (key == "hash_indexes") return e.name(o.hash_indexes, hashes_of);
  if (key == "durability") return e.name(o.durability, durability_of);
  if (key == "loss_window_ms") {
    std::int64_t ms = 0;
    e.count(ms, 1, 3600000);
    o.loss_window = std::chrono::milliseconds(ms);
    return;
  }
  if (key == "segment_bytes") return e.count(o.segment_bytes, 4096);
  if (key == "checkpoint_log_bytes") return e.count(o.checkpoint_log_bytes);
  if (key == "checkpoint_share") return e.count(o.checkpoint_share, 1, 100);
  if (key == "recovery_threads") return e.count(o.recovery_threads, 0, 4096);
  if (key == "publish_status") return e.flag(o.publish_status);
  if (key == "allow_without_lock") return e.flag(o.allow_without_lock);
  e.unknown();
}

void load_entry(load_options& o, std::string_view key, const entry& e) {
  if (key == "batch") return e.count(o.batch);
  if (key == "on_conflict") return e.name(o.conflict, conflict_of);
  e.unknown();
}

}  // namespace

db::durability_level durability_of(const std::string& name) {
  using enum db::durability_level;
  return one_of<db::durability_level, 3>({{{"none", none}, {"async", async}, {"sync", sync}}}, name,
                                         "durability");
}

on_conflict conflict_of(const std::string& name) {
  return one_of<on_conflict, 3>({{{"fail", on_conflict::fail},
                                  {"skip", on_conflict::skip},
                                  {"replace", on_conflict::replace}}},
                                name, "way with conflicts");
}

settings read_settings(const std::filesystem::path& file) {
  settings s;
  const std::string name = file.string();
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {  // of which there is nothing to read
    throw usage_error("cannot read " + name + ": Is a directory");
  }
  try {
    const toml::table all = toml::parse_file(name);
    for (const auto& [section, node] : all) {
      const std::string part(section.str());
      const entry whole(name, part, node);
      if (part != "store" && part != "load" && part != "top") whole.unknown();
      const toml::table* const members = node.as_table();
      if (members == nullptr) whole.refuse("[" + part + "] is a section");
      for (const auto& [key, value] : *members) {
        const entry e(name, part + "." + std::string(key.str()), value);
        if (part == "store") {
          store_entry(s.store, key.str(), e);
        } else if (part == "load") {
          load_entry(s.load, key.str(), e);
        } else if (key.str() == "interval") {
          e.seconds(s.interval);
        } else {
          e.unknown();
        }
      }
    }
  } catch (const toml::parse_error& e) {
    const auto at = e.source().begin;
    if (at.line == 0) throw usage_error(fmt::format("cannot read {}: {}", name, e.description()));
    throw usage_error(fmt::format("{}:{}:{}: {}", name, at.line, at.column, e.description()));
  }
  return s;
}

}  // namespace tool

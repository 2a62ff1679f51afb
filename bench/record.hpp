// SPDX-License-Identifier: Apache-2.0
// record.hpp: what the program writes: JSON lines, one record a trial.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "registry.hpp"

namespace bench {

/// What each trial has, whatever it measures. Null: it has no such thing.
struct trial_basics {
  nlohmann::json threads;    ///< that work
  nlohmann::json seconds;    ///< of the measured part; null: it lasts until so much is done
  nlohmann::json warm_up_s;  ///< of the same work before it
};

/// A record: `kind`, `trial`, `time`; what it was measured under, which is the basics, the options
/// in force, the program and the machine; and what came of it. All stand side by side, and the
/// field `conditions` has the names of what it was measured under. So none is both. The names of
/// the fields are a contract (docs/bench.md).
nlohmann::json make_record(const char* kind, std::optional<std::uint32_t> trial,
                           const trial_basics&, const nlohmann::json& options,
                           const nlohmann::json& results);
/// The record of one trial of a set.
nlohmann::json record_of(const set_options&, std::uint32_t trial, const trial_result&);
/// What `spolia-bench list` says: our own, and under "rivals" the other libraries'.
nlohmann::json listing();

/// The schemes' own statements as a Markdown table, for docs/schemes.md.
std::string scheme_table();

/// A file that takes whole lines, or standard output for "-". Throws usage_error if it cannot be
/// opened or written. If it is new and nothing is written to it, it goes again.
class line_file {
 public:
  explicit line_file(std::string path);
  ~line_file();
  line_file(const line_file&) = delete;
  line_file& operator=(const line_file&) = delete;
  void write(const nlohmann::json& record);
  std::FILE* handle() const noexcept { return file_; }

 private:
  std::string path_;
  bool fresh_;
  std::FILE* file_;
};

}  // namespace bench

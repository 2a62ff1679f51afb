// SPDX-License-Identifier: Apache-2.0
// load_from.hpp: what `spolia load` reads: a dumped folder, a stream, or one table's file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "dump.hpp"
#include "load.hpp"
#include "progress.hpp"

namespace tool {

struct load_request {
  std::filesystem::path from;         ///< a folder, a file, or standard input
  std::optional<text_format> format;  ///< of a file; none: what its name ends in, or JSON
  std::string table;                  ///< of a file's rows; of a folder, to load only this
  std::filesystem::path schema;       ///< where tables are described that may have to be made
  load_options options;
  unfinished when_stopped = unfinished::keep;
  bool start_over = false;  ///< without what an earlier load to be resumed has left
  progress_mode show = progress_mode::automatic;
};

/// What a request needs of the store; looked at before anything is changed. Throws usage_error and
/// failure.
class load_job {
 public:
  explicit load_job(load_request request);

  /// Makes tables that are missing, and loads the rows. Throws failure; `done` is as in
  /// load_rows().
  void run(db::database& base, load_notes& notes, load_counts& done);

 private:
  enum class kind : std::uint8_t { folder, stream, one_table };

  void read_folder();
  void begin(const std::vector<std::string>& tables, load_notes& notes) const;
  void prepare(db::database& base, load_notes& notes) const;
  void run_folder(db::database& base, load_notes& notes, load_counts& done);
  void run_stream(db::database& base, load_notes& notes, load_counts& done);
  void run_file(db::database& base, load_notes& notes, load_counts& done);
  std::uint64_t load(db::database& base, row_source& rows, load_notes& notes, load_counts& done,
                     std::uint64_t total);

  load_request request_;
  kind kind_ = kind::one_table;
  text_format format_ = text_format::json;
  std::vector<dumped_table> tables_;
  std::vector<std::string> described_;  // tables of --schema, for a message
  std::unique_ptr<file_source> file_;  // opened once: a pipe with a name ends when it is closed
};

}  // namespace tool

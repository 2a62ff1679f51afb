// SPDX-License-Identifier: Apache-2.0
// status_file.hpp: the file that store_status.hpp tells of, as the database has it. Internal.
#pragma once

#include <cstdint>
#include <memory>

#include <spolia/base/atomic.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/db/files.hpp>
#include <spolia/db/store_status.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class engine;
class folder;

class status_file {
 public:
  static constexpr const char* name = "status";

  /// Makes an empty one, while an opening can still be refused: a new file, so that a reader of one
  /// that was left after a kill sees no mixture. Throws storage_error; that one is there yet then.
  static void prepare(folder& where);
  /// Of the file that was prepared. Throws storage_error.
  status_file(engine& of, folder& where);
  ~status_file();
  /// What a process that was killed has left, where the next one shows nothing.
  static void remove(folder& where) noexcept;
  status_file(const status_file&) = delete;
  status_file& operator=(const status_file&) = delete;

  /// Also after one that was refused.
  void after_commit() noexcept {
    // As signed numbers, since the counter of another processor may be a little behind.
    if (static_cast<std::int64_t>(ticks::read() - next_.load_relaxed()) >= 0) publish();
  }
  /// Does nothing while another thread is doing it.
  void publish() noexcept;

 private:
  engine& engine_;
  folder& folder_;
  const std::uint64_t pause_;  // in ticks
  std::unique_ptr<storage_file> file_;
  store_status page_{};  // of the thread that has set busy_
  atomic<bool> busy_{false};
  atomic<std::uint64_t> next_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

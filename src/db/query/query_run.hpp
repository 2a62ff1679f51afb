// SPDX-License-Identifier: Apache-2.0
// query_run.hpp: a query that is being run, by one thread or several. Internal.
//
// Idea:        each thread takes the next morsel from a counter until there is none, and then
//              leaves what it has found. The caller works, too, so the query gets done however few
//              threads come to help. When the caller finds no more morsels, it closes the doors,
//              waits for the threads that are inside, and puts together what they left. A thread
//              that comes later finds the doors closed and touches nothing; what it needs for that
//              it keeps alive itself.
// Why the end is safe: to enter and to close the doors are under one lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db/query.hpp>

#include "db/at_work.hpp"
#include "db/engine.hpp"
#include "db/query/query_groups.hpp"
#include "db/query/query_plan.hpp"
#include "db/versions/shared_steps.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class query_run : public std::enable_shared_from_this<query_run> {
 public:
  query_run(const reader& at, const table& of, std::shared_ptr<const query_plan> plan,
            const query_options& o);
  ~query_run();
  query_run(const query_run&) = delete;
  query_run& operator=(const query_run&) = delete;

  /// Once. Throws what a thread has met.
  status run();
  [[nodiscard]] std::unique_ptr<query_groups> take_groups() noexcept { return std::move(groups_); }
  [[nodiscard]] const query_figures& figures() const noexcept { return figures_; }

 private:
  /// While it lives, the transaction cannot be changed, since threads read what it has changed. The
  /// level keeps the fast path of setting a column from changing it.
  class asking {
   public:
    explicit asking(const reader& of) noexcept
        : now_(of), session_(*of.session_), outer_(session_.asked) {
      session_.asked = true;
    }
    ~asking() { session_.asked = outer_; }
    asking(const asking&) = delete;
    asking& operator=(const asking&) = delete;

   private:
    const reader::scanning now_;
    session& session_;
    const bool outer_;
  };
  /// What one thread works with.
  class worker;

  [[nodiscard]] std::uint32_t helpers() const noexcept;
  void call_helpers(std::uint32_t count, std::vector<std::thread>& own);
  void help();
  void work();
  void end_helpers(std::vector<std::thread>& own) noexcept;
  void work_through();
  void fail(status why) noexcept;
  void put_together();
  [[nodiscard]] bool over() const noexcept;
  [[nodiscard]] std::uint64_t told() const noexcept;

  const reader& at_;
  const table& of_;
  const std::shared_ptr<const query_plan> plan_;
  const query_options options_;
  const std::uint64_t slots_;
  const bool own_changes_;  // the reader is a transaction that has some
  std::vector<column_run> runs_;
  std::uint64_t mask_ = 0;
  bool old_together_ = false;  // old versions of several rows are looked for at once
  shared_steps steps_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  atomic<std::uint64_t> next_{0};
  atomic<bool> enough_{false};

  const at_work* const caller_ = at_work::here();  // there until all have left
  std::mutex lock_;
  std::condition_variable left_;
  // Under the lock:
  bool closed_ = false;
  std::uint32_t inside_ = 0;
  status why_;
  std::exception_ptr failed_;
  std::vector<std::unique_ptr<worker>> found_;

  std::unique_ptr<query_groups> groups_;
  query_figures figures_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

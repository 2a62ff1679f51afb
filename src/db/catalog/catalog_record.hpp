// SPDX-License-Identifier: Apache-2.0
// catalog_record.hpp: what a change of the catalogue has to do with the log. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "db/log/logged.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// One change's record: written before anything is changed, and durable before any other thread
/// sees the change. A database in memory has none.
class catalog_record : logged {
 public:
  /// fill(byte_buffer&) writes what the change is, if that is to be logged. Throws std::bad_alloc.
  template <class Fill>
  catalog_record(engine& of, record_kind kind, Fill&& fill) : logged(of) {
    if (log_ == nullptr) return;
    entry_.reset(log_->take());
    entry_->kind = kind;
    fill(entry_->data);
  }

  ~catalog_record() {
    if (promised_ && place_.sequence == 0) log_->give_room_back(*entry_);
  }

  /// True: it is of no use to begin, since the log has failed before or has no room for the record.
  /// A change that makes room may have the room that is kept for such changes. False: there is room
  /// until this object ends. Throws std::bad_alloc.
  [[nodiscard]] bool refused() {
    if (log_ == nullptr) return false;
    const record_kind kind = entry_->kind;
    const bool frees = kind == record_kind::drop_table || kind == record_kind::drop_index;
    promised_ = !log_->failed() && log_->promise(*entry_, [frees] { return frees; });
    return !promised_;
  }

  /// Gives the change its position among the commits; returns its number. The caller has the lock
  /// of the catalogue: a thread that takes that lock after a cut then knows the numbers of all
  /// changes before the cut.
  std::uint64_t place() noexcept {
    if (log_ == nullptr) return engine_.files != nullptr ? engine_.files->next() : 0;
    log_->append(*entry_, place_, [] { return 0; });
    if (!place_.written) static_cast<void>(entry_.release());  // it is the log's
    return place_.sequence;
  }
  /// Waits until it is durable. False: the log has failed, and the record may be durable or not.
  /// From before place() until the caller has undone the change then, it holds `unsettled` of the
  /// engine, shared.
  bool wait() noexcept {
    return is_durable([this](const auto& at) { return log_->wait(at); });
  }
  /// place() and wait() in one; `number` is set under the lock, and never if that fails.
  bool write(std::uint64_t& number) noexcept {
    const std::shared_lock not_settled(engine_.unsettled);
    {
      const std::lock_guard hold(engine_.catalog_lock);
      number = place();
    }
    if (wait()) return true;
    const std::lock_guard hold(engine_.catalog_lock);
    number = logged_span::never;
    return false;
  }

 private:
  std::unique_ptr<log_entry> entry_;
  bool promised_ = false;  // there is room for it
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

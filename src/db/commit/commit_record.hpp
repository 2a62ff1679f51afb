// SPDX-License-Identifier: Apache-2.0
// commit_record.hpp: what a commit has to do with the log. Internal.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "db/log/logged.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// One commit's record: written before anything can be seen, queued at the moment of publication.
class commit_record : logged {
 public:
  /// Of the session with this number.
  commit_record(engine& of, std::uint32_t session) noexcept : logged(of), session_(session) {}
  ~commit_record() {
    if (entry_ == nullptr) return;
    if (promised_ && place_.sequence == 0) log_->give_room_back(*entry_);
    log_->give_back(entry_, session_);
  }

  /// Not ok: the commit must not happen. What follows cannot fail for want of room in the log.
  /// deletes_only() tells whether nothing but ends of rows is written. Throws std::bad_alloc.
  template <class DeletesOnly>
  outcome write(std::vector<pending_write>& writes, DeletesOnly&& deletes_only) {
    bool any = false;
    for (const pending_write& w : writes) any |= w.changed;
    if (!any) return outcome::ok;
    if (engine_.read_only) return outcome::read_only;
    if (log_ == nullptr) return outcome::ok;
    if (!log_->admit()) return outcome::storage_failed;
    entry_ = log_->take(session_);
    for (pending_write& w : writes) {
      if (w.changed) put(w);
    }
    if (entry_->data.size() > longest_record) return outcome::limit;
    promised_ = log_->promise(*entry_, std::forward<DeletesOnly>(deletes_only));
    return promised_ ? outcome::ok : outcome::storage_failed;
  }

  /// Makes the commit visible, and gives it its place in the log; its timestamp.
  std::uint64_t publish(commit_board::record& r) noexcept {
    if (log_ == nullptr) return engine_.board.publish(r);
    const auto commit = log_->append(*entry_, place_, [&] { return engine_.board.publish(r); });
    if (!place_.written) entry_ = nullptr;  // it is the log's
    return commit;
  }

  /// The same for commit_board::publish_if(): the commit's place is behind all that it has seen.
  template <class Valid>
  std::uint64_t publish_if(commit_board::record& r, Valid&& valid) {
    if (log_ == nullptr) return engine_.board.publish_if(r, std::forward<Valid>(valid));
    const auto settle = [&](std::uint64_t drawn, auto& step) {
      if (!log_->append_if(*entry_, place_, drawn, step)) return false;
      if (!place_.written) entry_ = nullptr;  // it is the log's
      return true;
    };
    return engine_.board.publish_if(r, std::forward<Valid>(valid), settle);
  }

  /// Waits until it is as durable as the level of durability says.
  outcome acknowledge() noexcept {
    const bool done = is_durable([this](const auto& at) { return log_->acknowledge(at); });
    return done ? outcome::ok : outcome::storage_failed;
  }

 private:
  /// Of a row that is there, what changes. The log has the changes of a row in their order, and a
  /// checkpoint is what was there at one place of it: so behind that, what is changed is there.
  void put(pending_write& w) {
    const bool there = !w.fresh && (w.place.head->shape.load_relaxed() & row_exists) != 0;
    const table& t = *w.of;
    if (there && (w.shape & row_exists) != 0 && w.sets != every_column) {
      w.fetch(t.layout().keyed());
      return put_columns(entry_->data, t.number_, t.layout(), w.image, w.shape, w.sets);
    }
    w.fetch(every_column);
    put_change(entry_->data, t.number_, t.layout(), w.image, w.shape);
  }

  const std::uint32_t session_;
  log_entry* entry_ = nullptr;
  bool promised_ = false;  // there is room for it
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

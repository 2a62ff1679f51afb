// SPDX-License-Identifier: Apache-2.0
// logged.hpp: what a commit and a change of the catalogue have in common: a position in the log,
// for which a thread waits. Internal.
#pragma once

#include "db/engine.hpp"
#include "db/files/storage.hpp"
#include "db/log/journal.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class logged {
 public:
  logged(const logged&) = delete;
  logged& operator=(const logged&) = delete;

 protected:
  explicit logged(engine& of) noexcept : engine_(of), log_(of.log) {}
  ~logged() = default;

  /// wait(place) returns true if it is as durable as is asked for. Then the log may have become so
  /// long that there is to be a checkpoint.
  template <class Wait>
  bool is_durable(Wait&& wait) noexcept {
    if (log_ == nullptr) return true;
    const bool done = wait(place_);
    engine_.files->after_commit();
    return done;
  }

  engine& engine_;
  journal* const log_;  // null: nothing is logged
  journal::queue::place place_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

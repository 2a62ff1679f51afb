// SPDX-License-Identifier: Apache-2.0
// era_slots.hpp: the announcing half of hazard eras: guards with slots that hold eras, and steps of
// searches.
//
// step() asks for no look when the whole guard has announced one era only and the clock still
// stands there: whatever this guard holds was linked at some time since, so whatever is reached
// from it was, too. Once the guard has announced a second era, every step asks for a look: a block
// found in the first era may have been unlinked in it, and its frozen link may lead to one that was
// free before the second was announced. (A mere look at the step that moved to the second era would
// do for a search along one path, not for one that goes back to where it stood before.) The same
// after announce(), whose block may have been unlinked already. A slot that comes into use in the
// same era has to take effect itself, by A, since the others may be given up before it; then it
// does not matter in which order a scan reads the slots.
#pragma once

#include <algorithm>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/source.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/eras.hpp>
#include <spolia/reclaim/detail/slot_owners.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

using era_row = basic_slot_row<std::uint64_t>;
using era_rows = basic_slot_rows<std::uint64_t>;

/// `Scheme` reads, protect(me, hold, slot, source), and scans; its `local` has a part `rows`.
template <class Scheme>
class era_slots : public retiring_by_era<Scheme> {
 public:
  using typename retiring_by_era<Scheme>::options;

  struct hold {
    era_row* row = nullptr;
    std::uint32_t used = 0;      // bit i: slot i has been written
    std::uint64_t era = no_era;  // all that this guard has announced; or `several`
  };

  void join(auto& me, std::uint32_t, auto) noexcept { me.rows.join(rows_); }
  void exited(auto& me, auto) noexcept { me.rows.leave(rows_); }  // its guards have cleared them

  void enter(auto&) noexcept {}
  void leave(auto&) noexcept {}

  hold open(auto& me) { return {&me.rows.take(rows_), 0, no_era}; }
  static slot_owners& owners(hold& h) noexcept { return h.row->owners; }

  template <class Source>
  bool step(auto& me, hold& h, unsigned slot, const Source& source,
            source_value<Source>& to) noexcept {
    slot = checked(slot);
    const std::uint64_t now = this->clock_.now_after(source, to);
    if (now == h.era) {
      if (h.row->at[slot].load_relaxed() == now) return true;
      put(h, slot, now);
      if (this->clock_.now() == now || SPOLIA_FAULT("he.slot_without_effect")) return true;
    }
    to = static_cast<Scheme&>(*this).protect(me, h, slot, source);
    return SPOLIA_FAULT("he.no_look_in_a_second_era");
  }

  template <class T>
  void announce(auto&, hold& h, unsigned slot, T) noexcept {
    put(h, checked(slot), this->clock_.now());
    h.era = several;
  }

 protected:
  friend retiring_by_era<Scheme>;

  explicit era_slots(const options& o) noexcept : retiring_by_era<Scheme>(o) {}

  static void give_back(hold& h) noexcept { era_rows::give_back(*h.row, h.used); }

  static unsigned checked(unsigned slot) noexcept {
    if (!SPOLIA_CHECKS || slot < guard_slots) return slot;
    misuse::report("eras: a guard has slots 0 to 7 only", threads::number());
    return slot % guard_slots;
  }

  /// Announces an era in a slot, and orders that before whatever is read next.
  static void put(hold& h, unsigned slot, std::uint64_t era) noexcept {
    h.used |= 1U << slot;
    h.era = h.era == no_era || h.era == era ? era : several;
    atomic<std::uint64_t>& place = h.row->at[slot];
    // release → the acquire of the scan that reads it, for the accesses under the slot's last era.
    SPOLIA_FAULT("he.relaxed_publish") ? place.store_relaxed(era) : place.store_release(era);
    // light → the heavy fence in scan(): either the scan finds the era, or we find the clock moved.
    if (!SPOLIA_FAULT("he.no_light")) fence::light();
  }

  std::uint64_t slot_count() const noexcept { return guard_slots * rows_.in_use(); }

  /// So many dated blocks are scanned. Twice the slots, so that reading these does not cost more
  /// than freeing.
  std::uint64_t limit(auto) const noexcept {
    return std::max<std::uint64_t>(this->options_.scan_at, 2 * slot_count());
  }

 private:
  static constexpr std::uint64_t several = ~std::uint64_t{0};

  alignas(cache_line) row_count rows_;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR

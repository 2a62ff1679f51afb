// SPDX-License-Identifier: Apache-2.0
// chromatic_chooser.hpp: chooses the routers that a table of shortcuts names
// (chromatic_shortcuts.hpp), a few at a time, so that no update pays for a whole table.
//
// Idea:     first the routers of some level that has few, then those below each of them. It holds
//           what it has chosen (owner.hpp) from one piece of work to the next, each of which has
//           a session of its own.
// Why it may go on from a router that it found in another session. It looks whether that was
//   removed meanwhile, and does not go on from there if it was. If it was not, then it is in the
//   tree at some moment of this session, and so is, or was, what it leads to.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Nodes, class Collector, class Way, std::size_t Most>
class chromatic_chooser {
  using key_type = typename Nodes::key_type;
  using internal = typename Nodes::internal;
  using link = typename Nodes::link;
  struct place {
    key_type from;
    internal* at;
    bool is_final;
  };

 public:
  /// Throws std::bad_alloc.
  chromatic_chooser(Collector& c, internal& entry) : collector_(c), entry_(entry) {
    low.reserve(Most);
    high.reserve(most_high);
  }

  /// Goes on, and counts down for each router that it looks at, until there is nothing left to
  /// count, or to do: then false. Inside a session. Throws std::bad_alloc.
  bool go_on(std::size_t& looks) {
    if (high.empty()) {
      if (const link& top = follow(entry_, 0); !top.to_leaf) {
        choose({key_type(), Nodes::as_internal(top.to), false}, most_high, high, looks);
      }
    }
    while (next_ < high.size() && looks != 0) {
      const std::size_t share = (Most - low.size()) / (high.size() - next_);
      const Way& from = high[next_];
      internal* const at = from.at;
      // relaxed: it may be removed at once in any case.
      if (at == nullptr || at->marked.load_relaxed()) {
        low.push_back({from.from, nullptr});
        looks -= 1;
      } else {
        choose({from.from, at, false}, (std::min)(share, 2 * Most / high.size()), low, looks);
      }
      ++next_;  // all of it was chosen, or nothing
    }
    return next_ < high.size();
  }

  /// What was chosen, in ascending order, all held; null: it was retired.
  std::vector<Way> low;
  std::vector<Way> high;  // some levels above

 private:
  static constexpr std::size_t most_high = std::max<std::size_t>(Most / 64, 1);

  const link& follow(internal& at, unsigned side) const noexcept {
    return at.child(side).newest(collector_.time())->value;
  }

  /// At most so many below one, level by level, as long as there is room.
  void choose(const place& top, std::size_t room, std::vector<Way>& chosen, std::size_t& looks) {
    std::vector<place> level{top};
    std::vector<place> next;
    for (bool grows = true; grows; level.swap(next)) {
      grows = false;
      next.clear();
      for (std::size_t i = 0; i < level.size(); ++i) {
        fetch_ahead(level, i);
        place& p = level[i];
        if (!p.is_final && next.size() + (level.size() - i) < room) {
          looks -= std::min<std::size_t>(looks, 1);
          grows = open(p, next) || grows;
        }
        if (p.at != nullptr) next.push_back(p);
      }
    }
    for (const place& p : level) {
      const bool held = SPOLIA_FAULT("shortcuts.not_held") || p.at->hold();
      chosen.push_back({p.from, held ? p.at : nullptr});
    }
  }
  static void fetch_ahead(const std::vector<place>& level, std::size_t i) noexcept {
    if (i + 8 < level.size() && !level[i + 8].is_final)
      __builtin_prefetch(std::addressof(level[i + 8].at->key));
    if (i + 4 < level.size() && !level[i + 4].is_final) level[i + 4].at->prefetch();
  }

  /// Puts a router's children in its place, if both are routers.
  bool open(place& p, std::vector<place>& next) const {
    p.is_final = true;
    const std::array<link, 2> to{follow(*p.at, 0), follow(*p.at, 1)};
    if (to[0].to_leaf || to[1].to_leaf) return false;
    next.push_back({p.from, Nodes::as_internal(to[0].to), false});
    next.push_back({p.at->key, Nodes::as_internal(to[1].to), false});
    p.at = nullptr;
    return true;
  }

  Collector& collector_;
  internal& entry_;
  std::size_t next_ = 0;  // of high: the first below which nothing was chosen yet
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

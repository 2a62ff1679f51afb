// SPDX-License-Identifier: Apache-2.0
// domain_upkeep.hpp: when a read-log-update domain looks through its logs, and how it ends.
#pragma once

#include <algorithm>
#include <cstdint>

#include <spolia/rlu/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

/// After a section: its log's turn, if much has been written, or many reads had to walk; and a
/// neighbour's, whose owner may be asleep or gone.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::tend(session& mine) noexcept {
  const bool many_walks = mine.walked >= mine.next_walks;
  if (mine.written.filled() < mine.next_pass && !many_walks) [[likely]]
    return;
  mine.walked = 0;
  const std::uint64_t before = mine.written_back.value();
  collect(mine, mine);
  const auto held = static_cast<std::uint32_t>(mine.written.bytes() / options_.segment_bytes);
  mine.next_pass = std::max(options_.collect_after, held / 2);
  session* const other = sessions_.find(mine.neighbour++ % threads::high_water());
  if (other != nullptr && other != &mine &&
      other->written.filled() >= (many_walks ? 1 : 2 * options_.collect_after)) {
    collect(*other, mine);
  }
  const bool futile = mine.written_back.value() - before < few_copies;
  set_next_walks(mine, held, many_walks && futile);
  drain_now_and_then();
}

/// Where passes make few walks shorter, or take long because a section sleeps: less often.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::set_next_walks(session& mine, std::uint32_t held,
                                                 bool futile) noexcept {
  const std::uint32_t least = std::max(
      options_.collect_after_walks, held < 8 * options_.collect_after ? 0 : held * walks_a_segment);
  mine.next_walks = futile ? std::clamp(2 * mine.next_walks, least, most_walks) : least;
}

/// Readers are asked about retired segments when there are twice as many as could not go then.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::drain_now_and_then() noexcept {
  const std::uint64_t waiting = blocks_.garbage();
  if (waiting < most_retired || waiting < drain_at_.load_relaxed()) return;
  drain_at_.store_relaxed(2 * waiting);  // so that nobody else begins
  blocks_.drain();
  drain_at_.store_relaxed(2 * blocks_.garbage());
}

template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::collect(session& s, session& mine) noexcept {
  s.written.collect([&] {
    detail::collector<log> now(s.written, options_.segment_bytes, options_.log_cap);
    now.pass(sections_, clock_, [&](typename log::piece& empty) { retire(empty); });
    mine.written_back.add(now.written_back());
  });
}

template <class Clock, class Blocks>
basic_domain<Clock, Blocks>::~basic_domain() {
  threads::unlisten(*this);
  sessions_.for_each([](std::uint32_t n, session& s) {
    if (s.depth != 0) misuse::report("rlu: a section outlives its domain", n);
    s.written.abandon([](typename log::piece& piece) {
      piece.for_each(0, [](detail::record& r) {
        if (r.kind.read() == detail::record_kind::lock_only) return;
        if (r.state.load_relaxed() == detail::record_state::done) return;
        // One that has moved has left the object's life to its twin.
        const bool linked = r.state.load_relaxed() == detail::record_state::linked;
        if (linked && r.kind.read() == detail::record_kind::tombstone) r.of->let_go();
        r.of->let_go();
      });
      log::piece::end(&piece);
    });
    return true;
  });
}

template <class Clock, class Blocks>
statistics basic_domain<Clock, Blocks>::stats() const noexcept {
  statistics sum;
  sessions_.for_each([&](std::uint32_t, const session& s) {
    sum.commits += s.commits.value();
    sum.conflicts += s.conflicts.value();
    sum.walks += s.walks.value();
    sum.written_back += s.written_back.value();
    sum.log_bytes += s.written.bytes();
    return true;
  });
  sum.retired_segments = blocks_.garbage();
  return sum;
}

}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR

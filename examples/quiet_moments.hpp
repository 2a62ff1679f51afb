// SPDX-License-Identifier: Apache-2.0
// quiet_moments.hpp: how to write your own reclamation scheme, as short as one can be. It frees
// blocks at moments at which no guard is alive anywhere. docs/schemes.md, "Write your own",
// explains it.
//
// Protects:    region: all that was reachable when the guard began.
// Cost:        two read-modify-writes of a shared word for each guard: threads do not scale.
// Bound:       none: guards that overlap without end leave no quiet moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <spolia/base/atomic.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/region_reads.hpp>

class quiet_moments : public spolia::region_reads {
 public:
  static constexpr spolia::scheme_info info{.name = "quiet_moments",
                                            .title = "quiet moments",
                                            .source = "an example",
                                            .protects = spolia::protection::region,
                                            .robust = false,
                                            .cost = "two read-modify-writes of a shared word",
                                            .progress = "wait-free",
                                            .bound = "none: guards may overlap without end"};

  struct options {
    std::uint32_t look_every = 64;  ///< blocks that a thread retires from one check to the next
  };
  struct local {
    spolia::limbo waiting;
    std::uint32_t retired = 0;  // since the last check
    bool inside = false;
  };

  explicit quiet_moments(const options& o) noexcept : options_(o) {}
  static const char* what_is_wrong(const options& o) noexcept {
    return o.look_every == 0 ? "quiet_moments: look_every must be at least 1" : nullptr;
  }

  // Not the length of the list: another thread may be taking it over in adopt().
  [[nodiscard]] bool due(const local& me) const noexcept {
    return me.retired >= options_.look_every;
  }
  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    me.retired = 0;
    collect(me, peers, sink);
  }
  // acq_rel ↔ the check in collect(), which is before or after this in the order of changes of the
  // word. If it is after, it sees a guard. If it is before, this guard finds unlinked what was
  // unlinked before the check.
  void enter(local& me) noexcept {
    me.inside = true;
    guards_.fetch_add_acq_rel(1);
  }
  // release → the check in collect(): the guard's reads are over.
  void leave(local& me) noexcept {
    guards_.fetch_sub_release(1);
    me.inside = false;
  }
  template <class Peers, class Sink>
  void retire(local& me, spolia::retired* block, Peers, Sink) noexcept {
    me.waiting.push(block);
    ++me.retired;
  }
  template <class Peers, class Sink>
  void collect(local& me, Peers, Sink sink) noexcept {
    // acq_rel: see enter() and leave().
    if (guards_.fetch_add_acq_rel(0) != 0) return;
    moments_.fetch_add_relaxed(1);
    sink(me.waiting);
  }
  void adopt(local& me, local& other) noexcept { me.waiting.append(other.waiting); }
  void abandon(local& me, spolia::limbo& all) noexcept { all.append(me.waiting); }
  template <class Peers>
  void exited(local&, Peers) noexcept {}
  // A thread that the fork did not take along leaves no guard. What it had to say of its guard may
  // be half said: the flag, and not yet the count. After the last such thread the count is what the
  // flag of the one that goes on says.
  template <class Peers>
  void forked(local& lost, Peers peers) noexcept {
    lost.inside = false;
    std::uint64_t inside = 0;
    peers.for_each([&](std::uint32_t, const local& other) {
      inside += other.inside ? 1U : 0U;
      return true;
    });
    guards_.store_relaxed(inside);
  }
  template <class F>
  static void lists(local& of, F&& f) {
    f(of.waiting);
  }
  [[nodiscard]] std::size_t waiting(const local& me) const noexcept { return me.waiting.count(); }
  [[nodiscard]] std::uint64_t epochs() const noexcept { return moments_.load_relaxed(); }
  [[nodiscard]] std::optional<std::uint64_t> bound(std::size_t) const noexcept {
    return std::nullopt;
  }

 private:
  const options options_;
  spolia::atomic<std::uint64_t> guards_{0};
  spolia::atomic<std::uint64_t> moments_{0};
};

static_assert(spolia::scheme<quiet_moments>);

// SPDX-License-Identifier: Apache-2.0
// token_ring.hpp: the paper's own token ring, in its three orders of passing and freeing.
//
// Source:      Kim, Brown, Singh: Are Your Epochs Too Epic? PPoPP 2024, section 4.
//                token_naive       free the previous bag, then pass the token
//                token_pass_first  pass it, then free
//                token_periodic    pass it, then free, looking every hundred frees whether it is
//                                  back
//              The paper's final form is token_periodic with the amortized release policy.
// Idea:        a thread that holds the token at the start of an operation is between two
//              operations. When the token comes back to it, every other thread has been there too:
//              what it had unlinked before it passed the token on is out of reach.
// Protects:    region.
// Cost:        one load of an own cache line an operation. No fence, no read-modify-write:
//              receiving the token orders everything.
// Progress:    wait-free for operations.
// Bound:       none: every thread that has used the domain must go on using it, or exit. One that
//              idles, blocks or is descheduled stops the ring for all. This scheme is the measured
//              baseline; `token` (token.hpp) is the one to use.
//
// Departures from the paper:
//   D1  Threads join and leave: the token goes to the next thread that is present. A thread that
//       joins issues a heavy fence before its first operation, matched by a light one in the
//       passing: either the passer sees it present, or it sees everything the passer knows to be
//       unlinked.
//   D2  While a thread frees (token_periodic) it passes the token on without rotating its bags,
//       since it runs no operation meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/region_reads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

enum class token_order : std::uint8_t { naive, pass_first, periodic };

template <token_order Order>
class token_ring : public region_reads {
 public:
  static constexpr scheme_info info{
      .name = Order == token_order::naive        ? "token_naive"
              : Order == token_order::pass_first ? "token_pass_first"
                                                 : "token_periodic",
      .title = Order == token_order::naive        ? "token ring, naive"
               : Order == token_order::pass_first ? "token ring, pass first"
                                                  : "token ring, periodic",
      .source = "Kim, Brown, Singh, PPoPP 2024, section 4",
      .protects = protection::region,
      .robust = false,
      .cost = "one load an operation",
      .progress = "operations wait-free; the ring waits for every thread, idle ones too",
      .bound = "none if a thread stalls, idles or is descheduled"};

  struct options {};

  struct local {
    atomic<std::uint32_t> here{0};     // 1: the token is with this thread
    atomic<std::uint32_t> present{0};  // 1: this thread takes part
    std::uint32_t number = 0;
    limbo current;
    limbo previous;
  };

  explicit token_ring(const options&) noexcept {}
  static const char* what_is_wrong(const options&) noexcept { return nullptr; }

  template <class Peers>
  void join(local& me, std::uint32_t number, Peers) noexcept {
    me.number = number;
    me.present.store_relaxed(1);
    // heavy → the light fence in pass() (D1).
    fence::heavy();
    if (unpark()) give(me);
  }

  bool due(local& me) const noexcept { return me.here.load_relaxed() != 0; }

  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    // acquire ← the release in pass(): every other thread's boundary happens before what follows,
    // and with it their last accesses of what is in `previous`.
    if (me.here.load_acquire() == 0) return;
    limbo safe;
    safe.append(me.previous);
    me.previous.append(me.current);
    if constexpr (Order == token_order::naive) {
      sink(safe);
      pass(me, peers);
    } else {
      pass(me, peers);
      if constexpr (Order == token_order::pass_first) {
        sink(safe);
      } else {
        sink(safe, [&] {
          // acquire ← the release in pass(), handed on by our own pass (D2).
          if (me.here.load_acquire() != 0) pass(me, peers);
        });
      }
    }
  }

  void enter(local&) noexcept {}
  void leave(local&) noexcept {}
  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink) noexcept {
    me.current.push(block);
  }

  /// Only helps when this thread is alone in the ring, or the others keep running.
  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    for (int i = 0; i < 3; ++i) tick(me, peers, sink);
  }

  void adopt(local& me, local& other) noexcept {
    me.current.append(other.previous);
    me.current.append(other.current);
  }
  void abandon(local& me, limbo& all) noexcept {
    all.append(me.previous);
    all.append(me.current);
  }

  template <class Peers>
  void exited(local& me, Peers peers) noexcept {
    // release → the acquires of `present`: a thread that passes us over sees our last accesses
    // ended.
    if (SPOLIA_FAULT("ring.exit_relaxed")) {
      me.present.store_relaxed(0);
    } else {
      me.present.store_release(0);
    }
    // heavy → the light fence in give(): either the giver sees us absent, or we see the token.
    fence::heavy();
    if (take_back(me)) pass(me, peers);
  }

  /// The token may have vanished with the thread, even in mid-air: if no thread has it, we do.
  template <class Peers>
  void forked(local& lost, Peers peers) noexcept {
    lost.present.store_relaxed(0);
    lost.here.store_relaxed(0);
    local* heir = nullptr;
    bool somebody_has_it = false;
    peers.for_each([&](std::uint32_t, local& l) {
      if (l.present.load_relaxed() == 0) return true;
      heir = &l;
      somebody_has_it = somebody_has_it || l.here.load_relaxed() != 0;
      return true;
    });
    if (heir != nullptr && !somebody_has_it) heir->here.store_relaxed(1);
    parked_.store_relaxed(heir == nullptr ? 1 : 0);
  }
  template <class F>
  static void lists(local& of, F&& f) {
    f(of.previous);
    f(of.current);
  }

  std::size_t waiting(const local& me) const noexcept {
    return me.current.count() + me.previous.count();
  }
  std::uint64_t epochs() const noexcept { return rounds_.load_relaxed(); }
  std::optional<std::uint64_t> bound(std::size_t) const noexcept { return std::nullopt; }

 private:
  /// Sends the token to the next thread that is present, possibly ourselves.
  template <class Peers>
  void pass(local& me, Peers peers) noexcept {
    me.here.store_relaxed(0);  // before it is handed on: it may be back at once
    // light → the heavy fence in join() (D1).
    fence::light();
    do {
      const std::uint32_t all = peers.high_water();
      for (std::uint32_t step = 1; step <= all; ++step) {
        const std::uint32_t n = (me.number + step) % all;
        local* const next = peers.find(n);
        if (next == nullptr || is_absent(*next)) continue;
        if (n <= me.number) count_round();
        if (give(*next)) return;
      }
      // release → the acquire in unpark().
      parked_.store_release(1);
      // heavy → the one in join(): a thread that joins now sees the parked token, or we see it
      // present.
      fence::heavy();
    } while (somebody_is_present(peers) && unpark());
  }

  static bool is_absent(const local& l) noexcept {
    // acquire ← the release in exited(): a thread that is passed over has ended its last operation,
    // and this carries its last accesses on to the thread that frees.
    return l.present.load_acquire() == 0;
  }

  template <class Peers>
  static bool somebody_is_present(Peers peers) noexcept {
    bool found = false;
    peers.for_each([&](std::uint32_t, const local& l) { return !(found = !is_absent(l)); });
    return found;
  }

  /// Hands the token over. False if that thread is leaving and we have the token again.
  bool give(local& to) noexcept {
    // release → the acquires of `here`: what we and all earlier holders have unlinked, and our last
    // accesses, happen before the receiver's next operation and its frees.
    if (SPOLIA_FAULT("ring.relaxed_pass")) {
      to.here.store_relaxed(1);
    } else {
      to.here.store_release(1);
    }
    // light → the heavy fence in exited().
    fence::light();
    return !is_absent(to) || !take_back(to);
  }

  static bool take_back(local& from) noexcept {
    std::uint32_t expected = 1;
    // acquire ← the release in give(): the token brings its history along.
    return from.here.cas_strong_acquire(expected, 0);
  }

  bool unpark() noexcept {
    std::uint32_t expected = 1;
    // acquire ← the release in pass(), when the ring became empty.
    return parked_.cas_strong_acquire(expected, 0);
  }

  void count_round() noexcept {
    rounds_.store_relaxed(rounds_.load_relaxed() + 1);  // by the holder only
    const std::uint64_t now = trace::on() ? trace::ticks() : 0;
    trace::record(trace::event::epoch_advanced, now, now, 1);
  }

  atomic<std::uint32_t> parked_{1};  // 1: no thread takes part and the token lies here
  alignas(cache_line) atomic<std::uint64_t> rounds_{0};
};

using token_naive = token_ring<token_order::naive>;
using token_pass_first = token_ring<token_order::pass_first>;
using token_periodic = token_ring<token_order::periodic>;

static_assert(scheme<token_naive> && scheme<token_pass_first> && scheme<token_periodic>);

}  // namespace spolia::inline SPOLIA_FLAVOUR

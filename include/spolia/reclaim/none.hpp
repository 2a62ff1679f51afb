// SPDX-License-Identifier: Apache-2.0
// none.hpp: no reclamation: the baseline that every other scheme is measured against.
//
// Source:      Kim, Brown, Singh, PPoPP 2024, section 3 (leaking memory).
// Protects:    region: what is never freed can always be read.
// Cost:        none; the blocks are kept on a list, and the domain's destructor frees them.
// Bound:       none: everything that was ever retired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <spolia/base/config.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/region_reads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class none : public region_reads {
 public:
  static constexpr scheme_info info{.name = "none",
                                    .title = "no reclamation",
                                    .source = "the baseline of PPoPP 2024, section 3",
                                    .protects = protection::region,
                                    .robust = false,
                                    .cost = "nothing",
                                    .progress = "wait-free",
                                    .bound = "none: nothing is freed before the domain goes",
                                    .reclaims = false};

  struct options {};
  struct local {
    limbo kept;
  };

  explicit none(const options&) noexcept {}
  static const char* what_is_wrong(const options&) noexcept { return nullptr; }

  bool due(local&) const noexcept { return false; }
  template <class Peers, class Sink>
  void tick(local&, Peers, Sink) noexcept {}
  void enter(local&) noexcept {}
  void leave(local&) noexcept {}
  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink) noexcept {
    me.kept.push(block);
  }
  template <class Peers, class Sink>
  void collect(local&, Peers, Sink) noexcept {}
  void adopt(local& me, local& other) noexcept { me.kept.append(other.kept); }
  void abandon(local& me, limbo& all) noexcept { all.append(me.kept); }
  template <class Peers>
  void exited(local&, Peers) noexcept {}
  template <class Peers>
  void forked(local&, Peers) noexcept {}
  template <class F>
  static void lists(local& of, F&& f) {
    f(of.kept);
  }
  std::size_t waiting(const local& me) const noexcept { return me.kept.count(); }
  std::uint64_t epochs() const noexcept { return 0; }
  std::optional<std::uint64_t> bound(std::size_t) const noexcept { return std::nullopt; }
};

static_assert(scheme<none>);

}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
/// \file
/// A scheme without a domain around it, so that the checker's executions are the scheme's own: one
/// local for each scenario thread, and a sink that frees at once.
///
/// Nobody joins, so the scheme counts no rows of slots and its smallest marks hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#include <spolia/base/atomic.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/model/engine.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::test {
struct bare;
}

namespace spolia::inline SPOLIA_FLAVOUR {

template <class, class>
class domain;

/// Domains say how blocks end; this one does it for the tests' nodes.
template <>
class domain<test::bare, test::bare> {
 public:
  static void say_how(retired& r, const disposer& how) { r.how_.write(&how); }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

namespace spolia::test {

/// What readers look at: a value that must be there, and no race with its end.
struct bare_node : retired {
  explicit bare_node(int v) : value(v) {}
  void look() const { model::check(value.read() > 0, "the block is whole"); }

  static bare_node* make(int v) {
    auto* const n = new (memory::allocate(sizeof(bare_node), alignof(bare_node))) bare_node(v);
    domain<bare, bare>::say_how(*n, how);
    return n;
  }
  static void end(retired* r) noexcept {
    auto* const n = static_cast<bare_node*>(r);
    n->value.write(0);
    n->~bare_node();
    memory::deallocate(n, sizeof(bare_node), alignof(bare_node));
  }
  static const void* address_of(const retired* r) noexcept {
    return static_cast<const bare_node*>(r);
  }
  static constexpr disposer how{&end, &address_of, nullptr, 0, 0};

  plain<int> value;
};

template <class Scheme, std::size_t Threads = 3>
struct bare_domain {
  using local = typename Scheme::local;

  explicit bare_domain(typename Scheme::options o = {}) : scheme(o) {}

  struct peers {
    bare_domain* of;
    template <class F>
    void for_each(F&& f) const {
      for (std::uint32_t n = 0; n < Threads; ++n) {
        if (!f(n, of->locals[n])) return;
      }
    }
    std::uint32_t high_water() const noexcept { return Threads; }
    std::uint64_t existing() const noexcept { return 0; }
  };
  struct sink {
    void operator()(limbo& safe) const noexcept {
      while (retired* const r = safe.pop()) r->how().dispose(r);
    }
  };

  local& me() { return locals[model::current_thread()]; }

  void retire(bare_node* n) { scheme.retire(me(), n, peers{this}, sink{}); }
  void collect() { scheme.collect(me(), peers{this}, sink{}); }

  /// Ends everything that waits, and tells how much did.
  std::size_t end() {
    limbo all;
    for (local& l : locals) scheme.abandon(l, all);
    const std::size_t waited = all.count();
    sink{}(all);
    return waited;
  }

  Scheme scheme;
  std::array<local, Threads> locals;
};

/// One guard.
template <class Domain>
struct bare_guard {
  explicit bare_guard(Domain& d) : of(d), hold(d.scheme.open(d.me())) {}
  ~bare_guard() { of.scheme.close(of.me(), hold); }
  bare_guard(const bare_guard&) = delete;
  bare_guard& operator=(const bare_guard&) = delete;

  bare_node* protect(const atomic<bare_node*>& source, unsigned slot = 0) {
    return of.scheme.protect(of.me(), hold, slot, source);
  }
  void announce(bare_node* n, unsigned slot) { of.scheme.announce(of.me(), hold, slot, n); }
  void keep(bare_node* n, unsigned slot = 0) { of.scheme.keep(of.me(), hold, slot, n); }
  template <class F>
  auto read(F f) {
    return of.scheme.read(of.me(), hold, f);
  }

  Domain& of;
  decltype(of.scheme.open(of.me())) hold;
};

}  // namespace spolia::test

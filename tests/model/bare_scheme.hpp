// SPDX-License-Identifier: Apache-2.0
/// \file
/// A scheme without a domain around it, so that the checker's executions are the scheme's own: one
/// local for each scenario thread, and a sink that frees at once.
///
/// No thread joins, so the scheme counts no rows of slots and its smallest marks hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#include <spolia/base/atomic.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>
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
  static void say_how(retired& r, const disposer& how) { r.ends_by(how, 0); }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

namespace spolia::test {

/// What readers look at: a value that must be there, and no race with its end.
template <class Stamp>
struct basic_bare_node : stamped<Stamp> {
  explicit basic_bare_node(int v) : value(v) {}
  void look() const { model::check(value.read() > 0, "the block is whole"); }

  static basic_bare_node* make(int v) {
    void* const place = memory::allocate(sizeof(basic_bare_node), alignof(basic_bare_node));
    auto* const n = new (place) basic_bare_node(v);
    domain<bare, bare>::say_how(*n, how);
    return n;
  }
  static void end(retired* r) noexcept {
    auto* const n = static_cast<basic_bare_node*>(r);
    n->value.write(0);
    n->~basic_bare_node();
    memory::deallocate(n, sizeof(basic_bare_node), alignof(basic_bare_node));
  }
  static const void* address_of(const retired* r) noexcept {
    return static_cast<const basic_bare_node*>(r);
  }
  static constexpr disposer how{&end, &address_of, nullptr, 0, 0};

  plain<int> value;
  atomic<basic_bare_node*> next{nullptr};
};

using bare_node = basic_bare_node<nothing>;

template <class Scheme, std::size_t Threads = 3>
struct bare_domain {
  using local = typename Scheme::local;
  using node = basic_bare_node<typename Scheme::stamp>;

  explicit bare_domain(typename Scheme::options o = {}) : scheme(o) {
    if constexpr (requires { scheme.unpark(locals[0]); }) {
      for (local& l : locals) scheme.unpark(l);  // there is no gate to be parked at
    }
  }

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
    std::size_t most;
    void operator()(limbo& safe) const noexcept {
      while (retired* const r = safe.pop()) r->how().dispose(r);
    }
    std::size_t wants() const noexcept { return most; }
  };

  /// For schemes that number their threads. The others need not join.
  void join() {
    if constexpr (requires { locals[0].number; }) {
      threads::number();  // now there are cells for the numbers of the model
      for (std::uint32_t n = 0; n < Threads; ++n) scheme.join(locals[n], n, peers{this});
    }
  }

  local& me() { return locals[model::current_thread()]; }

  void retire(node* n) { scheme.retire(me(), n, peers{this}, sink{wants}); }
  /// Between two operations.
  void tick() { scheme.tick(me(), peers{this}, sink{wants}); }
  /// A node that knows when it was made.
  node* make(int v) {
    node* const n = node::make(v);
    scheme.born(me(), n->stamp);
    return n;
  }
  void collect() { scheme.collect(me(), peers{this}, sink{wants}); }

  /// Ends everything that waits, and tells how much did.
  std::size_t end() {
    limbo all;
    for (local& l : locals) scheme.abandon(l, all);
    const std::size_t waited = all.count();
    sink{wants}(all);
    return waited;
  }

  Scheme scheme;
  std::size_t wants = ~std::size_t{0};  // safe blocks at a time
  std::array<local, Threads> locals;
  std::array<int, Threads> depth{};  // guards alive
};

/// One guard, and an operation around it if it is the thread's only one.
template <class Domain>
struct bare_guard {
  using node = typename Domain::node;

  explicit bare_guard(Domain& d) : of(d), hold(begin(d)) {}
  ~bare_guard() {
    of.scheme.close(of.me(), hold);
    if (--of.depth[model::current_thread()] == 0) of.scheme.leave(of.me());
  }
  bare_guard(const bare_guard&) = delete;
  bare_guard& operator=(const bare_guard&) = delete;

  node* protect(const atomic<node*>& source, unsigned slot = 0) {
    return of.scheme.protect(of.me(), hold, slot, source);
  }
  bool step(const atomic<node*>& source, unsigned slot, node*& to) {
    return of.scheme.step(of.me(), hold, slot, source, to);
  }
  void announce(node* n, unsigned slot) { of.scheme.announce(of.me(), hold, slot, n); }
  void keep(node* n, unsigned slot = 0) { of.scheme.keep(of.me(), hold, slot, n); }
  template <class F>
  auto read(F f) {
    return of.scheme.read(of.me(), hold, f);
  }

  static auto begin(Domain& d) {
    if (d.depth[model::current_thread()]++ == 0) {
      d.scheme.enter(d.me());
      if constexpr (protects_eras<decltype(d.scheme)>) fence::light();  // as a domain does
    }
    return d.scheme.open(d.me());
  }

  Domain& of;
  decltype(of.scheme.open(of.me())) hold;
};

}  // namespace spolia::test

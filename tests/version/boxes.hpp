// SPDX-License-Identifier: Apache-2.0
/// \file
/// The smallest structure whose nodes have versioned fields and die: a root names a box, which
/// holds a value. set() changes the value in the box; move() closes the box for good, puts its
/// value into a new one, and lets the root name that.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/snapshot.hpp>

namespace spolia::test {

template <class Value, class Collector>
class boxes {
  using domain_type = typename Collector::domain_type;
  using guard = typename domain_type::guard;
  using session = typename Collector::session;

  struct content {
    Value value;
    bool closed = false;
  };

  /// A node with one field.
  template <class T>
  struct node final : list_owner<domain_type> {
    using field_type = owned_field<T, Collector>;
    node(std::uint64_t born, T first)
        : list_owner<domain_type>(born), field(*this, std::move(first)) {}
    void retire_by(guard& g) noexcept override {
      field.retire_by(g);
      g.retire(this);
    }
    void destroy_in(domain_type& nodes) noexcept override {
      field.destroy_in(nodes);
      nodes.destroy(this);
    }
    std::uint64_t ended_left() const noexcept override { return field.ended_left(); }
    field_type field;
  };
  using box = node<content>;
  using root = node<box*>;

 public:
  boxes(Collector& c, Value first)
      : versions_(c), root_(make<root>(make<box>(content{std::move(first)}))) {}
  boxes(const boxes&) = delete;
  boxes& operator=(const boxes&) = delete;
  /// The collector must be closed.
  ~boxes() {
    current()->destroy_in(versions_.nodes());
    root_->destroy_in(versions_.nodes());
  }

  void set(const Value& v) {
    session here = enter();
    for (;;) {
      box* const b = current();
      auto* const old = b->field.newest(time());
      if (old->value.closed) {
        replace(here, b);
      } else if (append(here, *b, old, content{v, false}) != 0) {
        return;
      }
    }
  }

  /// The first half of move(): from now on the box cannot change.
  void close() {
    session here = enter();
    close(here, current());
  }
  void move() {
    session here = enter();
    box* const b = current();
    close(here, b);
    replace(here, b);
  }

  /// f(the current value)
  template <class F>
  auto read(F&& f) {
    auto here = versions_.enter();
    return f(current()->field.newest(time())->value.value);
  }
  /// The value at a snapshot, which stays while the snapshot does.
  const Value& at(const snapshot& then) {
    auto here = versions_.enter();
    const std::uint64_t t = then.timestamp();
    return (*root_->field.at(time(), t))->field.at(time(), t)->value;
  }

 private:
  auto& time() const noexcept { return versions_.time(); }
  box* current() const noexcept { return root_->field.newest(time())->value; }

  session enter() {
    session here = versions_.enter();
    versions_.prepare(here);
    return here;
  }
  template <class Node, class T>
  Node* make(T first) {
    return versions_.nodes().template make<Node>(time().earliest(), std::move(first));
  }

  /// The stamp of the new version; 0: another thread was faster.
  template <class Node, class Version, class T>
  std::uint64_t append(session& here, Node& n, Version* old, T value) {
    auto* const fresh = n.field.make(versions_, n, old, std::move(value));
    if (n.hold()) {
      if (n.field.append(here, old, fresh)) return fresh->since.load_relaxed();
      versions_.let_go(here, n);
    }
    fresh->destroy_in(versions_.nodes());
    return 0;
  }

  void close(session& here, box* b) {
    for (;;) {
      auto* const old = b->field.newest(time());
      if (old->value.closed) return;
      if (append(here, *b, old, content{old->value.value, true}) != 0) return;
    }
  }

  /// The box is closed: a new one takes its place, unless it has been replaced.
  void replace(session& here, box* b) {
    auto* const old = root_->field.newest(time());
    if (old->value != b) return;
    box* const next = make<box>(content{b->field.newest(time())->value.value, false});
    if (const std::uint64_t until = append(here, *root_, old, next)) {
      versions_.died(here, *b, until);
    } else {
      next->destroy_in(versions_.nodes());
    }
  }

  Collector& versions_;
  root* root_;
};

}  // namespace spolia::test

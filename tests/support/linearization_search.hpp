// SPDX-License-Identifier: Apache-2.0
/// \file
/// Is there an order of these operations that respects real time and that a sequential object
/// explains? The search of Wing and Gong (Testing and verifying concurrent objects, 1993), with
/// the memory of tried configurations by Lowe (Testing for linearizability, 2017).
///
/// It works for any object whose specification is a type `Spec` like this:
///
///     struct my_spec {
///       struct operation { std::uint64_t start, end; ...; };
///       using state = ...;                                  // cheap to copy
///       static bool apply(state&, const operation&);        // false: impossible in this state
///       static digest128 digest(const state&);
///     };
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/digest.hpp"

namespace spolia::test {

template <class Spec>
concept sequential_spec =
    requires(typename Spec::state& state, const typename Spec::operation& operation) {
      { Spec::apply(state, operation) } -> std::same_as<bool>;
      { Spec::digest(state) } -> std::same_as<digest128>;
      { operation.start } -> std::convertible_to<std::uint64_t>;
      { operation.end } -> std::convertible_to<std::uint64_t>;
    };

enum class search_outcome { accepted, refused, gave_up };

struct search_result {
  search_outcome outcome = search_outcome::accepted;
  /// If refused: no order explains the operations up to this one's end, but some order explains
  /// what ended before.
  std::size_t stuck = 0;
};

/// The part of a history to explain. An operation that crosses the window's edge may have taken
/// effect outside and is optional; whoever cuts a window leaves out what does not touch it.
struct time_window {
  std::uint64_t from = 0;
  std::uint64_t until = std::numeric_limits<std::uint64_t>::max();
};

/// Keeps its memory from one run to the next. Not thread-safe.
template <sequential_spec Spec>
class linearization_search {
 public:
  using state = typename Spec::state;
  using operation = typename Spec::operation;

  /// Gives up after `budget` configurations; each costs about 32 bytes.
  explicit linearization_search(std::size_t budget = std::size_t{1} << 25) : budget_(budget) {}

  /// `operations` sorted by start. Usually linear; exponential in the worst case in the number of
  /// operations in flight at once.
  search_result run(std::span<const operation> operations, state initial, time_window window = {}) {
    prepare(operations, window);
    state now = initial;
    digest128 done{};
    std::uint32_t at = list_[head].next;
    std::uint32_t furthest = head;
    while (returns_left_ > 0) {
      const entry& e = list_[at];
      const operation& o = operations[e.op];
      state next = now;
      // At its own end, an operation from before the window counts as done before it.
      const bool possible = e.is_call ? Spec::apply(next, o) : o.start < window.from;
      if (possible && remember(done, e.op, next)) {
        if (tried_.size() > budget_) return {search_outcome::gave_up, 0};
        stack_.push_back({e.op, e.is_call, now, done});
        now = next;
        done ^= digest_of(e.op);
        lift(e.op);
        at = list_[head].next;
        continue;
      }
      if (e.is_call) {
        at = e.next;
        continue;
      }
      furthest = std::max(furthest, at);
      if (!backtrack(now, done, at)) return {search_outcome::refused, list_[furthest].op};
    }
    return {search_outcome::accepted, 0};
  }

  /// How many configurations the last run looked at.
  [[nodiscard]] std::size_t configurations() const noexcept { return tried_.size(); }

 private:
  // Calls and returns in the order of time, linked so that operations can be taken out and put
  // back. Index 0 is the head and also means "none".
  struct entry {
    std::uint32_t prev;
    std::uint32_t next;
    std::uint32_t op;
    bool is_call;
  };
  struct places {
    std::uint32_t call;
    std::uint32_t ret;
  };
  struct frame {
    std::uint32_t op;
    bool from_call;
    state before;
    digest128 done;
  };
  static constexpr std::uint32_t head = 0;

  void prepare(std::span<const operation> operations, time_window window) {
    const auto n = static_cast<std::uint32_t>(operations.size());
    order_.clear();
    for (std::uint32_t i = 0; i < n; ++i) {
      if (operations[i].end <= window.until) order_.push_back(i);
    }
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return operations[a].end < operations[b].end;
    });
    returns_left_ = order_.size();
    list_.assign(1, {0, 0, 0, false});
    place_.assign(n, {0, 0});
    std::uint32_t call = 0;
    std::size_t ret = 0;
    while (call < n || ret < order_.size()) {
      // Equal stamps mean "concurrent", so calls come first.
      const bool is_call = ret == order_.size() ||
                           (call < n && operations[call].start <= operations[order_[ret]].end);
      const std::uint32_t op = is_call ? call++ : order_[ret++];
      const auto here = static_cast<std::uint32_t>(list_.size());
      (is_call ? place_[op].call : place_[op].ret) = here;
      list_.back().next = here;
      list_.push_back({here - 1, 0, op, is_call});
    }
    tried_.reset(n);
    stack_.clear();
  }

  bool remember(digest128 done, std::uint32_t op, const state& next) {
    done ^= digest_of(op);
    return tried_.insert(combine(done, Spec::digest(next)));
  }

  bool backtrack(state& now, digest128& done, std::uint32_t& at) {
    while (!stack_.empty()) {
      const frame f = stack_.back();
      stack_.pop_back();
      now = f.before;
      done = f.done;
      unlift(f.op);
      if (f.from_call) {
        at = list_[place_[f.op].call].next;
        return true;
      }
    }
    return false;
  }

  void unlink(std::uint32_t i) noexcept {
    list_[list_[i].prev].next = list_[i].next;
    if (list_[i].next != 0) list_[list_[i].next].prev = list_[i].prev;
  }
  void relink(std::uint32_t i) noexcept {
    list_[list_[i].prev].next = i;
    if (list_[i].next != 0) list_[list_[i].next].prev = i;
  }
  void lift(std::uint32_t op) noexcept {
    unlink(place_[op].call);
    if (place_[op].ret == 0) return;
    unlink(place_[op].ret);
    --returns_left_;
  }
  void unlift(std::uint32_t op) noexcept {
    if (place_[op].ret != 0) {
      relink(place_[op].ret);
      ++returns_left_;
    }
    relink(place_[op].call);
  }

  std::size_t budget_;
  std::size_t returns_left_ = 0;
  std::vector<entry> list_;
  std::vector<places> place_;
  std::vector<std::uint32_t> order_;
  std::vector<frame> stack_;
  digest_set tried_;
};

}  // namespace spolia::test

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
///       static bool only_reads(const operation&);           // optional, and worth it
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
      { state == state } -> std::convertible_to<bool>;
      { operation.start } -> std::convertible_to<std::uint64_t>;
      { operation.end } -> std::convertible_to<std::uint64_t>;
    };

template <class Spec>
bool only_reads(const typename Spec::operation& o) {
  if constexpr (requires { Spec::only_reads(o); }) return Spec::only_reads(o);
  return false;
}

enum class search_outcome { accepted, refused, gave_up };

struct search_result {
  search_outcome outcome = search_outcome::accepted;
  /// If refused: no order explains the operations up to this one's end, but some order explains
  /// what ended before. After giving up: the first for which no order was found.
  std::size_t stuck = 0;
};

/// The part of a history to explain. An operation that crosses the window's edge may have taken
/// effect outside and is optional; a caller that cuts a window leaves out what does not touch it.
struct time_window {
  std::uint64_t from = 0;
  std::uint64_t until = std::numeric_limits<std::uint64_t>::max();
};

/// When to give up: after `configurations` in all (each costs about 60 bytes), or after `stalled`
/// of them without explaining the history any further in time than before.
struct search_budget {
  std::size_t configurations = std::size_t{1} << 23;
  std::size_t stalled = std::numeric_limits<std::size_t>::max();
};

/// Keeps its memory from one run to the next. Not thread-safe.
template <sequential_spec Spec>
class linearization_search {
 public:
  using state = typename Spec::state;
  using operation = typename Spec::operation;

  /// `operations` sorted by start. Usually linear; exponential in the worst case in the number of
  /// operations in flight at once.
  search_result run(std::span<const operation> operations, state initial, time_window window = {},
                    search_budget budget = {}) {
    prepare(operations, window);
    expand(std::move(initial), {});
    std::size_t progress_at = 0;
    while (returns_left_ > 0) {
      node& n = path_.back();
      if (n.next == choices_.size()) {
        if (!retreat()) return {search_outcome::refused, list_[furthest_].op};
        continue;
      }
      const choice c = choices_[n.next++];
      state next = n.now;
      if (!c.skip && !Spec::apply(next, operations_[c.op])) continue;
      digest128 done = n.done;
      done ^= digest_of(c.op);
      if (!tried_.insert(combine(done, Spec::digest(next)))) continue;
      n.taken = c.op;
      lift(c.op);
      const std::uint32_t before = furthest_;
      expand(std::move(next), done);
      if (furthest_ > before) progress_at = tried_.size();
      if (tried_.size() > budget.configurations || tried_.size() - progress_at > budget.stalled) {
        return {search_outcome::gave_up, list_[furthest_].op};
      }
    }
    return {search_outcome::accepted, 0};
  }

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
  struct choice {
    std::uint32_t op;
    bool skip;  // it took effect before the window
  };
  // A configuration on the current path. Its choices are those from `first` to the next node's.
  struct node {
    state now;
    digest128 done;
    std::size_t first;
    std::size_t next;
    std::uint32_t taken;
  };
  static constexpr std::uint32_t head = 0;

  void prepare(std::span<const operation> operations, time_window window) {
    operations_ = operations;
    window_ = window;
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
    path_.clear();
    choices_.clear();
    furthest_ = head;
  }

  // Adds a configuration to the path with what may come next: all that was called before the first
  // return, the most urgent first, so that what need not be decided yet stays open.
  void expand(state now, digest128 done) {
    const std::size_t first = choices_.size();
    path_.push_back({std::move(now), done, first, first, 0});
    if (returns_left_ == 0) return;
    std::uint32_t at = list_[head].next;
    for (; list_[at].is_call; at = list_[at].next) {
      const std::uint32_t op = list_[at].op;
      if (harmless(op)) {
        choices_.resize(first);
        choices_.push_back({op, false});
        break;
      }
      choices_.push_back({op, false});
      for (std::size_t i = choices_.size() - 1; i > first && sooner(i, i - 1); --i) {
        std::swap(choices_[i], choices_[i - 1]);
      }
    }
    if (list_[at].is_call) return;
    furthest_ = std::max(furthest_, at);
    // At its own end, an operation from before the window may still count as done before it.
    const std::uint32_t due = list_[at].op;
    if (operations_[due].start < window_.from) choices_.push_back({due, true});
  }

  // An operation that changes nothing now, nor anywhere later in the order, might as well come now:
  // if no order goes on like this, none does that puts it later.
  [[nodiscard]] bool harmless(std::uint32_t op) const {
    if (!only_reads<Spec>(operations_[op])) return false;
    state next = path_.back().now;
    return Spec::apply(next, operations_[op]) && next == path_.back().now;
  }

  [[nodiscard]] bool sooner(std::size_t a, std::size_t b) const noexcept {
    const std::uint32_t end_of_a = place_[choices_[a].op].ret;
    const std::uint32_t end_of_b = place_[choices_[b].op].ret;
    return end_of_a != 0 && (end_of_b == 0 || end_of_a < end_of_b);
  }

  bool retreat() {
    choices_.resize(path_.back().first);
    path_.pop_back();
    if (path_.empty()) return false;
    unlift(path_.back().taken);
    return true;
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

  std::span<const operation> operations_;
  time_window window_;
  std::size_t returns_left_ = 0;
  std::uint32_t furthest_ = head;  // the last return that a configuration had to explain next
  std::vector<entry> list_;
  std::vector<places> place_;
  std::vector<std::uint32_t> order_;
  std::vector<node> path_;
  std::vector<choice> choices_;
  digest_set tried_;
};

}  // namespace spolia::test

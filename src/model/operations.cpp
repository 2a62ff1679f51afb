// SPDX-License-Identifier: Apache-2.0
// What the hooks ask for: each operation first lets the scheduler decide which thread goes on, then
// checks that its object may be touched, then takes effect in the memory model.

#include <algorithm>
#include <new>
#include <string>

#include "execution.hpp"

namespace spolia::model {

// ---- objects -----------------------------------------------------------------------------------

void engine::born(tie& object) noexcept {
  object.made_in = execution_;
  object.birth =
      phase_ == phase::single ? 0 : epoch(running_, memory_.now(running_).at[running_]).bits();
}

epoch engine::born_at(const tie& object) const {
  return object.made_in == execution_ ? epoch::from_bits(object.birth) : epoch();
}

// Construction is an ordinary write, so an access that does not come after it is a race with it.
void engine::check_born(const tie& object, const void* address) {
  const epoch birth = born_at(object);
  if (birth.happens_before(memory_.now(running_))) return;
  fail("race: access to " + tracer_.place(address) + " whose construction by T" +
       std::to_string(birth.thread()) + " does not happen before");
}

// Checks that the object's block is alive, and remembers the access for the thread that frees it.
void engine::touch(const void* address) {
  if (!heap_.owns(address)) return;
  block* const around = heap_.find(address);
  if (around == nullptr) fail("access outside of all blocks: " + tracer_.place(address));
  if (around->freed) {
    fail("use after free: " + tracer_.place(address) + ", freed by T" +
         std::to_string(around->freed_by));
  }
  if (phase_ != phase::single) {
    around->touched.at[running_] = memory_.now(running_).at[running_];
  }
}

std::uint32_t engine::locate(const atomic_cell& cell) {
  tie& engine_part = cell.engine;
  if (engine_part.registered_in != execution_) {
    if (!memory_.add_location(&cell, cell.initial, engine_part.index)) {
      fail("the scenario uses too many atomic objects");
    }
    engine_part.registered_in = execution_;
  }
  return engine_part.index;
}

std::uint32_t engine::operate_on(const atomic_cell& cell) {
  touch(&cell);
  check_born(cell.engine, &cell);
  return locate(cell);
}

// Where an object's only value lives while there is only one thread of control. An object that is
// older than the execution must get its first value back in the next one, so that stays untouched.
std::uint64_t& engine::bare_value(atomic_cell& cell) {
  touch(&cell);
  if (cell.engine.registered_in != execution_ && cell.engine.made_in == execution_) {
    return cell.initial;
  }
  return memory_.at(locate(cell)).stores.back().value;
}

// ---- waiting -----------------------------------------------------------------------------------

void engine::open_round() {
  waiting_round& round = me().round;
  if (round.open) return;
  round.open = true;
  round.changes_at_start = foreign_changes(me());
}

void engine::note_load(std::uint32_t where) {
  open_round();
  waiting_round& round = me().round;
  if (round.count < waiting_round::capacity) round.loaded[round.count] = where;
  ++round.count;
}

// Storing the value that is there already cannot end the waiting of any thread.
void engine::count_change(std::uint32_t where, std::uint64_t value) {
  open_round();
  if (memory_.at(where).stores.back().value == value) return;
  ++changes_;
  ++me().own_changes;
}

// One round of a waiting loop is over. A loop may read old values, but not forever: what it has
// read is brought up to date; if it was so already, the next round goes the same way until another
// thread has stored something since this round began, and can_go_on() waits for that.
void engine::spin_wait() {
  if (phase_ == phase::single) {
    count_step();
    return;
  }
  thread_state& thread = me();
  open_round();
  // An old value may have become the thread's past meanwhile, by an acquire: it still has to look
  // again before it can be said to wait.
  bool behind = thread.round.stale || thread.round.count > waiting_round::capacity;
  for (std::size_t i = 0; i < std::min(thread.round.count, waiting_round::capacity); ++i) {
    behind |= memory_.catch_up(running_, thread.round.loaded[i]);
  }
  if (!behind) {
    thread.waiting = true;
    thread.waiting_since = thread.round.changes_at_start;
  }
  thread.round.count = 0;
  thread.round.open = false;
  thread.round.stale = false;
  count_step();
  do {
    pass_control();
  } while (deliver_one());
}

// ---- atomics -----------------------------------------------------------------------------------

void engine::check_room(std::uint32_t where) {
  if (memory_.at(where).stores.size() >= max_stores) fail("too many stores to one atomic object");
}

std::uint64_t engine::load(const atomic_cell& cell, std::memory_order order) {
  reach();
  if (phase_ == phase::single) {
    touch(&cell);
    if (cell.engine.registered_in != execution_) return cell.initial;
    return memory_.at(cell.engine.index).stores.back().value;
  }
  const std::uint32_t where = operate_on(cell);
  note_load(where);
  const position newest = memory_.at(where).newest();
  const position oldest =
      how_.weak_memory ? memory_.oldest_visible(running_, where, order) : newest;
  const auto count = static_cast<std::uint32_t>(newest - oldest + 1);
  const auto behind = static_cast<position>(choose(std::min(count, max_options)));
  me().round.stale |= behind != 0;
  const std::uint64_t value =
      memory_.read(running_, where, static_cast<position>(newest - behind), order);
  if (tracing_) trace_load(cell, "load", order, value, behind);
  return value;
}

void engine::store(atomic_cell& cell, std::uint64_t value, std::memory_order order) {
  reach();
  if (phase_ == phase::single) {
    bare_value(cell) = value;
    return;
  }
  const std::uint32_t where = operate_on(cell);
  check_room(where);
  count_change(where, value);
  memory_.write(running_, where, value, order);
  if (tracing_) trace_store(cell, "store", order, value);
}

template <class Update>
std::uint64_t engine::update(atomic_cell& cell, const char* name, std::memory_order order,
                             Update&& next) {
  reach();
  if (phase_ == phase::single) {
    std::uint64_t& bare = bare_value(cell);
    const std::uint64_t old = bare;
    bare = next(old);
    return old;
  }
  const std::uint32_t where = operate_on(cell);
  check_room(where);
  const std::uint64_t old = memory_.read(running_, where, memory_.at(where).newest(), order);
  const std::uint64_t replacement = next(old);
  count_change(where, replacement);
  memory_.replace(running_, where, replacement, order);
  if (tracing_) {
    trace_load(cell, name, order, old, 0);
    trace_store(cell, name, order, replacement);
  }
  return old;
}

std::uint64_t engine::exchange(atomic_cell& cell, std::uint64_t value, std::memory_order order) {
  return update(cell, "exchange", order, [value](std::uint64_t) { return value; });
}

std::uint64_t engine::fetch(atomic_cell& cell, arithmetic what, std::uint64_t operand,
                            std::uint64_t mask, std::memory_order order) {
  switch (what) {
    case arithmetic::add:
      return update(cell, "fetch_add", order,
                    [=](std::uint64_t old) { return (old + operand) & mask; });
    case arithmetic::sub:
      return update(cell, "fetch_sub", order,
                    [=](std::uint64_t old) { return (old - operand) & mask; });
    case arithmetic::bit_or:
      return update(cell, "fetch_or", order, [=](std::uint64_t old) { return old | operand; });
    default:
      return update(cell, "fetch_and", order, [=](std::uint64_t old) { return old & operand; });
  }
}

// What a compare-and-swap may read: the newest store, which decides whether it succeeds, or an
// older visible one that differs from `expected`, which makes it fail.
std::uint32_t engine::failing_candidates(std::uint32_t where, std::uint64_t expected,
                                         std::memory_order failure) {
  const location& target = memory_.at(where);
  const position newest = target.newest();
  std::uint32_t count = 0;
  candidates_[count++] = newest;
  if (!how_.weak_memory) return count;
  const position oldest = memory_.oldest_visible(running_, where, failure);
  for (int at = newest - 1; at >= oldest && count < max_options - 1; --at) {
    if (target.stores[static_cast<std::size_t>(at)].value == expected) continue;
    candidates_[count++] = static_cast<position>(at);
  }
  return count;
}

bool engine::compare_exchange(atomic_cell& cell, std::uint64_t& expected, std::uint64_t desired,
                              std::memory_order success, std::memory_order failure, bool weak) {
  reach();
  if (phase_ == phase::single) {
    std::uint64_t& bare = bare_value(cell);
    if (bare == expected) {
      bare = desired;
      return true;
    }
    expected = bare;
    return false;
  }
  const std::uint32_t where = operate_on(cell);
  check_room(where);
  const position newest = memory_.at(where).newest();
  const bool equal = memory_.at(where).stores.back().value == expected;
  const std::uint32_t count = failing_candidates(where, expected, failure);
  const bool may_be_spurious = weak && equal && spurious_ < how_.spurious_failures;
  const std::uint32_t chosen = choose(count + (may_be_spurious ? 1 : 0));
  const bool spurious = chosen == count;
  const position from = spurious ? newest : candidates_[chosen];
  if (spurious) ++spurious_;
  if (equal && from == newest && !spurious) {
    memory_.read(running_, where, newest, success);
    count_change(where, desired);
    memory_.replace(running_, where, desired, success);
    if (tracing_) {
      trace_load(cell, "cas", success, expected, 0);
      trace_store(cell, "cas", success, desired);
    }
    return true;
  }
  note_load(where);
  me().round.stale |= from != newest;
  expected = memory_.read(running_, where, from, failure);
  if (tracing_) {
    trace_load(cell, spurious ? "cas fails spuriously:" : "cas fails:", failure, expected,
               static_cast<position>(newest - from));
  }
  return false;
}

// ---- fences ------------------------------------------------------------------------------------

void engine::fence(fence_kind kind, const char* name) {
  reach();
  if (phase_ == phase::single) return;
  (memory_.*kind)(running_);
  if (tracing_) tracer_.line(who(), std::string("fence ") + name);
}

// Mostly no scheduling point: what could come between this and the operation before it does as well
// before both, for only heavy fences see this. But see options::light_fences_apart.
void engine::light_fence() {
  if (how_.light_fences_apart) reach();
  if (phase_ == phase::single) return;
  memory_.light_fence(running_);
  if (tracing_) tracer_.line(who(), "fence light");
}

// ---- ordinary data and blocks ------------------------------------------------------------------

plain_history& engine::history_of(tie& object) {
  if (object.registered_in != execution_) {
    object.registered_in = execution_;
    object.index = static_cast<std::uint32_t>(plains_.size());
    plains_.push_back({born_at(object), {}});
  }
  return plains_[object.index];
}

plain_history* engine::plain_access(tie& object, const void* address, const char* what) {
  if (phase_ == phase::threads) {
    while (deliver_one()) {
    }
  }
  touch(address);
  if (phase_ == phase::single) return nullptr;
  plain_history& history = history_of(object);
  if (!history.written.happens_before(memory_.now(running_))) {
    fail(std::string("data race: ") + what + " of " + tracer_.place(address) +
         " against the write by T" + std::to_string(history.written.thread()));
  }
  return &history;
}

void engine::plain_read(tie& object, const void* address) {
  plain_history* const history = plain_access(object, address, "read");
  if (history == nullptr) return;
  history->read.at[running_] = memory_.now(running_).at[running_];
  if (tracing_) tracer_.line(who(), "read  " + tracer_.place(address));
}

void engine::plain_write(tie& object, const void* address) {
  plain_history* const history = plain_access(object, address, "write");
  if (history == nullptr) return;
  const clock& now = memory_.now(running_);
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    if (history->read.at[i] <= now.at[i]) continue;
    fail("data race: write of " + tracer_.place(address) + " against the read by T" +
         std::to_string(i));
  }
  history->written = epoch(running_, now.at[running_]);
  if (tracing_) tracer_.line(who(), "write " + tracer_.place(address));
}

void engine::note_access(const void* address) {
  if (phase_ == phase::threads) {
    while (deliver_one()) {
    }
  }
  touch(address);
}

void* engine::allocate(std::size_t bytes, std::size_t align) {
  void* const memory = heap_.allocate(bytes, align);
  if (memory == nullptr) throw std::bad_alloc();
  touch(memory);
  if (tracing_) {
    tracer_.line(who(), "allocate " + tracer_.place(memory) + " of " + std::to_string(bytes));
  }
  return memory;
}

void engine::deallocate(void* address, std::size_t bytes) {
  if (!heap_.owns(address)) fail("deallocate() of memory that allocate() did not give");
  block* const target = heap_.find(address);
  if (target == nullptr || heap_.address(*target) != reinterpret_cast<std::uintptr_t>(address)) {
    fail("deallocate() of an address that no block starts at: " + tracer_.place(address));
  }
  if (target->freed) {
    fail("double free of " + tracer_.place(address) + ", freed before by T" +
         std::to_string(target->freed_by));
  }
  if (target->bytes != bytes) fail("deallocate() with another size than allocate()");
  if (phase_ != phase::single) {
    for (std::uint32_t i = 0; i < thread_count_; ++i) {
      if (target->touched.at[i] <= memory_.now(running_).at[i]) continue;
      fail("free of " + tracer_.place(address) + " races with an access by T" + std::to_string(i) +
           " (no happens-before)");
    }
  }
  heap_.free(*target, running_);
  if (tracing_) tracer_.line(who(), "free " + tracer_.place(address));
}

// ---- traces ------------------------------------------------------------------------------------

void engine::name(const void* address, std::size_t bytes, std::string text) {
  tracer_.name(address, bytes, std::move(text));
}

void engine::trace_load(const atomic_cell& cell, const char* name, std::memory_order order,
                        std::uint64_t value, position behind) {
  std::string text = std::string(name) + " " + print(order) + " " + tracer_.place(&cell) + " = " +
                     tracer_.value(value);
  if (behind != 0) {
    text += "   (old, " + std::to_string(behind) + " behind: the newest is " +
            tracer_.value(memory_.at(cell.engine.index).stores.back().value) + ")";
  }
  tracer_.line(who(), text);
}

void engine::trace_store(const atomic_cell& cell, const char* name, std::memory_order order,
                         std::uint64_t value) {
  tracer_.line(who(), std::string(name) + " " + print(order) + " " + tracer_.place(&cell) +
                          " := " + tracer_.value(value));
}

}  // namespace spolia::model

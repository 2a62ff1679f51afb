// SPDX-License-Identifier: Apache-2.0
#include "memory_model.hpp"

namespace spolia::model {

void memory_model::begin() {
  strong_.clear(size());
  from_light_.clear(size());
  from_heavy_.clear(size());
  for (thread_memory& each : threads_) {
    each.current.clear(size());
    each.acquirable.clear(size());
    each.released.clear(size());
  }
  pool_.clear();
  used_ = 0;
  thread_count_ = 0;
}

void memory_model::start_threads(std::uint32_t threads) {
  // Views stay empty: position 0 of each location is what set-up left there.
  thread_count_ = threads;
  for (std::uint32_t i = 0; i < threads; ++i) {
    thread_memory& me = threads_[i];
    me.now = {};
    me.now.at[i] = 1;
    me.acquirable_clock = {};
    me.released_clock = {};
    me.has_released = false;
  }
}

bool memory_model::add_location(const void* address, std::uint64_t initial, std::uint32_t& index) {
  if (used_ == max_locations) return false;
  if (used_ == locations_.size()) locations_.resize(2 * used_);
  index = static_cast<std::uint32_t>(used_++);
  location& added = locations_[index];
  added.address = address;
  added.stores.clear();
  // Construction is not a release: reading the first value synchronises with nothing.
  added.stores.push_back({initial, {}, {}});
  return true;
}

position memory_model::oldest_visible(std::uint32_t thread, std::uint32_t where,
                                      std::memory_order order) const {
  const position mine = threads_[thread].current[where];
  if (order != std::memory_order_seq_cst) return mine;
  return std::max(mine, strong_[where]);
}

bool memory_model::catch_up(std::uint32_t thread, std::uint32_t where) {
  thread_memory& me = threads_[thread];
  const position newest = locations_[where].newest();
  if (me.current[where] == newest) return false;
  me.current.raise(where, newest);
  me.acquirable.raise(where, newest);
  return true;
}

std::uint64_t memory_model::read(std::uint32_t thread, std::uint32_t where, position which,
                                 std::memory_order order) {
  thread_memory& me = threads_[thread];
  const message& from = locations_[where].stores[static_cast<std::size_t>(which)];
  me.current.raise(where, which);
  me.acquirable.raise(where, which);
  if (from.seen.length != 0) {
    me.acquirable.join(pool_, from.seen);
    if (acquires(order)) me.current.join(pool_, from.seen);
  }
  me.acquirable_clock.join(from.when);
  if (acquires(order)) me.now.join(from.when);
  // A later seq_cst load must not read an older store than this one did: it would have to come
  // before this one in S.
  if (order == std::memory_order_seq_cst) strong_.raise(where, which);
  return from.value;
}

message memory_model::compose(thread_memory& me, std::uint64_t value, std::memory_order order,
                              const message* continued) {
  message made;
  made.value = value;
  const bool release = releases(order);
  const bool carries_view = release || me.has_released;
  made.when = release ? me.now : me.released_clock;
  if (continued != nullptr) made.when.join(continued->when);
  const std::size_t inherited = continued == nullptr ? 0 : continued->seen.length;
  if (!carries_view && inherited == 0) return made;

  const std::size_t length = carries_view ? size() : inherited;
  position* seen = pool_.take(length, made.seen);
  if (carries_view) {
    const view& own = release ? me.current : me.released;
    std::memcpy(seen, own.data(), length * sizeof(position));
  } else {
    std::memset(seen, 0, length * sizeof(position));
  }
  if (inherited != 0) join_positions(seen, pool_.at(continued->seen), inherited);
  return made;
}

void memory_model::append(std::uint32_t thread, std::uint32_t where, const message& stored,
                          std::memory_order order) {
  thread_memory& me = threads_[thread];
  location& target = locations_[where];
  target.stores.push_back(stored);
  const position newest = target.newest();
  me.current.raise(where, newest);
  me.acquirable.raise(where, newest);
  if (order == std::memory_order_seq_cst) strong_.raise(where, newest);
  // What this thread does from here on is after anything that the message publishes.
  ++me.now.at[thread];
}

void memory_model::write(std::uint32_t thread, std::uint32_t where, std::uint64_t value,
                         std::memory_order order) {
  append(thread, where, compose(threads_[thread], value, order, nullptr), order);
}

void memory_model::replace(std::uint32_t thread, std::uint32_t where, std::uint64_t value,
                           std::memory_order order) {
  const message replaced = locations_[where].stores.back();
  append(thread, where, compose(threads_[thread], value, order, &replaced), order);
}

void memory_model::acquire_fence(std::uint32_t thread) {
  thread_memory& me = threads_[thread];
  me.current.join(me.acquirable, size());
  me.now.join(me.acquirable_clock);
}

void memory_model::release_fence(std::uint32_t thread) {
  thread_memory& me = threads_[thread];
  me.released.assign(me.current, size());
  me.released_clock = me.now;
  me.has_released = true;
  ++me.now.at[thread];
}

void memory_model::full_fence(std::uint32_t thread) {
  thread_memory& me = threads_[thread];
  acquire_fence(thread);
  me.current.join(strong_, size());
  strong_.assign(me.current, size());
  me.acquirable.join(me.current, size());
  release_fence(thread);
}

void memory_model::light_fence(std::uint32_t thread) {
  thread_memory& me = threads_[thread];
  from_light_.join(me.current, size());
  me.current.join(from_heavy_, size());
  me.acquirable.join(me.current, size());
}

void memory_model::heavy_fence(std::uint32_t thread) {
  thread_memory& me = threads_[thread];
  acquire_fence(thread);
  // Only what happens before this fence is ordered before later ones. What earlier light fences
  // published is not passed on to later light ones: those pairs have no heavy fence among them.
  // (The kernel interrupts the processors one after another, so they really can disagree.)
  scratch_.assign(me.current, size());
  me.current.join(from_light_, size());
  me.current.join(strong_, size());  // that has what earlier heavy fences published, too
  from_heavy_.join(scratch_, size());
  strong_.join(scratch_, size());
  me.acquirable.join(me.current, size());
  release_fence(thread);
}

}  // namespace spolia::model

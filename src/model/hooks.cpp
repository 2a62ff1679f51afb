// SPDX-License-Identifier: Apache-2.0
// The door from the base headers to the engine. Without an execution, objects are just values.

#include <spolia/model/hooks.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "execution.hpp"

namespace spolia::model {
namespace {

std::uint64_t apply(arithmetic what, std::uint64_t old, std::uint64_t operand) {
  switch (what) {
    case arithmetic::add:
      return old + operand;
    case arithmetic::sub:
      return old - operand;
    case arithmetic::bit_or:
      return old | operand;
    default:
      return old & operand;
  }
}

}  // namespace

void born(tie& object) noexcept {
  if (engine::current != nullptr) engine::current->born(object);
}

std::uint64_t load(const atomic_cell& cell, std::memory_order order) noexcept {
  if (engine::current == nullptr) return cell.initial;
  return engine::current->load(cell, order);
}

void store(atomic_cell& cell, std::uint64_t value, std::memory_order order) noexcept {
  if (engine::current == nullptr) {
    cell.initial = value;
    return;
  }
  engine::current->store(cell, value, order);
}

std::uint64_t exchange(atomic_cell& cell, std::uint64_t value, std::memory_order order) noexcept {
  if (engine::current == nullptr) return std::exchange(cell.initial, value);
  return engine::current->exchange(cell, value, order);
}

bool compare_exchange(atomic_cell& cell, std::uint64_t& expected, std::uint64_t desired,
                      std::memory_order success, std::memory_order failure, bool weak) noexcept {
  if (engine::current != nullptr) {
    return engine::current->compare_exchange(cell, expected, desired, success, failure, weak);
  }
  const std::uint64_t wanted = std::exchange(expected, cell.initial);
  if (wanted != expected) return false;
  cell.initial = desired;
  return true;
}

std::uint64_t fetch(atomic_cell& cell, arithmetic what, std::uint64_t operand, std::uint64_t mask,
                    std::memory_order order) noexcept {
  if (engine::current != nullptr) {
    return engine::current->fetch(cell, what, operand, mask, order);
  }
  return std::exchange(cell.initial, apply(what, cell.initial, operand) & mask);
}

void plain_read(tie& object, const void* address) noexcept {
  if (engine::current != nullptr) engine::current->plain_read(object, address);
}

void plain_write(tie& object, const void* address) noexcept {
  if (engine::current != nullptr) engine::current->plain_write(object, address);
}

void fence_light() noexcept {
  if (engine::current != nullptr) engine::current->light_fence();
}

void fence_heavy() noexcept {
  if (engine::current != nullptr) engine::current->fence(&memory_model::heavy_fence, "heavy");
}

void fence_full() noexcept {
  if (engine::current != nullptr) engine::current->fence(&memory_model::full_fence, "full");
}

void fence_acquire() noexcept {
  if (engine::current != nullptr) engine::current->fence(&memory_model::acquire_fence, "acquire");
}

void fence_release() noexcept {
  if (engine::current != nullptr) engine::current->fence(&memory_model::release_fence, "release");
}

void spin_wait() noexcept {
  if (engine::current != nullptr) engine::current->spin_wait();
}

void* allocate(std::size_t bytes, std::size_t align) {
  if (engine::current != nullptr) return engine::current->allocate(bytes, align);
  return ::operator new(bytes, std::align_val_t{align});
}

void deallocate(void* address, std::size_t bytes, std::size_t align) noexcept {
  if (address == nullptr) return;
  if (engine::current != nullptr) {
    engine::current->deallocate(address, bytes);
    return;
  }
  ::operator delete(address, std::align_val_t{align});
}

void note_access(const void* address) noexcept {
  if (engine::current != nullptr) engine::current->note_access(address);
}

std::uint32_t current_thread() noexcept {
  return engine::current == nullptr ? 0 : engine::current->current_thread();
}

std::uint32_t thread_count() noexcept {
  return engine::current == nullptr ? 1 : engine::current->thread_count();
}

void at_thread_exit(void (*hook)(void*), void* argument) {
  if (engine::current != nullptr) engine::current->at_thread_exit({hook, argument});
}

void signal(std::uint32_t thread, void (*handler)()) {
  if (engine::current != nullptr) engine::current->signal(thread, handler);
}

void yield() {
  if (engine::current != nullptr) engine::current->yield();
}

void check(bool condition, const char* what) {
  if (condition) return;
  if (engine::current != nullptr) engine::current->fail(std::string("check failed: ") + what);
  std::fprintf(stderr, "check failed outside an execution: %s\n", what);
  std::abort();
}

void scenario::thread(std::function<void()> body) { owner_.add_thread(std::move(body)); }
void scenario::finally(std::function<void()> body) { owner_.set_finally(std::move(body)); }
void scenario::name(const void* address, std::size_t bytes, std::string text) {
  owner_.name(address, bytes, std::move(text));
}

}  // namespace spolia::model

// SPDX-License-Identifier: Apache-2.0
#include "fiber.hpp"

#include <sys/mman.h>

#include <cxxabi.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

// Saves the callee-saved registers on the running stack, stores the stack pointer in *left, and
// restores the same from `next`. A fresh stack holds zeros for the registers and the entry's
// address where this function would return to.
extern "C" void spolia_model_switch(void** left, void* next);

#if defined(__x86_64__)
asm(R"(
.text
.globl spolia_model_switch
.type spolia_model_switch,@function
spolia_model_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size spolia_model_switch, .-spolia_model_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl spolia_model_switch
.type spolia_model_switch,%function
spolia_model_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size spolia_model_switch, .-spolia_model_switch
)");
#else
#error "the model checker's fibers know x86-64 and aarch64"
#endif

namespace spolia::model {
namespace {

constexpr std::size_t stack_bytes = 256 * 1024;
constexpr std::size_t guard_bytes = 64 * 1024;  // a multiple of every page size in use

std::byte* map_stack() {
  void* memory = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (mprotect(memory, guard_bytes, PROT_NONE) != 0) std::abort();
  return static_cast<std::byte*>(memory);
}

// Returns the stack pointer of a fiber that spolia_model_switch can enter for the first time.
void* prepare(std::byte* top, void (*entry)()) {
#if defined(__x86_64__)
  // Six registers, the entry's address, and a null return address, which also puts the stack
  // pointer where the calling convention wants it at a function's first instruction.
  constexpr std::size_t words = 8;
  constexpr std::size_t entry_word = 6;
#else
  constexpr std::size_t words = 20;
  constexpr std::size_t entry_word = 11;  // x30
#endif
  std::byte* sp = top - words * sizeof(std::uint64_t);
  std::memset(sp, 0, words * sizeof(std::uint64_t));
  const auto address = reinterpret_cast<std::uint64_t>(entry);
  std::memcpy(sp + entry_word * sizeof(std::uint64_t), &address, sizeof address);
  return sp;
}

}  // namespace

fiber::~fiber() {
  if (stack_ != nullptr) munmap(stack_, guard_bytes + stack_bytes);
}

void fiber::start(void (*entry)()) {
  if (stack_ == nullptr) stack_ = map_stack();
  left_at_ = prepare(stack_ + guard_bytes + stack_bytes, entry);
  exceptions_ = {};
}

void fiber::change(fiber& from, fiber& to) {
  void* const state = abi::__cxa_get_globals();
  std::memcpy(&from.exceptions_, state, sizeof from.exceptions_);
  std::memcpy(state, &to.exceptions_, sizeof to.exceptions_);
  spolia_model_switch(&from.left_at_, to.left_at_);
}

}  // namespace spolia::model

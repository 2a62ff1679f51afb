// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where the census keeps the slots of one thread number.
#pragma once

#include <cstdint>
#include <new>

#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

inline census::slot& census::shelf::take(std::uint32_t thread) {
  if (free_.read() == nullptr && returned_.load_relaxed() != nullptr) {
    // acquire ← the release in put_from_elsewhere(): we see the links, and the stamps vacated.
    free_.write(returned_.exchange_acquire(nullptr));
  }
  if (free_.read() == nullptr) grow(thread);
  slot& s = *free_.read();
  free_.write(s.next_free.read());
  return s;
}

inline void census::shelf::put_from_elsewhere(slot& s) noexcept {
  slot* first = returned_.load_relaxed();
  do {
    s.next_free.write(first);
    // release → the acquire in take(): the owner sees the link, and the stamp vacated. (The owner
    // takes the whole list, so no slot can come back in between and fool the comparison.)
  } while (!returned_.cas_weak_release(first, &s));
}

inline void census::shelf::grow(std::uint32_t thread) {
  void* const block = memory::allocate(sizeof(chunk), alignof(chunk));
  chunk* const made = new (block) chunk(chunks_.load_relaxed(), *this, thread);
  for (slot& s : made->slots) put(s);
  // release → the acquire in chunks(): scans see the chunk constructed.
  chunks_.store_release(made);
}

inline census::shelf::~shelf() {
  for (chunk* c = chunks_.load_relaxed(); c != nullptr;) {
    for (const stamp_word& stamp : c->stamps) {
      if (stamp.load_relaxed() != vacant) {
        misuse::report("a census was destroyed while a ticket of it was live", c->thread);
      }
    }
    chunk* const older = c->older;
    c->~chunk();
    memory::deallocate(c, sizeof(chunk), alignof(chunk));
    c = older;
  }
}

}  // namespace spolia::inline SPOLIA_FLAVOUR

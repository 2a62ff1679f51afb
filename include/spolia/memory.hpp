// SPDX-License-Identifier: Apache-2.0
// memory.hpp: counted pointers that many threads may share.
//
// What is in it
//   shared_ptr, weak_ptr, make_shared, ...      the standard's interface (shared_ptr.hpp)
//   atomic_shared_ptr, atomic_weak_ptr          locations that threads read and change at the same
//                                               time (atomic_ptr.hpp)
//   private_ptr                                 one thread's pointer, which keeps an object alive
//                                               without changing its count (private_ptr.hpp)
//   thin_ptr, atomic_thin_ptr, private_thin_ptr the same in one word, for nodes (thin_ptr.hpp)
//   traced, counted::find_cycles                cycles of objects, found and ended (traced.hpp)
//
// The smallest example
//     spolia::atomic_shared_ptr<int> current(spolia::make_shared<int>(1));
//     spolia::private_ptr<int> seen(current);     // any thread: no count is touched
//     current.store(spolia::make_shared<int>(2));
//     const int old = *seen;                      // still 1
//     spolia::shared_ptr<int> kept = current.load();
//
// What is guaranteed
//   An object ends after the last pointer to it has gone. Plain pointers end it at once; what an
//   atomic location gives up ends later, and counted::drain() ends it now. A private_ptr holds the
//   objects that it names, at most two. Locations are lock-free.
//
// Where to go on
//   docs/memory.md: how to move from std::shared_ptr, step by step; counted::holders() says which
//   thread holds what.
#pragma once

#include <spolia/counted/atomic_ptr.hpp>
#include <spolia/counted/cycles.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/counted/holders.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/make_shared.hpp>
#include <spolia/counted/private_ptr.hpp>
#include <spolia/counted/shared_ptr.hpp>
#include <spolia/counted/shared_ptr_tools.hpp>
#include <spolia/counted/thin_ptr.hpp>
#include <spolia/counted/traced.hpp>
#include <spolia/counted/tree_router.hpp>

// SPDX-License-Identifier: Apache-2.0
// reclaim.hpp: freeing nodes that other threads may still be reading.
//
// What is in it
//   domain<Scheme, Release>   the threads and blocks that are looked after together (domain.hpp)
//   guard                     protects what a thread reads, for one short operation (guard.hpp)
//   protected_ptr             what a guard's protect() gives: the pointer and its protection
//   schemes                   say WHEN a retired block is safe to free: robust_token (the default),
//                             token, debra, qsbr, hazard_pointers, hazard_eras, intervals,
//                             wait_free_eras, neutralization, ...
//   release policies          say HOW FAST safe blocks go back: amortized (the default), batch,
//                             pooled (release.hpp)
//
// The smallest example
//     struct node : spolia::domain<>::header {
//       int value = 0;
//       node* next = nullptr;
//     };
//     spolia::domain<> nodes;
//     spolia::atomic<node*> head{nodes.make<node>()};
//     {
//       auto guard = nodes.enter();
//       auto first = guard.protect(head);  // readable until it ends, or its guard does
//       node* n = first.get();
//       if (n != nullptr && head.cas_strong_acq_rel(n, n->next)) guard.retire(n);
//     }
//
// What is guaranteed
//   A block is not freed while a guard protects it. While a reader sleeps, at most
//   garbage_bound(threads) blocks of a domain<> wait, if make() has made them; pins() names the
//   thread.
//   Threads come and go without registration. When memory runs out, an operation throws
//   std::bad_alloc and has changed nothing.
//
// Where to go on
//   domain.hpp, the contract; docs/schemes.md, which scheme and which policy; map.hpp, containers
//   that are made of it; hazard_pointer.hpp and rcu.hpp, the interfaces of C++26.
#pragma once

#include <spolia/reclaim/allocator_resource.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/guard.hpp>
#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/reclaim/intervals.hpp>
#include <spolia/reclaim/neutralization.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/reclaim/qsbr.hpp>
#include <spolia/reclaim/quiescent.hpp>
#include <spolia/reclaim/region_domain.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/reservations.hpp>
#include <spolia/reclaim/robust_token.hpp>
#include <spolia/reclaim/schemes.hpp>
#include <spolia/reclaim/shared_budget.hpp>
#include <spolia/reclaim/token.hpp>
#include <spolia/reclaim/token_ring.hpp>
#include <spolia/reclaim/wait_free_eras.hpp>

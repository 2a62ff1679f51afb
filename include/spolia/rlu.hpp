// SPDX-License-Identifier: Apache-2.0
// rlu.hpp: multi-version read-log-update. A structure under a readers-writer lock gets reads that
// see one instant and never wait.
//
// What is in it
//   rlu::domain              the objects, the sections and the logs (domain.hpp)
//   rlu::reader, rlu::writer what a section may do (section.hpp)
//   rlu::ptr, view, copy     a pointer to an object, and views of a version of it (pointers.hpp)
//   rlu::array               objects side by side (array.hpp)
//   rlu::detector            a thread that collects, for programs that prefer one (detector.hpp)
//
// The smallest example
//     struct account { long balance; };
//     spolia::rlu::domain bank;
//     auto a = bank.make<account>({100}), b = bank.make<account>({0});
//     bank.update([&](auto& in) {
//       auto from = in.try_lock(a);
//       auto to = in.try_lock(b);
//       if (!from || !to) return;  // another section has one: this function is called again
//       from->balance -= 10;
//       to->balance += 10;
//     });
//     bank.read([&](auto& in) { return in.read(a)->balance + in.read(b)->balance; });  // 100
//     bank.discard(a);
//     bank.discard(b);
//
// What is guaranteed
//   Snapshot isolation, or serializability on request. Reads wait for no thread. Each thread's log
//   holds at most options::log_cap bytes, also while a section sleeps.
//
// Where to go on
//   docs/migrate/readers-writer-lock.md: from a lock to sections, step by step; docs/rlu.md: what
//   is promised, what is held, what it costs; map.hpp: rlu_list, rlu_hash, rlu_bst.
#pragma once

#include <spolia/rlu/array.hpp>
#include <spolia/rlu/detector.hpp>
#include <spolia/rlu/domain.hpp>
#include <spolia/rlu/pointers.hpp>
#include <spolia/rlu/section.hpp>

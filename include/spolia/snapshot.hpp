// SPDX-License-Identifier: Apache-2.0
// snapshot.hpp: objects with a history, and snapshots of any number of them at one instant.
//
// What is in it
//   snapshot, lease          an instant, to be read for as long as you like, or until a deadline
//   versioned<T, Collector>  an object whose earlier values snapshots read (versioned.hpp)
//   collectors               find the versions that no snapshot sees: sl_rt (the default), dl_rt,
//                            bbf, steam, epoch_collector
//   timeline                 the clock that stamps versions, and the registry of live snapshots
//   range_tracker, list_*    what the collectors are made of
//
// The smallest example
//     spolia::region_domain nodes;
//     spolia::timeline time;
//     spolia::sl_rt<> versions(nodes, time);
//     spolia::versioned<int, spolia::sl_rt<>> x(versions, 1);
//     {
//       const spolia::snapshot then(time, "report");
//       auto here = versions.enter();
//       x.compare_exchange(here, 1, 2);
//       const int old = *x.at(here, then);        // still 1
//     }
//     versions.close();
//     x.clear(versions);
//
// What is guaranteed
//   A snapshot sees one instant of everything on its timeline. It keeps the versions that it sees,
//   and no others, whatever its age; it holds no guard.
//
// Where to go on
//   map.hpp: snapshot_hash and snapshot_tree, which need none of this set-up; docs/versions.md:
//   which collector, which snapshot holds how much, leases, several timelines.
#pragma once

#include <spolia/version/collectors.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/holdings.hpp>
#include <spolia/version/lease.hpp>
#include <spolia/version/list_pdl.hpp>
#include <spolia/version/list_ssl.hpp>
#include <spolia/version/list_tree.hpp>
#include <spolia/version/owned_field.hpp>
#include <spolia/version/owner.hpp>
#include <spolia/version/range_tracker.hpp>
#include <spolia/version/snapshot.hpp>
#include <spolia/version/timeline.hpp>
#include <spolia/version/versioned.hpp>

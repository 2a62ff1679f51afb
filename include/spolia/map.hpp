// SPDX-License-Identifier: Apache-2.0
// map.hpp: the containers. Include only the one that you use, map/X.hpp: that compiles in a third
// of the time.
//
// What is in it
//   snapshot_hash, snapshot_tree         maps of which snapshots can be taken and held for hours
//   changes                              several keys of several maps, changed at one instant
//   abtree, external_bst, avl, list, michael_hash, split_ordered_hash
//                                        maps and sets over any domain that can protect them
//   counted_hash, counted_bst, counted_btree, counted_tree, counted_btree_locked
//                                        over counted pointers
//   rlu_list, rlu_hash, rlu_bst          over read-log-update
//
// The smallest example
//     spolia::snapshot_tree<int, std::string> stock;
//     stock.insert(1, "nails");
//     const spolia::snapshot now("report");       // one instant of all such maps
//     stock.insert_or_assign(1, "screws");
//     const std::string* was = stock.find(now, 1);  // "nails", for as long as `now` lives
//     std::size_t letters = 0;
//     for (const auto& [number, name] : stock.all(now)) letters += name.size();
//
// What is guaranteed
//   Updates and look-ups are linearizable where the container's header says so. The header also
//   says which scans see one instant. A snapshot keeps what it sees and nothing else.
//
// Where to go on
//   docs/containers.md: which one, what each operation costs and promises.
#pragma once

#include <spolia/map/abtree.hpp>
#include <spolia/map/avl.hpp>
#include <spolia/map/changes.hpp>
#include <spolia/map/concepts.hpp>
#include <spolia/map/counted_bst.hpp>
#include <spolia/map/counted_btree.hpp>
#include <spolia/map/counted_btree_locked.hpp>
#include <spolia/map/counted_hash.hpp>
#include <spolia/map/counted_tree.hpp>
#include <spolia/map/external_bst.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/map/list.hpp>
#include <spolia/map/michael_hash.hpp>
#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/rlu_list.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/map/split_ordered_hash.hpp>
#include <spolia/map/transact.hpp>
#include <spolia/map/weighed.hpp>

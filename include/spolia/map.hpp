// SPDX-License-Identifier: Apache-2.0
// map.hpp: the containers.
#pragma once

#include <spolia/map/abtree.hpp>
#include <spolia/map/avl.hpp>
#include <spolia/map/changes.hpp>
#include <spolia/map/concepts.hpp>
#include <spolia/map/counted_bst.hpp>
#include <spolia/map/counted_btree.hpp>
#include <spolia/map/counted_hash.hpp>
#include <spolia/map/external_bst.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/map/list.hpp>
#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/rlu_list.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>

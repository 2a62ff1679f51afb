// SPDX-License-Identifier: Apache-2.0
// A named module over the headers, as a user might write it.
module;
#include <spolia/db.hpp>
#include <spolia/live.hpp>
#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>
#include <spolia/standard.hpp>
export module spolia;

export namespace spolia {
using spolia::abtree;
using spolia::atomic;
using spolia::atomic_shared_ptr;
using spolia::domain;
using spolia::hazard_pointers;
using spolia::live;
using spolia::make_shared;
using spolia::rcu_barrier;
using spolia::rcu_retire;
using spolia::rlu_hash;
using spolia::shared_ptr;
using spolia::snapshot;
using spolia::snapshot_hash;
namespace db {
using spolia::db::boolean;
using spolia::db::database;
using spolia::db::int64;
using spolia::db::primary_key;
using spolia::db::reader;
using spolia::db::table;
using spolia::db::text;
using spolia::db::transaction;
}  // namespace db
}  // namespace spolia

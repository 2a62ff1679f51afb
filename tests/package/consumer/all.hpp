// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <spolia/db.hpp>
#include <spolia/deprecated.hpp>
#include <spolia/hazard_pointer.hpp>
#include <spolia/live.hpp>
#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>
#include <spolia/standard.hpp>
#include <spolia/version.hpp>

struct node {
  explicit node(int* destroyed) : destroyed_(destroyed) {}
  ~node() { ++*destroyed_; }

 private:
  int* destroyed_;
};

/// What the second translation unit sees of what must exist once in a process.
const char* version_in_second();
std::uint32_t thread_in_second();

/// Retires a node in the second unit, under a guard of its own.
void retire_in_second(spolia::domain<>& nodes, node* unlinked);

/// The default domains of the standard faces, through the second unit.
spolia::hazard_pointer hazard_in_second();
void region_in_second(bool open);

// SPDX-License-Identifier: Apache-2.0
// The same few lines in two build variants; the source that includes this says which
// (SPOLIA_CHECKS), and in which namespace the functions lie (SPOLIA_TEST_FLAVOUR).
#pragma once

#include <chrono>
#include <cstdint>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

#include "standard/flavours.hpp"

namespace SPOLIA_TEST_FLAVOUR {
namespace {
struct node : spolia::hazard_pointer_obj_base<node> {};
}  // namespace

void open_region() { spolia::rcu_default_domain().lock(); }
void close_region() { spolia::rcu_default_domain().unlock(); }
bool readers_are_gone() { return spolia::rcu_synchronize_for(std::chrono::milliseconds(5)); }
void retire_one() { (new node)->retire(); }
std::uint64_t waiting() { return spolia::hazard_pointer_garbage(); }
bool clean_up() { return spolia::hazard_pointer_clean_up(); }
}  // namespace SPOLIA_TEST_FLAVOUR

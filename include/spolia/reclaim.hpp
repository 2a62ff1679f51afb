// SPDX-License-Identifier: Apache-2.0
// reclaim.hpp: everything of this layer: freeing nodes that other threads may still be looking at.
//
// Start with `spolia::domain<>` (domain.hpp). To choose a scheme or a release policy of your own,
// name them: `spolia::domain<spolia::hazard_pointers, spolia::batch>`. docs/schemes.md says which
// and when.
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
#include <spolia/reclaim/quiescent.hpp>
#include <spolia/reclaim/region_domain.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/reservations.hpp>
#include <spolia/reclaim/robust_token.hpp>
#include <spolia/reclaim/token.hpp>
#include <spolia/reclaim/token_ring.hpp>
#include <spolia/reclaim/wait_free_eras.hpp>

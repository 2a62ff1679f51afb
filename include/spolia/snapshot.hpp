// SPDX-License-Identifier: Apache-2.0
// snapshot.hpp: versioned objects, their collectors, and snapshots of them.
#pragma once

#include <spolia/version/bbf.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/dl_rt.hpp>
#include <spolia/version/epoch.hpp>
#include <spolia/version/holdings.hpp>
#include <spolia/version/lease.hpp>
#include <spolia/version/list_pdl.hpp>
#include <spolia/version/list_ssl.hpp>
#include <spolia/version/list_tree.hpp>
#include <spolia/version/owned_field.hpp>
#include <spolia/version/owner.hpp>
#include <spolia/version/range_tracker.hpp>
#include <spolia/version/sl_rt.hpp>
#include <spolia/version/snapshot.hpp>
#include <spolia/version/steam.hpp>
#include <spolia/version/timeline.hpp>
#include <spolia/version/versioned.hpp>

// SPDX-License-Identifier: Apache-2.0
// schemes.hpp: all schemes, once. A new scheme adds its header and its name here: the benchmark's
// cells, the contract tests and the check of the guide's table follow this list.
//
// -DSPOLIA_EXTRA_SCHEMES=path/my_scheme.hpp adds `my_scheme`, which that header declares in the
// global namespace, to what the benchmark and the contract tests see: docs/schemes.md, "Write your
// own".
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/reclaim/intervals.hpp>
#include <spolia/reclaim/neutralization.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/reclaim/qsbr.hpp>
#include <spolia/reclaim/reservations.hpp>
#include <spolia/reclaim/robust_token.hpp>
#include <spolia/reclaim/token.hpp>
#include <spolia/reclaim/token_ring.hpp>
#include <spolia/reclaim/wait_free_eras.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// `every_scheme<List>` is List<none, token, ...>, in the order in which tables show them.
template <template <class...> class List>
using every_scheme =
    List<none, token, robust_token, token_naive, token_pass_first, token_periodic, debra, qsbr,
         reservations, hazard_pointers, hazard_eras, intervals, wait_free_eras, neutralization,
         neutralization_plus>;

}  // namespace spolia::inline SPOLIA_FLAVOUR

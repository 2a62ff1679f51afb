// SPDX-License-Identifier: Apache-2.0
// collectors.hpp: all version collectors, once. A new collector adds its header and its name here:
// the benchmark, the contract tests, the model programs and the checks of the guides' tables follow
// this list.
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/version/bbf.hpp>
#include <spolia/version/dl_rt.hpp>
#include <spolia/version/epoch.hpp>
#include <spolia/version/sl_rt.hpp>
#include <spolia/version/steam.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// `every_collector<List>` is List<epoch_collector<>, steam<>, ...>, in the order in which tables
/// show them; with `Parameters`, such as a domain and a timeline, each one has these.
template <template <class...> class List, class... Parameters>
using every_collector = List<epoch_collector<Parameters...>, steam<Parameters...>,
                             bbf<Parameters...>, dl_rt<Parameters...>, sl_rt<Parameters...>>;

}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// guard.hpp: the protection of one thread for the length of a short operation: `domain<>::guard`,
// which stands beside the domain.
#pragma once

#include <spolia/reclaim/domain.hpp>

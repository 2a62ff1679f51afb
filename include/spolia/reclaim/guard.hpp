// SPDX-License-Identifier: Apache-2.0
// guard.hpp: the protection of one thread for the length of a short operation: `domain<>::guard`,
// which stands beside the domain. What it reads are protected_ptr's (protected_ptr.hpp).
#pragma once

#include <spolia/reclaim/domain.hpp>

// SPDX-License-Identifier: Apache-2.0
// deprecated.hpp: names that have changed, as aliases, until 0.1.0 is released.
#pragma once

#include <spolia/reclaim/quiescent.hpp>

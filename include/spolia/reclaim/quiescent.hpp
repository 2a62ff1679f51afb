// SPDX-License-Identifier: Apache-2.0
// quiescent.hpp: the former place of qsbr.hpp, until 0.1.0 is released.
#pragma once

#include <spolia/reclaim/qsbr.hpp>

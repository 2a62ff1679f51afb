// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spolia/version.hpp>

/// What the second translation unit sees of the process-wide state.
const char* version_seen_by_second();

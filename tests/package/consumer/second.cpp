// SPDX-License-Identifier: Apache-2.0
#include "all.hpp"

const char* version_seen_by_second() { return spolia::core::version(); }

// SPDX-License-Identifier: Apache-2.0
// The functions of landlord_part.hpp, in each build variant: with a snapshot of its own the program
// looks into a map that the plugin at `path` made, which shares the library with it. `how` the
// plugin is loaded: also RTLD_DEEPBIND.
#pragma once

#include <dlfcn.h>

void native_landlord(const char* path, int how = RTLD_LOCAL);
void checked_landlord(const char* path, int how = RTLD_LOCAL);

/// Loads the plugin so often, each time to another place, uses types of its own there, and unloads
/// it.
void native_reloads(const char* path, int times);

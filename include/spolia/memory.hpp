// SPDX-License-Identifier: Apache-2.0
/// \file
/// Counted pointers: shared_ptr, weak_ptr, make_shared and the rest of the standard's shared
/// pointers; atomic_shared_ptr and atomic_weak_ptr, which many threads may change and read at once;
/// private_ptr, with which a thread looks at shared objects without counting; and thin_ptr with its
/// family, the same in one word. See docs/memory.md.
#pragma once

#include <spolia/counted/atomic_ptr.hpp>
#include <spolia/counted/cycles.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/counted/holders.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/make_shared.hpp>
#include <spolia/counted/private_ptr.hpp>
#include <spolia/counted/shared_ptr.hpp>
#include <spolia/counted/shared_ptr_tools.hpp>
#include <spolia/counted/thin_ptr.hpp>
#include <spolia/counted/traced.hpp>
#include <spolia/counted/tree_router.hpp>

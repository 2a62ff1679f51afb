// SPDX-License-Identifier: Apache-2.0
/// \file
/// Namespace spolia::standard: hazard pointers and RCU of the standard library where it has them,
/// and Spolia's elsewhere. For code that is written once and moves to std:: when the standard
/// library has them.
///
///     struct node : spolia::standard::hazard_pointer_obj_base<node> { ... };
///
/// spolia::hazard_pointer and the others stay Spolia's, with every compiler: including a header or
/// choosing another language level never changes what a name in namespace spolia means. In
/// spolia::standard it does change what a name means, and the layout of types made of it: all parts
/// of a program that share such types must be compiled alike. `hazard_pointers_are_std` and
/// `rcu_is_std` say what was chosen. Spolia's extensions are not in there; the batch functions are,
/// from the version of the standard library on that has them.
#pragma once

#include <version>

#if defined(__cpp_lib_hazard_pointer)
#include <hazard_pointer>
#else
#include <spolia/hazard_pointer.hpp>
#endif
#if defined(__cpp_lib_rcu)
#include <rcu>
#else
#include <spolia/rcu.hpp>
#endif

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace standard {

#if defined(__cpp_lib_hazard_pointer)
inline constexpr bool hazard_pointers_are_std = true;
using std::hazard_pointer;
using std::hazard_pointer_obj_base;
using std::make_hazard_pointer;
#if __cpp_lib_hazard_pointer >= 202606L
using std::clear_hazard_pointer_batch;
using std::make_hazard_pointer_batch;
#endif
#else
inline constexpr bool hazard_pointers_are_std = false;
using spolia::clear_hazard_pointer_batch;
using spolia::hazard_pointer;
using spolia::hazard_pointer_obj_base;
using spolia::make_hazard_pointer;
using spolia::make_hazard_pointer_batch;
#endif

#if defined(__cpp_lib_rcu)
inline constexpr bool rcu_is_std = true;
using std::rcu_barrier;
using std::rcu_default_domain;
using std::rcu_domain;
using std::rcu_obj_base;
using std::rcu_retire;
using std::rcu_synchronize;
#else
inline constexpr bool rcu_is_std = false;
using spolia::rcu_barrier;
using spolia::rcu_default_domain;
using spolia::rcu_domain;
using spolia::rcu_obj_base;
using spolia::rcu_retire;
using spolia::rcu_synchronize;
#endif

}  // namespace standard
}  // namespace spolia::inline SPOLIA_FLAVOUR

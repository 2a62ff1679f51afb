// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the program can say of a type at run time, also where that is turned off (-fno-rtti).
#pragma once

#include <typeinfo>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// Null without RTTI: then nothing is known of T.
template <class T>
constexpr const std::type_info* type_of() noexcept {
#if defined(__cpp_rtti)
  return &typeid(T);
#else
  return nullptr;
#endif
}

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The version of the library; CMake reads it from here, and so there is no second place for it.
///
/// Versions follow SemVer. Before 1.0 a new minor version may change the interface.

#include <spolia/base/export.hpp>

#define SPOLIA_VERSION_MAJOR 0
#define SPOLIA_VERSION_MINOR 1
#define SPOLIA_VERSION_PATCH 0

#define SPOLIA_DETAIL_QUOTE(text) #text
#define SPOLIA_DETAIL_DOTTED(major, minor, patch) \
  SPOLIA_DETAIL_QUOTE(major) "." SPOLIA_DETAIL_QUOTE(minor) "." SPOLIA_DETAIL_QUOTE(patch)
#define SPOLIA_VERSION_STRING \
  SPOLIA_DETAIL_DOTTED(SPOLIA_VERSION_MAJOR, SPOLIA_VERSION_MINOR, SPOLIA_VERSION_PATCH)

/// One number that grows with each version: for #if.
#define SPOLIA_VERSION \
  (SPOLIA_VERSION_MAJOR * 10000 + SPOLIA_VERSION_MINOR * 100 + SPOLIA_VERSION_PATCH)

/// The end of the inline namespaces' names: the numbers in which versions differ that may differ in
/// more than their sources. Two libraries in one program that were built with two of those do not
/// mix, and a program is linked with a library of its headers' version, or not at all.
#define SPOLIA_DETAIL_JOINED(name, major, minor) name##_##major##_##minor
#define SPOLIA_DETAIL_JOIN(name, major, minor) SPOLIA_DETAIL_JOINED(name, major, minor)
#define SPOLIA_NAME_OF_VERSION(name) \
  SPOLIA_DETAIL_JOIN(name, SPOLIA_VERSION_MAJOR, SPOLIA_VERSION_MINOR)
#define SPOLIA_OF_VERSION SPOLIA_NAME_OF_VERSION(v)

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// The version of the compiled library, such as "0.1.0". If it differs from
/// SPOLIA_VERSION_STRING, the program was compiled against other headers than it was linked to.
/// Thread-safe; the string lives as long as the library is loaded.
SPOLIA_EXPORT const char* version() noexcept;

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

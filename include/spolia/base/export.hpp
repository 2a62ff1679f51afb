// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the compiled part of the library shows to the outside.
///
/// The library is compiled with hidden visibility: what is not marked stays inside. There is one
/// copy of the marked things in a process, also when several shared objects include the headers;
/// that is what the thread numbers and the fence state rely on.

#if defined(_WIN32)
#error "Spolia supports ELF and Mach-O platforms only"
#endif

/// Marks a function, class or variable that src/ defines and that users link to.
#define SPOLIA_EXPORT __attribute__((visibility("default")))

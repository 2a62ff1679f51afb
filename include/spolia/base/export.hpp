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

/// Marks such a variable that has to be the same one for all. A program over a shared library may
/// get copies of its variables, which the library uses then (copy relocations: g++ on x86 asks for
/// them). Shared objects that look for names in what they need before they look in the program
/// (RTLD_DEEPBIND) do not see those. Of a weak name, which may be missing, there is no copy, unless
/// the program cannot be moved (-no-pie). What uses such a variable needs a function of the same
/// source, too, and so gets both from a static library.
///
/// Of variables without the mark, those shared objects see what they begin with: their light fences
/// are full ones, default_timeline() goes the long way, and they leave no trace.
#if defined(__ELF__)
#define SPOLIA_NO_COPY __attribute__((weak))
#else
#define SPOLIA_NO_COPY
#endif

/// Marks static data of a template or an inline variable that must be one for each shared object:
/// what it holds or leads to belongs to one copy of the library, as a table of functions does that
/// end objects. Without the mark g++ makes it one in the process (STB_GNU_UNIQUE), also for plugins
/// that know nothing of each other and have a static copy of the library each: objects of the one
/// would be ended by the code of the other, whose pools and thread numbers are not theirs. Its
/// address tells nothing: two shared objects have two.
///
/// Statics without the mark may be one in the process or several; each says why that does no harm,
/// or is a constant of plain values.
#define SPOLIA_OWN_COPY __attribute__((visibility("hidden")))

/// How a shared object reaches the library's thread-local variables; in a program it is a load
/// anyway. By a call, so that any number of static copies can be loaded at any time. By a load if
/// SPOLIA_INITIAL_EXEC is defined, where the library is compiled too: for shared objects that are
/// there when the program starts. Of others only some ten have room then, and musl loads none.
#if defined(SPOLIA_INITIAL_EXEC)
#define SPOLIA_TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define SPOLIA_TLS_MODEL
#endif

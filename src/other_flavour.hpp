// SPDX-License-Identifier: Apache-2.0
// other_flavour.hpp: switches to the other build variant, checked instead of native, native instead
// of checked. The first line of sources that compile a part of the library once more, so that a
// program of either variant finds it. Such a source is a translation unit of its own, also where
// the others are joined: the variant holds for all that it reads.
#pragma once

#if defined(SPOLIA_FLAVOUR)
#error "other_flavour.hpp comes before all other headers, precompiled ones too"
#endif

#if !defined(SPOLIA_CHECKS)
#if defined(NDEBUG)
#define SPOLIA_CHECKS 1
#else
#define SPOLIA_CHECKS 0
#endif
#elif SPOLIA_CHECKS
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 0
#else
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 1
#endif

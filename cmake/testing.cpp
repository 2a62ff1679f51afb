// SPDX-License-Identifier: Apache-2.0
// Nothing but the precompiled headers of tests, which need a file to belong to: see testing.cmake.

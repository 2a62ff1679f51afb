# SPDX-License-Identifier: Apache-2.0
# The newest suitable clang that is installed under the name that Debian and Ubuntu give it.

find_program(SPOLIA_CLANGXX NAMES clang++-19 clang++-20 clang++-18 clang++ REQUIRED)
set(CMAKE_CXX_COMPILER "${SPOLIA_CLANGXX}")

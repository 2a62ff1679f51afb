# SPDX-License-Identifier: Apache-2.0
# What is compiled, by name; `./dev lint` compares this with the tree.

set(SPOLIA_SOURCES
    src/version.cpp)

set(SPOLIA_MODEL_SOURCES)

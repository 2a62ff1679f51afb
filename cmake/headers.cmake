# SPDX-License-Identifier: Apache-2.0
# Every header, by name; `./dev lint` compares this with the tree. Public headers are installed and
# must each compile alone; those of the model checker belong to the model flavour.

set(SPOLIA_HEADERS
    include/spolia/base/export.hpp
    include/spolia/version.hpp)

set(SPOLIA_MODEL_HEADERS)

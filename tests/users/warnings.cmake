# SPDX-License-Identifier: Apache-2.0
# Warnings that a user's program may have as errors without a word from the library's headers. Those
# that only one of g++ and clang knows are no errors of the other.
set(careful_warnings
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Wuseless-cast -Wnon-virtual-dtor
    -Wnull-dereference -Woverloaded-virtual -Wno-unknown-warning-option)

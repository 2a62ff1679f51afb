# SPDX-License-Identifier: Apache-2.0
# cmake -DCXX=... -DINCLUDE=... -DHEADERS=... -DFORMS=... -P right_forms.cmake
# What is refused with REFUSED defined compiles without, and with the same flags (refuse.cmake). What
# is read for all of it stays as a precompiled header, where both compilers look for one.
cmake_minimum_required(VERSION 3.25)

set(compile "${CXX}" -std=c++20 -isystem "${INCLUDE}")
execute_process(COMMAND ${compile} -x c++-header "${HEADERS}" -o "${HEADERS}.gch"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${compile} -fsyntax-only -include "${HEADERS}" "${FORMS}"
                COMMAND_ERROR_IS_FATAL ANY)

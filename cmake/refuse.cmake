# SPDX-License-Identifier: Apache-2.0
# cmake -DCXX=... -DINCLUDE=... -DHEADERS=... -DSOURCE=... -P refuse.cmake
# The source does not compile with REFUSED defined; without, it has compiled (right_forms.cmake): so it
# is that line which is refused. It is refused in installed headers, for which compilers keep warnings,
# and some errors, to themselves.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${CXX}" -std=c++20 -fsyntax-only -isystem "${INCLUDE}"
                        -include "${HEADERS}" -DREFUSED "${SOURCE}"
                RESULT_VARIABLE bad ERROR_VARIABLE why)
if(bad EQUAL 0)
  message(FATAL_ERROR "compiles, but must not")
endif()
if(NOT why MATCHES "error:")
  message(FATAL_ERROR "fails for another reason:\n${why}")
endif()
# What the message must say, if the source tells: "// refused: ...".
file(STRINGS "${SOURCE}" expected REGEX "^// refused: ")
if(expected)
  string(REGEX REPLACE "^// refused: " "" expected "${expected}")
  string(FIND "${why}" "${expected}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "does not say \"${expected}\":\n${why}")
  endif()
endif()

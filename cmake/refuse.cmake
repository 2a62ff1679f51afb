# SPDX-License-Identifier: Apache-2.0
# cmake -DCXX=... -DINCLUDE=... -DSOURCE=... -P refuse.cmake
# The source compiles as it is, and not with REFUSED defined: so it is that line which is refused. It
# is refused in installed headers, too, for which compilers keep warnings, and some errors, to
# themselves.
cmake_minimum_required(VERSION 3.25)

set(compile "${CXX}" -std=c++20 -fsyntax-only "${SOURCE}")
execute_process(COMMAND ${compile} "-I${INCLUDE}" RESULT_VARIABLE good ERROR_VARIABLE why)
if(NOT good EQUAL 0)
  message(FATAL_ERROR "does not compile as it should:\n${why}")
endif()
execute_process(COMMAND ${compile} -isystem "${INCLUDE}" -DREFUSED RESULT_VARIABLE bad ERROR_VARIABLE why)
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

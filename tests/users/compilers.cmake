# SPDX-License-Identifier: Apache-2.0
# cmake -DCXX=... -DINCLUDE=... -DSOURCE=... -P compilers.cmake
# What the library asks of a compiler, its flags and a program's other headers: SOURCE, which includes
# all headers, compiles without sized deallocation, as clang has it before 19, without run-time types,
# after headers whose macros have names that anything might have, and with all warnings that careful
# programs have as errors; and where something is missing that must be there, the first error says
# what. (Warnings about what is instantiated: tests/systems.)
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/warnings.cmake")
# By -include: `#pragma once` in the source itself has a warning.
set(compile "${CXX}" -I "${INCLUDE}" -fsyntax-only)
set(compiled -include "${SOURCE}" -x c++ /dev/null)
function(accepts)
  set(flags -std=gnu++20 -Werror ${careful_warnings} ${ARGN})
  execute_process(COMMAND ${compile} ${flags} ${compiled}
                  RESULT_VARIABLE result ERROR_VARIABLE why)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "does not compile with ${flags}:\n${why}")
  endif()
endfunction()

set(macros -include "${CMAKE_CURRENT_LIST_DIR}/other_macros.h")
accepts(-DSPOLIA_CHECKS=0 -fno-sized-deallocation -fno-rtti ${macros})
accepts(-DSPOLIA_CHECKS=1 ${macros})

function(refuses sentence)
  execute_process(COMMAND ${compile} ${ARGN} ${compiled}
                  RESULT_VARIABLE result ERROR_VARIABLE why)
  if(result EQUAL 0)
    message(FATAL_ERROR "compiles with '${ARGN}', but must not")
  endif()
  string(REGEX MATCHALL "error: [^\n]*" errors "${why}")
  list(GET errors 0 first)
  string(FIND "${first}" "${sentence}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "with '${ARGN}' the first error is not '${sentence}', but: ${first}")
  endif()
  # The second is the header that ends the compilation.
  list(LENGTH errors count)
  if(NOT count EQUAL 2)
    message(FATAL_ERROR "with '${ARGN}' there are ${count} errors: ${why}")
  endif()
endfunction()

refuses("Spolia needs C++20" -std=c++17)
refuses("Spolia needs exceptions" -std=c++20 -fno-exceptions)
refuses("Spolia needs a POSIX system" -std=c++20 -D_WIN32)
# For want of the C library of a machine with pointers of 4 bytes.
refuses("Spolia needs a 64-bit target" -std=c++20 -U__SIZEOF_POINTER__ -D__SIZEOF_POINTER__=4)

# SPDX-License-Identifier: Apache-2.0
# cmake -DCXX=... -DINCLUDE=... -DSOURCE=... -P look_at_code.cmake
# Compiles SOURCE as users do and compares functions, instruction by instruction, with plain_load.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${CXX}" -std=c++20 -O2 -DNDEBUG -fno-asynchronous-unwind-tables -S -o -
                        "-I${INCLUDE}" "${SOURCE}"
                RESULT_VARIABLE status OUTPUT_VARIABLE code ERROR_VARIABLE why)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "does not compile:\n${why}")
endif()
# To a list of lines, whatever is in them.
string(REGEX REPLACE "[][;#]" "_" code "${code}")
string(REPLACE "\n" ";" lines "${code}")

# The instructions of each function: from its label to its size, without directives and labels.
set(inside "")
foreach(line IN LISTS lines)
  if(line MATCHES "^(plain_load|read_by_[a-z_]+|looked_at_by_[a-z_]+):")
    set(inside "${CMAKE_MATCH_1}")
    list(APPEND functions "${inside}")
  elseif(line MATCHES "^[ \t]+\\.size[ \t]")
    set(inside "")
  elseif(inside AND line MATCHES "^[ \t]+[a-z]")
    string(REGEX REPLACE "[ \t]+" " " line "${line}")
    string(APPEND code_of_${inside} "${line}\n")
  endif()
endforeach()

if(NOT code_of_plain_load)
  message(FATAL_ERROR "no code of plain_load was found")
endif()
set(read 0)
foreach(function IN LISTS functions)
  if(function MATCHES "^read_by" AND NOT code_of_${function} STREQUAL code_of_plain_load)
    message(SEND_ERROR "${function} is more than a load:\n${code_of_${function}}")
  elseif(function MATCHES "^looked_at_by" AND code_of_${function} STREQUAL code_of_plain_load)
    message(SEND_ERROR "${function} looks like a load")
  else()
    math(EXPR read "${read} + 1")
  endif()
endforeach()
message(STATUS "${read} functions; a plain load is\n${code_of_plain_load}")

# SPDX-License-Identifier: Apache-2.0
# Shared pointers: each test has a record for each pointer, and refuses what it does not know.

foreach(test IN ITEMS contention set allocate read hot insert remove)
  execute_process(COMMAND "${BENCH}" counted --test ${test} --pointers private,atomic,std-atomic
                          --threads 1,2 --seconds 0.01 --trials 1 --keys 100
                  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE complaint)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "exit code ${code}: ${complaint}")
  endif()
  string(REGEX REPLACE "\n$" "" out "${out}")
  string(REPLACE "\n" ";" lines "${out}")
  list(LENGTH lines count)
  set(expected 6)
  if(test STREQUAL "allocate")
    set(expected 4)  # private pointers own nothing
  endif()
  if(NOT count EQUAL expected)
    message(FATAL_ERROR "${test}: ${count} records, not ${expected}")
  endif()
  foreach(line IN LISTS lines)
    string(JSON pointer GET "${line}" pointer)
    string(JSON operations GET "${line}" operations)
    if(NOT operations GREATER 0)
      message(FATAL_ERROR "${test}: ${pointer} did nothing")
    endif()
  endforeach()
endforeach()
foreach(wrong IN ITEMS "--test;nothing" "--structure;nothing" "--pointers;nothing" "--threads;0" "--seconds;0"
                       "--trials;0" "--keys;0")
  execute_process(COMMAND "${BENCH}" counted ${wrong}
                  RESULT_VARIABLE code OUTPUT_QUIET ERROR_VARIABLE complaint)
  if(NOT code EQUAL 2)
    message(FATAL_ERROR "${wrong}: exit code ${code}, not 2")
  endif()
endforeach()

# SPDX-License-Identifier: Apache-2.0
# Snapshots: the promise as records. With one held, what was overwritten in between goes under all
# collectors but EBR; and each record has its fields.

execute_process(COMMAND "${BENCH}" snapshots --structure hash,std_map --keys 2000 --update 100
                        --rtx-share 0 --hold --updates 40000
                RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE complaint)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "exit code ${code}: ${complaint}")
endif()
string(REGEX REPLACE "\n$" "" out "${out}")
string(REPLACE "[" "(" out "${out}") # brackets would join elements of the list
string(REPLACE "]" ")" out "${out}")
string(REPLACE "\n" ";" lines "${out}")
list(LENGTH lines count)
if(NOT count EQUAL 6)
  message(FATAL_ERROR "${count} records for five collectors and a rival")
endif()
foreach(line IN LISTS lines)
  string(REPLACE "(" "[" line "${line}")
  string(REPLACE ")" "]" line "${line}")
  string(JSON collector GET "${line}" collector)
  foreach(field IN ITEMS structure threads keys theta update readers rtx rtx_most hold seconds
                         trial updates updates_per_s
                         versions_current versions_live versions_needed versions_peak cuts passed_per_cut bytes
                         bytes_peak bytes_needed bytes_waiting bytes_over_time peak_rss_bytes machine revision)
    string(JSON value ERROR_VARIABLE missing GET "${line}" ${field})
    if(missing)
      message(FATAL_ERROR "${collector}: ${missing}")
    endif()
  endforeach()
  string(JSON updates GET "${line}" updates)
  if(updates LESS 40000)
    message(FATAL_ERROR "${collector}: ${updates} updates")
  endif()
  if(collector STREQUAL "copies")
    continue()
  endif()
  string(JSON live GET "${line}" versions_live)
  string(JSON needed GET "${line}" versions_needed)
  math(EXPR most "${needed} * 2 + 1000")
  if(collector STREQUAL "epoch" AND live LESS 40000)
    message(FATAL_ERROR "EBR kept ${live} versions beside a snapshot")
  elseif(NOT collector STREQUAL "epoch" AND live GREATER most)
    message(FATAL_ERROR "${collector}: ${live} versions live, ${needed} needed")
  endif()
endforeach()

# Threads that only read, some of them little; keys that are wanted more often than others.
include("${CMAKE_CURRENT_LIST_DIR}/patience.cmake")
foreach(seconds IN LISTS patience)
  execute_process(COMMAND "${BENCH}" snapshots --structure hash --collector bbf+ --keys 2000
                          --theta 0.99 --update 100 --rtx-share 0 --readers 1 --small-readers 1
                          --rtx 16 --rtx-most 500 --seconds ${seconds}
                  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE complaint)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "exit code ${code}: ${complaint}")
  endif()
  set(problem "")
  foreach(field IN ITEMS updates rtxs rtx_keys_per_s small_rtx_keys_per_s)
    string(JSON value GET "${out}" ${field})
    if(NOT value GREATER 0)
      set(problem "${field} is ${value}")
    endif()
  endforeach()
  if(problem STREQUAL "")
    break()
  endif()
endforeach()
if(NOT problem STREQUAL "")
  message(FATAL_ERROR "${problem}")
endif()

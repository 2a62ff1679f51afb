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
  if(collector STREQUAL "epoch_collector" AND live LESS 40000)
    message(FATAL_ERROR "EBR kept ${live} versions beside a snapshot")
  elseif(NOT collector STREQUAL "epoch_collector" AND live GREATER most)
    message(FATAL_ERROR "${collector}: ${live} versions live, ${needed} needed")
  endif()
endforeach()

# What is needed is counted while all stand still, in the midst of read transactions: what these see
# is needed, and under EBR most of what was overwritten is not. A busy machine may leave no time for
# it before the updates are made.
function(count_in_stills collector current needed excess)
  foreach(updates IN ITEMS 200000 2000000)
    execute_process(COMMAND "${BENCH}" snapshots --structure hash --collector ${collector}
                            --keys 2000 --update 100 --rtx-share 0 --readers 1 --rtx 50000
                            --updates ${updates} --still-every 1
                    RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE complaint)
    if(NOT code EQUAL 0)
      message(FATAL_ERROR "exit code ${code}: ${complaint}")
    endif()
    string(JSON stills GET "${out}" stills)
    if(stills GREATER 3)
      break()
    endif()
  endforeach()
  if(stills EQUAL 0)
    message(FATAL_ERROR "${collector}: no thread stood still in ${updates} updates")
  endif()
  foreach(field IN ITEMS current needed_peak excess_peak)
    string(JSON value GET "${out}" versions_${field})
    list(APPEND values ${value})
  endforeach()
  list(GET values 0 value)
  set(${current} ${value} PARENT_SCOPE)
  list(GET values 1 value)
  set(${needed} ${value} PARENT_SCOPE)
  list(GET values 2 value)
  set(${excess} ${value} PARENT_SCOPE)
endfunction()

count_in_stills(sl_rt current needed excess)
math(EXPR seen "${needed} - ${current}")
# 3 H + 5 P B without those that are needed, with four threads, and 6 B for one that has ended
math(EXPR most "2 * ${seen} + 5 * 4 * 64 + 6 * 64")
if(seen LESS 10)
  message(FATAL_ERROR "sl_rt: ${needed} needed beside a read transaction, ${current} current")
elseif(excess GREATER most)
  message(FATAL_ERROR "sl_rt: ${excess} obsolete versions, ${needed} needed")
endif()
count_in_stills(epoch_collector current needed excess_of_epochs)
if(NOT excess_of_epochs GREATER most)
  message(FATAL_ERROR "EBR let go of all but ${excess_of_epochs} beside a read transaction")
endif()
execute_process(COMMAND "${BENCH}" snapshots --structure hash --collector sl_rt --keys 2000
                        --seconds 0.05 OUTPUT_VARIABLE out)
string(JSON stills GET "${out}" stills)
string(JSON type TYPE "${out}" versions_excess_peak)
if(NOT stills EQUAL 0 OR NOT type STREQUAL "NULL")
  message(FATAL_ERROR "${stills} stills that were not asked for, and an excess: ${type}")
endif()

# Threads that only read, some of them little; keys that are wanted more often than others.
include("${CMAKE_CURRENT_LIST_DIR}/patience.cmake")
foreach(seconds IN LISTS patience)
  execute_process(COMMAND "${BENCH}" snapshots --structure hash --collector bbf --keys 2000
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

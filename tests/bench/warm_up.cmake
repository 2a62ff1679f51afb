# SPDX-License-Identifier: Apache-2.0
# Results count what comes after the warm-up alone, which here takes twenty times as long as what is
# measured.

set(warm --warm-up 2 --seconds 0.125 --trials 1 --threads 1 --json -)

function(run)
  execute_process(COMMAND "${BENCH}" ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE record
                  ERROR_VARIABLE complaint)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: exit code ${code}: ${complaint}")
  endif()
  set(record "${record}" PARENT_SCOPE)
endfunction()

# Sets `ns` to what `count` transactions took at least, one after the other: half of them took the
# median or more, which is told to within an eighth.
function(least_time count median)
  string(REGEX REPLACE "\\..*" "" median "${median}")
  math(EXPR ns "${count} * ${median} / 2 * 7 / 8")
  set(ns "${ns}" PARENT_SCOPE)
endfunction()

function(check_time what spent)
  string(JSON elapsed GET "${record}" elapsed_s)
  if(NOT elapsed MATCHES "^([0-9]+)\\.?([0-9]?[0-9]?[0-9]?)")
    message(FATAL_ERROR "${what}: ${elapsed} s")
  endif()
  string(SUBSTRING "${CMAKE_MATCH_2}000" 0 3 thousandths)
  math(EXPR most "${CMAKE_MATCH_1} * 1000 + 1${thousandths} - 1000 + 1")
  math(EXPR most "${most} * 1000000")
  if(spent GREATER most)
    message(FATAL_ERROR "${what}: ${spent} ns of transactions in ${elapsed} s: ${record}")
  endif()
endfunction()

# One thread changes one row a transaction, which makes one version.
run(ycsb --versions one-shot --writes 100 --operations 1 --records 100 ${warm})
string(JSON transactions GET "${record}" transactions)
string(JSON median GET "${record}" latency_ns_p50)
string(JSON versions GET "${record}" versions_made)
least_time(${transactions} ${median})
check_time(ycsb ${ns})
math(EXPR most "${transactions} + 2")
if(versions GREATER most OR versions LESS transactions)
  message(FATAL_ERROR "ycsb: ${versions} versions of ${transactions} transactions")
endif()

run(tpcc --versions one-shot --items 100 --customers 20 --mix neworder-payment ${warm})
set(sum 0)
foreach(kind IN ITEMS new_order payment)
  string(JSON committed GET "${record}" by_kind ${kind} committed)
  string(JSON median GET "${record}" by_kind ${kind} latency_ns p50)
    least_time(${committed} ${median})
  math(EXPR sum "${sum} + ${ns}")
endforeach()
check_time(tpcc ${sum})
string(JSON transactions GET "${record}" transactions)
string(JSON versions GET "${record}" versions_made)
if(versions LESS transactions)
  message(FATAL_ERROR "tpcc: ${versions} versions of ${transactions} transactions")
endif()

# Here no operation is timed: with the warm-up it does about as much as without. Where a busy machine
# took the processor away from one of them, both are tried again.
foreach(try RANGE 5)
  run(snapshots --structure hash --collector sl_rt --keys 1000 --warm-up 0 --seconds 0.125 --threads 1)
  string(JSON without GET "${record}" operations)
  run(snapshots --structure hash --collector sl_rt --keys 1000 ${warm})
  string(JSON with GET "${record}" operations)
  math(EXPR most "8 * ${without}")
  if(with LESS most)
    break()
  endif()
endforeach()
if(NOT with LESS most)
  message(FATAL_ERROR "snapshots: ${with} operations with a warm-up, ${without} without")
endif()

# So much work is so much work: there is no warm-up before it.
foreach(command IN ITEMS "ycsb;--transactions;10" "tpcc;--transactions;10" "snapshots;--updates;10")
  execute_process(COMMAND "${BENCH}" ${command} --warm-up 1 RESULT_VARIABLE code
                  ERROR_VARIABLE complaint OUTPUT_QUIET)
  if(NOT code EQUAL 2 OR NOT complaint MATCHES "--warm-up with --[a-z]+: it is for --seconds")
    message(FATAL_ERROR "${command}: exit code ${code}: ${complaint}")
  endif()
endforeach()

# SPDX-License-Identifier: Apache-2.0
# With --count, a record tells of each call of free; the sums fit together. Without, nothing of it.

include("${CMAKE_CURRENT_LIST_DIR}/contract.cmake")
set(fields frees frees_remote frees_over_100us free_runs free_run_max free_call_ns_mean
    free_call_ns_p50 free_call_ns_p99 free_call_ns_p999 free_call_ns_max free_share
    allocator_flushes allocator_fills allocator_locks allocator_lock_waits allocator_lock_wait_ns)

function(trial result release seconds)
  execute_process(COMMAND "${BENCH}" sets --structure list --keys 64 --seconds ${seconds}
                          --scheme debra --release ${release} --threads 2 ${ARGN} --json -
                  RESULT_VARIABLE code ERROR_VARIABLE complaint OUTPUT_VARIABLE record)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "exit code ${code}: ${complaint}")
  endif()
  set(${result} "${record}" PARENT_SCOPE)
endfunction()

trial(plain batch 0.2)
string(JSON value ERROR_VARIABLE missing GET "${plain}" frees)
if(NOT missing)
  message(FATAL_ERROR "frees without --count: ${value}")
endif()

# Sets `problem` to what trials of so many seconds do not show.
function(count_frees seconds)
  set(problem "" PARENT_SCOPE)
  foreach(release IN ITEMS batch amortized)
    trial(record ${release} ${seconds} --count)
    take_fields("${record}" ${fields})
    if(frees LESS 100 OR free_runs LESS 1)
      set(problem "frees ${frees}, runs ${free_runs}" PARENT_SCOPE)
      return()
    endif()
    if(free_runs GREATER frees OR free_run_max GREATER frees)
      message(FATAL_ERROR "frees ${frees}, runs ${free_runs}, longest ${free_run_max}")
    endif()
    # Two threads that erase each other's keys: some blocks come from the other one, not all.
    if(NOT frees_remote STREQUAL "" AND (frees_remote LESS 1 OR NOT frees_remote LESS frees))
      set(problem "${frees_remote} of ${frees} frees are remote" PARENT_SCOPE)
    endif()
    math(EXPR ${release}_run "${frees} * 100 / ${free_runs}")
  endforeach()
  if(NOT batch_run GREATER amortized_run)
    set(problem "runs of frees: ${batch_run} / 100 batch, ${amortized_run} / 100 amortized"
        PARENT_SCOPE)
  endif()
endfunction()

foreach(seconds IN ITEMS 0.2 1 10)
  count_frees(${seconds})
  if(problem STREQUAL "")
    break()
  endif()
endforeach()
if(NOT problem STREQUAL "")
  message(FATAL_ERROR "${problem}")
endif()

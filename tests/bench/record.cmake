# SPDX-License-Identifier: Apache-2.0
# One record a trial, with every field of the contract in docs/bench.md.

set(out "${SCRATCH}/record.json")
set(trace "${SCRATCH}/trace.json")
file(REMOVE "${out}" "${trace}")
execute_process(COMMAND "${BENCH}" sets --structure list --keys 64 --seconds 0.1 --trials 2 --stall
                        --batch 300 --scheme hazard_pointers --json "${out}" --trace "${trace}"
                RESULT_VARIABLE code ERROR_VARIABLE complaint)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "exit code ${code}: ${complaint}")
endif()
file(STRINGS "${out}" lines)
list(LENGTH lines count)
if(NOT count EQUAL 2)
  message(FATAL_ERROR "${count} records for two trials")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/contract.cmake")
foreach(line IN LISTS lines)
  take_fields("${line}" kind structure scheme release threads keys update seconds trial trials seed stall
                time_frees bag warm_up_s page_faults allocator compiler machine revision time elapsed_s operations
                ops_per_s peak_rss_bytes garbage_peak garbage_bound pauses free_ns_p50 free_ns_p999
                free_ns_max retired freed epochs size_end garbage_over_time garbage_per_epoch count)
  string(JSON bag GET "${line}" bag)
  if(NOT bag EQUAL 300)
    message(FATAL_ERROR "a bag of ${bag} for --batch 300")
  endif()
  string(JSON bound GET "${line}" garbage_bound)
  string(JSON peak GET "${line}" garbage_peak)
  if(peak GREATER bound)
    message(FATAL_ERROR "garbage_peak ${peak} is above garbage_bound ${bound}")
  endif()
endforeach()
if(NOT EXISTS "${trace}")
  message(FATAL_ERROR "no trace was written")
endif()

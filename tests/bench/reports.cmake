# SPDX-License-Identifier: Apache-2.0
# A record for each storage, with every field of the contract in docs/bench.md; and a report at the
# old snapshot that is not what it was is found.

set(out "${SCRATCH}/reports.json")
set(small reports --rows 3000 --seconds 0.02)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/contract.cmake")

function(check_fields line)
  take_fields("${line}" kind engine versions rows age threads seconds load parts seed trial trials report_age
              transactions old_q1_ns new_q1_ns old_q6_ns new_q6_ns old_text_ns new_text_ns old_q1_rows_ns
              new_q1_rows_ns old_q6_rows_ns new_q6_rows_ns old_text_rows_ns new_text_rows_ns reports_over_time
              last_to_first peak_rss_bytes versions_made versions_dropped versions_dropped_between version_reads
              chain_length_mean chain_lengths versions_alive version_bytes_end partitions partition_drops
              census_looks allocator compiler machine revision time)
  foreach(field IN ITEMS q1 q6 text q1_rows q6_rows text_rows)
    if(NOT old_${field}_ns GREATER 0 OR NOT new_${field}_ns GREATER 0)
      message(FATAL_ERROR "a row takes no time in ${field}: ${line}")
    endif()
  endforeach()
  if(report_age LESS age OR NOT engine STREQUAL "spolia")
    message(FATAL_ERROR "after ${report_age} updates a row of ${age}: ${line}")
  endif()
  string(JSON parts LENGTH "${line}" reports_over_time)
  set(parts "${parts}" PARENT_SCOPE)
  string(JSON ratio TYPE "${line}" last_to_first)
  set(ratio "${ratio}" PARENT_SCOPE)
endfunction()

# Every storage, by default.
run(--age 3 --threads 3)
list(LENGTH lines count)
if(count LESS 7)
  message(FATAL_ERROR "${count} records")
endif()
foreach(line IN LISTS lines)
  check_fields("${line}")
  if(NOT parts EQUAL 0 OR NOT ratio STREQUAL "NULL")
    message(FATAL_ERROR "no load was asked for: ${line}")
  endif()
endforeach()

# Beside transactions, in parts.
run(--age 3 --load 0.3 --parts 3 --versions one-shot-evacuated)
check_fields("${lines}")
if(NOT parts EQUAL 3 OR NOT ratio STREQUAL "NUMBER")
  message(FATAL_ERROR "of three parts there are ${parts}: ${lines}")
endif()

# What is expected is wrong: exit code 1, and no record.
file(REMOVE "${out}")
execute_process(COMMAND "${BENCH}" reports --rows 1000 --age 1 --seconds 0.02 --versions steam --spoil
                        --json "${out}"
                RESULT_VARIABLE code ERROR_VARIABLE complaint)
if(NOT code EQUAL 1 OR NOT complaint MATCHES "^spolia-bench: q1 at the old snapshot under steam" OR EXISTS "${out}")
  message(FATAL_ERROR "spoilt: exit code ${code}: ${complaint}")
endif()

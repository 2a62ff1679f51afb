# SPDX-License-Identifier: Apache-2.0
# A record for each workload, index, storage and number of held readers, with every field of the
# contract in docs/bench.md; and a reader that does not see what it saw is found, and so is a report
# whose sum is another one.

include("${CMAKE_CURRENT_LIST_DIR}/patience.cmake")
set(out "${SCRATCH}/held.json")
set(small held --rows 100 --warm-up 0.02)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/contract.cmake")

function(check_fields line)
  take_fields("${line}" kind workload index versions hold threads rows durability warm_up_s checkpoint ballast
                age seconds seed trial trials elapsed_s transactions tx_per_s tx_per_cpu_s conflicts latency_ns_p50
                latency_ns_p99 latency_ns_p999 latency_ns_max samples first_row_ns_p50 first_row_ns_max
                old_read_ns_p50 old_read_ns_max old_scan_ns_p50 old_scan_ns_max
                old_row_ns new_row_ns old_each_ns new_each_ns old_find_ns new_find_ns report_age rss_filled_bytes rss_growth_bytes waiting_end waiting_peak
                over_time version_bytes_peak table_bytes checkpoints log_bytes peak_rss_bytes versions_made
                versions_dropped versions_dropped_between version_reads chain_length_mean chain_lengths
                versions_alive version_bytes_end partitions partition_drops census_looks allocator compiler
                machine revision time)
  if(NOT transactions GREATER 0 OR NOT samples GREATER 0 OR NOT first_row_ns_p50 GREATER 0)
    message(FATAL_ERROR "nothing was done: ${line}")
  endif()
  # Only a reader that is held can be read at.
  string(JSON type TYPE "${line}" old_read_ns_p50)
  if((hold EQUAL 0 AND NOT type STREQUAL "NULL") OR (hold GREATER 0 AND NOT type STREQUAL "NUMBER"))
    message(FATAL_ERROR "${hold} readers, and a read at the oldest took ${old_read_ns_p50}: ${line}")
  endif()
  # Only `report` has reports, and only a reader that is held can make old ones.
  foreach(way IN ITEMS row each find)
    string(JSON old TYPE "${line}" old_${way}_ns)
    string(JSON new TYPE "${line}" new_${way}_ns)
    if(workload STREQUAL "report" AND hold GREATER 0)
      set(wanted NUMBER NUMBER)
    elseif(workload STREQUAL "report")
      set(wanted NULL NUMBER)
    else()
      set(wanted NULL NULL)
    endif()
    if(NOT "${old};${new}" STREQUAL "${wanted}")
      message(FATAL_ERROR "old_${way}_ns is ${old}, new_${way}_ns ${new}: ${line}")
    endif()
    if((old STREQUAL "NUMBER" AND NOT old_${way}_ns GREATER 0) OR (new STREQUAL "NUMBER" AND NOT new_${way}_ns GREATER 0))
      message(FATAL_ERROR "a row takes no time: ${line}")
    endif()
  endforeach()
  string(JSON aged ERROR_VARIABLE none GET "${line}" report_age)
  set(aged "${aged}" PARENT_SCOPE)  # empty: there was no reader
  set(cell "${workload} ${index} ${versions} ${hold}" PARENT_SCOPE)
endfunction()

# By default every workload but `report`, both kinds of index, every storage, without a reader and with one.
foreach(seconds IN LISTS patience)
  run(--seconds ${seconds})
  each_works(works "${lines}")
  if(works)
    break()
  endif()
endforeach()
set(cells "")
foreach(line IN LISTS lines)
  check_fields("${line}")
  list(APPEND cells "${cell}")
endforeach()
list(LENGTH cells count)
list(REMOVE_DUPLICATES cells)
list(LENGTH cells different)
if(count LESS 60 OR NOT count EQUAL different)
  message(FATAL_ERROR "${count} records, of which ${different} are of different trials")
endif()
foreach(workload IN ITEMS queue touched churn)
  foreach(index IN ITEMS ordered hash)
    foreach(hold IN ITEMS 0 1)
      list(FIND cells "${workload} ${index} one-shot-consolidated ${hold}" place)
      if(place LESS 0)
        message(FATAL_ERROR "no ${workload}, ${index}, ${hold} readers: ${cells}")
      endif()
    endforeach()
  endforeach()
endforeach()

# Many readers of different ages, more threads than parts of equal size, the other hash index.
run(--versions one-shot-consolidated,range --index ordered,cuckoo --hold 40 --threads 3 --seconds 0.2)
foreach(line IN LISTS lines)
  check_fields("${line}")
endforeach()

# Reports, also by more readers than one, under every storage.
foreach(index IN ITEMS ordered hash)
  run(--workload report --index ${index} --hold 0,2 --threads 3 --age 7 --seconds 0.02)
  list(LENGTH lines count)
  if(count LESS 14)
    message(FATAL_ERROR "${count} records of reports")
  endif()
  foreach(line IN LISTS lines)
    check_fields("${line}")
    if(aged LESS 7 AND NOT aged STREQUAL "")
      message(FATAL_ERROR "after ${aged} updates a row of 7: ${line}")
    endif()
  endforeach()
endforeach()

# They wait until rows have aged, which takes longer here than all else before them.
run(--workload report --index hash --versions one-shot-evacuated --hold 1 --threads 1 --age 30000 --seconds 0.02)
check_fields("${lines}")
if(NOT aged GREATER_EQUAL 30000)
  message(FATAL_ERROR "after ${aged} updates a row of 30000: ${lines}")
endif()

# In a directory, beside checkpoints.
foreach(seconds IN LISTS patience)
  run(--workload queue --index ordered --versions one-shot-consolidated --hold 1 --durability async
      --checkpoint --seconds ${seconds})
  check_fields("${lines}")
  string(JSON taken GET "${lines}" checkpoints)
  if(taken GREATER 0)
    break()
  endif()
endforeach()
string(JSON log GET "${lines}" log_bytes)
if(NOT taken GREATER 0 OR NOT log GREATER 0)
  message(FATAL_ERROR "no checkpoint or no log: ${lines}")
endif()

# A reader that does not see what it saw: exit code 1, and no record.
file(REMOVE "${out}")
foreach(workload IN ITEMS queue touched churn)
  execute_process(COMMAND "${BENCH}" held --workload ${workload} --index ordered --hold 2 --rows 100
                          --versions one-shot --warm-up 0 --seconds 0.05 --spoil --json "${out}"
                  RESULT_VARIABLE code ERROR_VARIABLE complaint)
  if(NOT code EQUAL 1 OR NOT complaint MATCHES "^spolia-bench: ${workload} .*saw 100 rows" OR EXISTS "${out}")
    message(FATAL_ERROR "${workload}, spoilt: exit code ${code}: ${complaint}")
  endif()
endforeach()

# The sum of a report is another one, in a query first.
execute_process(COMMAND "${BENCH}" held --workload report --index hash --hold 1 --rows 100 --versions steam
                        --warm-up 0 --seconds 0.05 --spoil --json "${out}"
                RESULT_VARIABLE code ERROR_VARIABLE complaint)
if(NOT code EQUAL 1 OR NOT complaint MATCHES "^spolia-bench: report: by a query .*the sum 100000, where 100 rows"
   OR EXISTS "${out}")
  message(FATAL_ERROR "report, spoilt: exit code ${code}: ${complaint}")
endif()

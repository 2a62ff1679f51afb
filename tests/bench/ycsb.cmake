# SPDX-License-Identifier: Apache-2.0
# A record for each storage, engine and trial, with every field of the contract in docs/bench.md;
# each workload on each engine that was built; and the same seed does the same.

include("${CMAKE_CURRENT_LIST_DIR}/patience.cmake")
set(out "${SCRATCH}/ycsb.json")
set(small ycsb --records 100)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/contract.cmake")

function(check_fields line)
  take_fields("${line}" kind engine versions index durability workload threads writes theta columns width touch
                operations records shared hold scan scan_threads scans rows_scanned_per_s partition changes_only seconds seed trial trials fill_s elapsed_s transactions tx_per_s
                conflicts aborts missed latency_ns_p50 latency_ns_p99 latency_ns_p999
                latency_ns_max latency_ns_distribution versions_made versions_dropped versions_dropped_between version_reads
                chain_length_mean chain_lengths versions_alive version_bytes_peak
                version_bytes_end version_bytes_over_time over_time partitions partition_drops
                census_looks table_bytes log_bytes log_flushes longest_flush_ns checkpoint_s checkpoint_throughput
                checkpoint_bytes peak_rss_bytes allocator compiler machine revision time)
  string(JSON transactions GET "${line}" transactions)
  if(NOT transactions GREATER 0)
    message(FATAL_ERROR "no transaction was committed: ${line}")
  endif()
endfunction()

foreach(seconds IN LISTS patience)
  run(--seconds ${seconds} --trials 2 --shared --hold 1)
  each_works(works "${lines}")
  if(works)
    break()
  endif()
endforeach()
list(LENGTH lines count)
math(EXPR odd "${count} % 2")
if(count LESS 8 OR odd)
  message(FATAL_ERROR "${count} records for two trials of all storages")
endif()
foreach(line IN LISTS lines)
  check_fields("${line}")
endforeach()

foreach(scan IN ITEMS rows query)
  set(threads)
  if(scan STREQUAL "query")
    set(threads --scan-threads 2)
  endif()
  foreach(seconds IN LISTS patience)
    run(--seconds ${seconds} --versions one-shot --scan ${scan} ${threads})
    string(JSON transactions GET "${lines}" transactions)
    string(JSON rows GET "${lines}" rows_scanned_per_s)
    if(transactions GREATER 0 AND rows GREATER 0)
      break()
    endif()
  endforeach()
  check_fields("${lines}")
  if(NOT rows GREATER 0)
    message(FATAL_ERROR "--scan ${scan} has scanned nothing: ${lines}")
  endif()
endforeach()

execute_process(COMMAND "${BENCH}" ycsb --engine nothing ERROR_VARIABLE complaint
                RESULT_VARIABLE code)
if(NOT code EQUAL 2 OR NOT complaint MATCHES "there are (spolia[a-z, -]*)")
  message(FATAL_ERROR "an engine that is not there: exit code ${code}: ${complaint}")
endif()
string(REPLACE ", " ";" engines "${CMAKE_MATCH_1}")
foreach(engine IN ITEMS rocksdb-optimistic rocksdb-pessimistic lmdb sqlite)
  list(FIND engines ${engine} place)
  if(place LESS 0)
    execute_process(COMMAND "${BENCH}" ycsb --engine ${engine} ERROR_VARIABLE complaint
                    RESULT_VARIABLE code)
    if(NOT code EQUAL 2 OR NOT complaint MATCHES "install lib")
      message(FATAL_ERROR "${engine}, which is absent: exit code ${code}: ${complaint}")
    endif()
  endif()
endforeach()

# Every engine finds what was put there: no row is missed but by D, whose newest may not be there yet.
# Some have no room for new rows.
set(fixed mvrlu mvrlu-serializable rlu rlu-deferred rwlock)
foreach(workload IN ITEMS paper a b c d e f)
  set(able ${engines})
  if(workload MATCHES "^[de]$")
    list(REMOVE_ITEM able ${fixed})
  endif()
  list(LENGTH able expected)
  string(REPLACE ";" "," all "${able}")
  run(--engine ${all} --versions one-shot --workload ${workload} --transactions 40 --touch 3 --changes)
  list(LENGTH lines count)
  if(NOT count EQUAL expected)
    message(FATAL_ERROR "workload ${workload}: ${count} records for ${able}")
  endif()
  foreach(line IN LISTS lines)
    check_fields("${line}")
    string(JSON missed GET "${line}" missed)
    string(JSON transactions GET "${line}" transactions)
    if(NOT transactions EQUAL 80 OR (missed GREATER 0 AND NOT workload STREQUAL "d"))
      message(FATAL_ERROR "workload ${workload}: ${line}")
    endif()
  endforeach()
endforeach()

# Transactions of many rows, all of which change, beside a section that lasts.
run(--engine mvrlu,mvrlu-serializable --workload a --writes 100 --operations 16 --theta 0.9
    --threads 4 --transactions 200 --hold 1)
foreach(line IN LISTS lines)
  check_fields("${line}")
endforeach()

# Those that cannot have changes only keep rows.
run(--versions steam-eager,range --workload a --transactions 40 --hold 1 --changes)

# Both kinds of hash index find every row, and the records say which it was; a tree is neither.
foreach(workload IN ITEMS a paper e)
  run(--versions one-shot --index probing,cuckoo --workload ${workload} --transactions 40)
  set(kinds "")
  foreach(line IN LISTS lines)
    check_fields("${line}")
    string(JSON index GET "${line}" index)
    string(JSON missed GET "${line}" missed)
    if(missed GREATER 0)
      message(FATAL_ERROR "workload ${workload}: ${line}")
    endif()
    list(APPEND kinds "[${index}]")
  endforeach()
  set(expected "[probing]" "[cuckoo]")
  if(workload STREQUAL "e")
    set(expected "[]" "[]")
  endif()
  if(NOT kinds STREQUAL expected)
    message(FATAL_ERROR "workload ${workload}: indexes ${kinds}")
  endif()
endforeach()

set(seen "")
foreach(seed IN ITEMS 7 7 8)
  run(--versions steam --workload a --threads 1 --transactions 200 --seed ${seed})
  string(JSON made GET "${lines}" versions_made)
  list(APPEND seen ${made})
endforeach()
list(GET seen 0 first)
list(GET seen 1 again)
list(GET seen 2 other)
if(NOT first EQUAL again OR first EQUAL other)
  message(FATAL_ERROR "seeds 7, 7 and 8 made ${seen} versions")
endif()

foreach(wrong IN ITEMS "--workload;g" "--workload;e;--writes;5" "--versions;marvel" "--shared;--own"
                       "--engine;sqlite;--hold;1" "--engine;rlu;--hold;1" "--engine;mvrlu;--workload;d")
  execute_process(COMMAND "${BENCH}" ycsb ${wrong} RESULT_VARIABLE code ERROR_VARIABLE complaint
                  OUTPUT_QUIET)
  if(NOT code EQUAL 2 OR NOT complaint MATCHES "^spolia-bench: --")
    message(FATAL_ERROR "${wrong}: exit code ${code}: ${complaint}")
  endif()
endforeach()

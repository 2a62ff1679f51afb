# SPDX-License-Identifier: Apache-2.0
# A record for each storage and trial, with every field of the contract in docs/bench.md.

set(out "${SCRATCH}/ycsb.json")
file(REMOVE "${out}")
execute_process(COMMAND "${BENCH}" ycsb --records 100 --seconds 0.1 --trials 2 --shared --hold 1
                        --json "${out}"
                RESULT_VARIABLE code ERROR_VARIABLE complaint)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "exit code ${code}: ${complaint}")
endif()
file(STRINGS "${out}" lines)
list(LENGTH lines count)
if(NOT count EQUAL 8)
  message(FATAL_ERROR "${count} records for two trials of four storages")
endif()
file(READ "${DOCS}/bench.md" contract)
foreach(line IN LISTS lines)
  foreach(field kind versions threads writes theta columns operations records shared hold partition
                seconds seed trial trials elapsed_s transactions tx_per_s conflicts latency_ns_p50
                latency_ns_p99 latency_ns_p999 versions_made versions_dropped version_bytes_peak
                version_bytes_end version_bytes_over_time partitions partition_drops census_looks
                table_bytes peak_rss_bytes allocator compiler machine revision time)
    string(JSON value ERROR_VARIABLE missing GET "${line}" ${field})
    if(missing)
      message(FATAL_ERROR "a record has no ${field}: ${missing}")
    endif()
    if(NOT contract MATCHES "`${field}`")
      message(FATAL_ERROR "docs/bench.md does not explain ${field}")
    endif()
  endforeach()
  string(JSON transactions GET "${line}" transactions)
  if(NOT transactions GREATER 0)
    message(FATAL_ERROR "no transaction was committed: ${line}")
  endif()
endforeach()

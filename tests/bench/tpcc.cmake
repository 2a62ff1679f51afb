# SPDX-License-Identifier: Apache-2.0
# A record for each storage, with every field of the contract in docs/bench.md; the same seed does the
# same; and each condition of consistency is found broken when it is.

include("${CMAKE_CURRENT_LIST_DIR}/patience.cmake")
set(out "${SCRATCH}/tpcc.json")
set(small tpcc --items 100 --customers 20)

# Sets `lines` to the records of one run.
function(run)
  file(REMOVE "${out}")
  execute_process(COMMAND "${BENCH}" ${small} --json "${out}" ${ARGN}
                  RESULT_VARIABLE code ERROR_VARIABLE complaint)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: exit code ${code}: ${complaint}")
  endif()
  file(STRINGS "${out}" lines)
  set(lines "${lines}" PARENT_SCOPE)
endfunction()

foreach(seconds IN LISTS patience)
  run(--seconds ${seconds} --hold 1 --scanners 1 --threads 3 --warehouses 2)
  each_works(works "${lines}")
  if(works)
    break()
  endif()
endforeach()
list(LENGTH lines count)
if(count LESS 4)
  message(FATAL_ERROR "${count} records for all storages")
endif()
file(READ "${DOCS}/bench.md" contract)
foreach(line IN LISTS lines)
  string(JSON fields LENGTH "${line}")
  math(EXPR last "${fields} - 1")
  foreach(at RANGE ${last})
    string(JSON field MEMBER "${line}" ${at})
    if(NOT contract MATCHES "`${field}`")
      message(FATAL_ERROR "docs/bench.md does not explain ${field}")
    endif()
  endforeach()
  foreach(field kind versions warehouses items customers threads mix serializable delivery_hint hold scanners partition
                partitions_most changes_only budget seconds seed trial trials elapsed_s load_s transactions
                tx_per_s by_kind conflicts limits rows_scanned_per_s versions_made versions_dropped
                versions_dropped_between version_reads chain_length_mean chain_lengths
                versions_alive version_bytes_peak version_bytes_end over_time partitions
                partition_drops census_looks table_bytes peak_rss_bytes conditions_held)
    string(JSON value ERROR_VARIABLE missing GET "${line}" ${field})
    if(missing)
      message(FATAL_ERROR "a record has no ${field}: ${missing}")
    endif()
  endforeach()
  string(JSON warehouses GET "${line}" warehouses)
  string(JSON transactions GET "${line}" transactions)
  if(NOT transactions GREATER 0 OR NOT warehouses EQUAL 2)
    message(FATAL_ERROR "no transaction, or another number of warehouses: ${line}")
  endif()
endforeach()

# One client does the same again, and with another seed something else.
set(seen "")
foreach(seed IN ITEMS 5 5 6)
  run(--versions one-shot --changes --threads 1 --transactions 400 --seed ${seed})
  string(JSON made GET "${lines}" versions_made)
  set(done "${made}")
  foreach(kind IN ITEMS new_order payment order_status delivery stock_level)
    string(JSON committed GET "${lines}" by_kind ${kind} committed)
    if(committed EQUAL 0)
      message(FATAL_ERROR "no ${kind} in 400 transactions")
    endif()
    string(APPEND done "-${committed}")
  endforeach()
  list(APPEND seen "${done}")
endforeach()
list(GET seen 0 first)
list(GET seen 1 again)
list(GET seen 2 other)
if(NOT first STREQUAL again OR first STREQUAL other)
  message(FATAL_ERROR "seeds 5, 5 and 6 did ${seen}")
endif()

# With the hint Delivery finds the same orders: one client does the same with it and without.
set(seen "")
foreach(hint IN ITEMS "" "--delivery-hint")
  run(--versions one-shot --threads 1 --transactions 1500 --seed 5 ${hint})
  string(JSON made GET "${lines}" versions_made)
  string(JSON hinted GET "${lines}" delivery_hint)
  string(JSON delivered GET "${lines}" by_kind delivery committed)
  if((hint STREQUAL "" AND hinted) OR (hint AND NOT hinted) OR delivered EQUAL 0)
    message(FATAL_ERROR "'${hint}': the record says ${hinted}, ${delivered} deliveries")
  endif()
  list(APPEND seen ${made})
endforeach()
list(GET seen 0 without)
list(GET seen 1 with)
if(NOT without EQUAL with)
  message(FATAL_ERROR "without and with the hint ${seen} versions were made")
endif()

run(--versions steam-eager,range --transactions 100)
run(--versions steam --transactions 100 --mix neworder-payment)
string(JSON deliveries GET "${lines}" by_kind delivery committed)
string(JSON payments GET "${lines}" by_kind payment committed)
if(NOT deliveries EQUAL 0 OR payments EQUAL 0)
  message(FATAL_ERROR "the mix of two has ${deliveries} deliveries and ${payments} payments")
endif()

# The ceiling: nothing is kept, so a transaction that needs an old version begins anew.
run(--versions floor --transactions 200 --mix neworder-payment --threads 4)
string(JSON payments GET "${lines}" by_kind payment committed)
if(payments EQUAL 0)
  message(FATAL_ERROR "no payment while nothing is kept: ${lines}")
endif()

# Without insertions, and what it leaves is checked all the same.
run(--versions one-shot --transactions 100 --mix dbx1000 --threads 2 --serializable)
string(JSON orders GET "${lines}" by_kind new_order committed)
string(JSON wrong GET "${lines}" by_kind new_order rolled_back)
string(JSON payments GET "${lines}" by_kind payment committed)
if(orders EQUAL 0 OR payments EQUAL 0 OR NOT wrong EQUAL 0)
  message(FATAL_ERROR "DBx1000's mix: ${orders} orders, ${payments} payments, ${wrong} rolled back")
endif()
execute_process(COMMAND "${BENCH}" ${small} --versions steam --transactions 20 --mix dbx1000 --spoil 2
                        --json "${out}"
                RESULT_VARIABLE code ERROR_VARIABLE complaint)
if(NOT code EQUAL 1 OR NOT complaint MATCHES "condition 2:")
  message(FATAL_ERROR "condition 2 of DBx1000's mix, spoilt: exit code ${code}: ${complaint}")
endif()

# A budget that is too small ends commits, and leaves the tables consistent.
foreach(seconds IN ITEMS 0.2 1 10)
  run(--versions none --seconds ${seconds} --budget 600000)
  string(JSON limits GET "${lines}" limits)
  if(limits GREATER 0)
    break()
  endif()
endforeach()
if(NOT limits GREATER 0)
  message(FATAL_ERROR "no commit was refused for want of memory: ${lines}")
endif()

foreach(condition RANGE 1 12)
  execute_process(COMMAND "${BENCH}" ${small} --versions steam --transactions 20 --seed 3
                          --spoil ${condition} --json "${out}"
                  RESULT_VARIABLE code ERROR_VARIABLE complaint)
  if(NOT code EQUAL 1 OR NOT complaint MATCHES "condition ${condition}:")
    message(FATAL_ERROR "condition ${condition}, spoilt: exit code ${code}: ${complaint}")
  endif()
endforeach()

foreach(wrong IN ITEMS "--mix;half" "--versions;marvel" "--items;5" "--threads;0")
  execute_process(COMMAND "${BENCH}" ${small} ${wrong} RESULT_VARIABLE code
                  ERROR_VARIABLE complaint OUTPUT_QUIET)
  if(NOT code EQUAL 2 OR NOT complaint MATCHES "^spolia-bench: --")
    message(FATAL_ERROR "${wrong}: exit code ${code}: ${complaint}")
  endif()
endforeach()

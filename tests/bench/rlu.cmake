# SPDX-License-Identifier: Apache-2.0
# Each structure under each way of synchronising answers as a set does; what is not there is refused.

foreach(cell IN ITEMS list:mvrlu list:mvrlu-hardware list:rcu list:rwlock list:harris-michael-hp
                      hash:mvrlu hash:mvrlu-hardware hash:rcu hash:rwlock
                      tree:mvrlu tree:mvrlu-hardware tree:lock-free tree:rwlock)
  string(REPLACE ":" ";" cell "${cell}")
  list(GET cell 0 structure)
  list(GET cell 1 sync)
  execute_process(COMMAND "${BENCH}" rlu --structure ${structure} --sync ${sync} --keys 200
                          --seconds 0.05 --check --json -
                  RESULT_VARIABLE code ERROR_VARIABLE complaint OUTPUT_VARIABLE record)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${structure} ${sync}: exit code ${code}: ${complaint}")
  endif()
  string(JSON operations GET "${record}" operations)
  if(operations LESS 10)
    message(FATAL_ERROR "${structure} ${sync}: ${operations} operations")
  endif()
endforeach()
foreach(wrong IN ITEMS "--structure;heap" "--sync;magic" "--buckets;0" "--sync;rwlock;--stall")
  execute_process(COMMAND "${BENCH}" rlu ${wrong} RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  if(NOT code EQUAL 2)
    message(FATAL_ERROR "${wrong}: exit code ${code}, not 2")
  endif()
endforeach()

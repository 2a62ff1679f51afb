# SPDX-License-Identifier: Apache-2.0
# Each structure under each way of synchronising answers as a set does; what is not there is refused.

execute_process(COMMAND "${BENCH}" rlu --help OUTPUT_VARIABLE help)
set(rivals)
if(help MATCHES "kyotocabinet")
  set(rivals cache:kyotocabinet)
endif()
foreach(cell IN ITEMS list:mvrlu list:mvrlu-hardware list:rlu list:rlu-deferred list:rcu
                      list:rwlock list:harris-michael-hp
                      hash:mvrlu hash:mvrlu-hardware hash:rlu hash:rlu-deferred hash:rcu hash:rwlock
                      tree:mvrlu tree:mvrlu-hardware tree:rlu tree:rlu-deferred tree:lock-free
                      tree:rwlock cache:mvrlu cache:rwlock ${rivals})
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

# What goes on inside: as many figures at each look as there are names, and the sums only grow.
foreach(sync IN ITEMS mvrlu rlu-deferred)
  execute_process(COMMAND "${BENCH}" rlu --sync ${sync} --keys 200 --theta 0.9 --update 80
                          --seconds 0.1 --over-time --json -
                  RESULT_VARIABLE code ERROR_VARIABLE complaint OUTPUT_VARIABLE record)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${sync} --over-time: exit code ${code}: ${complaint}")
  endif()
  string(JSON names LENGTH "${record}" over_time_columns)
  string(JSON looks LENGTH "${record}" over_time)
  if(looks LESS 5)
    message(FATAL_ERROR "${sync}: ${looks} looks in a tenth of a second")
  endif()
  math(EXPR last "${looks} - 1")
  foreach(sum IN ITEMS written_back passes commits)
    math(EXPR place 0)
    string(JSON name GET "${record}" over_time_columns ${place})
    while(NOT name STREQUAL sum)
      math(EXPR place "${place} + 1")
      string(JSON name GET "${record}" over_time_columns ${place})
    endwhile()
    string(JSON first GET "${record}" over_time 0 ${place})
    string(JSON end GET "${record}" over_time ${last} ${place})
    if(NOT end GREATER first)
      message(FATAL_ERROR "${sync}: ${sum} was ${first} at first and ${end} at last")
    endif()
  endforeach()
  string(JSON figures LENGTH "${record}" over_time ${last})
  if(NOT figures EQUAL names)
    message(FATAL_ERROR "${sync}: ${figures} figures for ${names} names")
  endif()
  string(JSON ratio GET "${record}" abort_ratio)
  if(ratio LESS 0 OR ratio GREATER 1)
    message(FATAL_ERROR "${sync}: an abort ratio of ${ratio}")
  endif()
endforeach()
foreach(wrong IN ITEMS "--structure;heap" "--sync;magic" "--buckets;0" "--sync;rwlock;--stall"
                       "--theta;1.5" "--together;0" "--sync;rcu;--over-time")
  execute_process(COMMAND "${BENCH}" rlu ${wrong} RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  if(NOT code EQUAL 2)
    message(FATAL_ERROR "${wrong}: exit code ${code}, not 2")
  endif()
endforeach()

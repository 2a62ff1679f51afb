# SPDX-License-Identifier: Apache-2.0
# Every record of every command names its conditions: those that all have in common, and each option
# of its --help but those that say where records go or in which order, or try a check; with the value
# that was given.

set(common revision compiler flags allocator machine threads seconds warm_up_s)
set(no_conditions help json order spoil markdown)
# Where a condition has not the name of its option.
set(named "warm-up=warm_up_s" "sets:batch=bag" "sets:trace=traced" "snapshots:updates=updates_asked"
          "rlu:segment=segment_bytes" "rlu:low=low_watermark" "rlu:high=high_watermark"
          "rlu:walks=walk_watermark" "rlu:over-time=over_time_asked" "counted:pointers=pointer"
          "own=shared" "changes=changes_only" "recovery:changes=changes"
          "transactions=transactions_asked" "partitions=partitions_most")

function(field_of result command option)
  string(REPLACE "-" "_" field "${option}")
  foreach(one IN LISTS named)
    if(one MATCHES "^(${command}:)?${option}=(.*)$")
      set(field "${CMAKE_MATCH_2}")
    endif()
  endforeach()
  set(${result} "${field}" PARENT_SCOPE)
endfunction()

# Sets `lines` to the records, without brackets, which would join elements of a list.
function(records_of)
  set(out "${SCRATCH}/conditions.json")
  file(REMOVE "${out}")
  execute_process(COMMAND "${BENCH}" ${ARGN} --json "${out}"
                  RESULT_VARIABLE code ERROR_VARIABLE complaint)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: exit code ${code}: ${complaint}")
  endif()
  file(STRINGS "${out}" lines)
  set(lines "${lines}" PARENT_SCOPE)
endfunction()

include("${CMAKE_CURRENT_LIST_DIR}/contract.cmake")

# Fields of a record that are told of nowhere.
function(check_explained command record)
  string(JSON last LENGTH "${record}")
  math(EXPR last "${last} - 1")
  foreach(at RANGE ${last})
    string(JSON field MEMBER "${record}" ${at})
    if(NOT contract MATCHES "`${field}`")
      message(FATAL_ERROR "${command}: docs/bench.md does not explain ${field}")
    endif()
  endforeach()
endfunction()

# Each value that was given shows: `options` are as on the command line.
function(check_values command record options)
  list(LENGTH options left)
  while(left GREATER 0)
    list(POP_FRONT options option)
    string(REGEX REPLACE "^--" "" name "${option}")
    set(value ON)
    list(LENGTH options left)
    if(left GREATER 0)
      list(GET options 0 next)
      if(NOT next MATCHES "^--")
        set(value "${next}")
        list(POP_FRONT options)
      endif()
    endif()
    list(LENGTH options left)
    field_of(field ${command} ${name})
    string(JSON seen GET "${record}" ${field})
    if(name STREQUAL "own")
      set(value OFF)
    endif()
    if(name STREQUAL "in-place" AND NOT seen)
      set(seen 0)
    endif()
    if(NOT seen STREQUAL value AND NOT (seen EQUAL value))
      message(FATAL_ERROR "${command} --${name} ${value}: the record's ${field} is ${seen}")
    endif()
  endwhile()
endfunction()

# Of one command with these options.
function(check_conditions command)
  records_of(${command} ${ARGN})
  execute_process(COMMAND "${BENCH}" ${command} --help OUTPUT_VARIABLE help)
  string(REGEX MATCHALL "\n +(-[a-z],)?--[a-z-]+" options "${help}")
  if(options STREQUAL "")
    message(FATAL_ERROR "${command} has no options: ${help}")
  endif()
  foreach(record IN LISTS lines)
    string(JSON conditions GET "${record}" conditions)
    set(wanted ${common})
    foreach(option IN LISTS options)
      string(REGEX REPLACE ".*--" "" option "${option}")
      list(FIND no_conditions "${option}" place)
      if(place LESS 0)
        field_of(field ${command} ${option})
        list(APPEND wanted ${field})
      endif()
    endforeach()
    foreach(field IN LISTS wanted)
      string(JSON value ERROR_VARIABLE missing GET "${record}" ${field})
      if(missing OR NOT conditions MATCHES "\"${field}\"")
        message(FATAL_ERROR "${command}: ${field} is no condition of ${record}")
      endif()
    endforeach()
    foreach(field IN ITEMS revision compiler flags allocator)
      string(JSON value GET "${record}" ${field})
      if(value STREQUAL "")
        message(FATAL_ERROR "${command}: an empty ${field}")
      endif()
    endforeach()
    foreach(field IN ITEMS kind trial time operations transactions elapsed_s peak_rss_bytes ns)
      if(conditions MATCHES "\"${field}\"" AND NOT command STREQUAL "ycsb"
         AND NOT command MATCHES "announcements|recovery")
        message(FATAL_ERROR "${command}: ${field} is a condition")
      endif()
    endforeach()
    check_explained(${command} "${record}")
    check_values(${command} "${record}" "${ARGN}")
  endforeach()
endfunction()

set(strings "${SCRATCH}/conditions.txt")
string(REPEAT "a\nbe\nsea\ndeed\n" 30 text)
file(WRITE "${strings}" "${text}")
set(short --seconds 0.0625 --trials 1 --seed 3)

check_conditions(sets --structure list --scheme hazard_pointers --release batch --keys 64 --update 40
                 --threads 3 --batch 300 --warm-up 0.03125 --turn-us 70 --time-frees 3 --stall --check
                 --count ${short})
check_conditions(snapshots --structure hash --collector bbf --keys 500 --update 30 --threads 3 --readers 1
                 --small-readers 2 --theta 0.5 --rtx-share 2 --rtx 5 --rtx-most 9 --batch 4 --hold
                 --still-every 7 --warm-up 0.03125 ${short})
check_conditions(snapshots --structure hash --collector bbf --keys 500 --updates 300 --trials 1)
check_conditions(rlu --structure hash --sync mvrlu --keys 200 --update 30 --threads 3 --theta 0.5
                 --buckets 7 --warm-up 0.03125 --stall --check --over-time --segment 65536 --low 40000
                 --high 500000 --walks 300 --turn-us 90 --in-place 0 --detector ${short})
check_conditions(rlu --structure list --sync rlu-deferred --keys 200 --together 4 ${short})
check_conditions(rlu --structure list --sync rcu --keys 200 ${short})
check_conditions(ycsb --engine spolia --versions one-shot --index cuckoo --threads 3 --writes 30 --theta 0.25
                 --columns 4 --width 8 --touch 2 --operations 3 --records 50 --shared --hold 1 --scan query
                 --scan-threads 2 --partition 64 --partition-cache 65536 --changes --warm-up 0.03125
                 --durability async --directory "${SCRATCH}" --checkpoint ${short})
check_conditions(ycsb --engine rwlock --own --records 50 --threads 1 --transactions 30 --trials 1 --seed 3)
check_conditions(tpcc --versions one-shot --index cuckoo --warehouses 1 --threads 3 --mix full --serializable
                 --items 100 --customers 20 --hold 1 --scanners 1 --partition 64 --partition-cache 65536
                 --partitions 9 --changes --budget 100000000 --delivery-hint --warm-up 0.03125 ${short})
check_conditions(tpcc --versions steam --items 100 --customers 20 --threads 1 --transactions 30 --trials 1)
check_conditions(recovery --from log --records 100 --changes 300 --columns 3 --width 8 --operations 5
                 --threads 2 --index cuckoo --cold --own-memory --directory "${SCRATCH}" --trials 1 --seed 3)
check_conditions(recovery --from checkpoint --records 100 --ordered --trials 1)
check_conditions(held --workload report --index hash --versions one-shot --hold 1 --threads 3 --rows 100
                 --durability async --directory "${SCRATCH}" --checkpoint --ballast 10 --warm-up 0.03125
                 --age 2 ${short})
check_conditions(reports --versions one-shot --threads 3 --rows 500 --age 2 --load 0.0625 --parts 2 ${short})
check_conditions(counted --test read --structure hash --keys 100 --pointers thin --threads 3
                 --seconds 0.0625 --trials 1)
check_conditions(counted --test strings --keys 100 --pointers thin --threads 3 --strings "${strings}"
                 --seconds 0.0625 --trials 1)
check_conditions(guards --rounds 1)
check_conditions(announcements --threads 3 --operations 100)

# As large as the paper's; what is given stays. A trial of that size would take long here, so that the
# other size is given.
function(check_size command field expected)
  records_of(${command} --paper-size ${ARGN})
  foreach(record IN LISTS lines)
    string(JSON seen GET "${record}" ${field})
    string(JSON paper GET "${record}" paper_size)
    if(NOT seen EQUAL expected OR NOT paper)
      message(FATAL_ERROR "${command} --paper-size ${ARGN}: ${field} is ${seen}, not ${expected}")
    endif()
  endforeach()
endfunction()
check_size(rlu buckets 1000 --keys 100 --threads 2 ${short})
check_size(rlu keys 20000 --threads 2 ${short})
check_size(snapshots keys 200000 --structure hash --collector sl_rt --threads 2 ${short})
check_size(snapshots small_readers 40 --structure hash --collector sl_rt --threads 2 --readers 1 --keys 100
           ${short})
check_size(ycsb threads 28 --versions one-shot --transactions 1 --trials 1)
check_size(tpcc items 100000 --versions one-shot --customers 20 --threads 1 --transactions 1 --trials 1)
check_size(tpcc customers 3000 --versions one-shot --items 100 --threads 1 --transactions 1 --trials 1)
check_size(counted threads 32 --test contention --pointers private --seconds 0.0625 --trials 1)
check_size(counted keys 100000 --test read --structure hash --pointers thin --threads 1 --seconds 0.0625
           --trials 1)

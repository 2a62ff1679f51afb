# SPDX-License-Identifier: Apache-2.0
# What a command measures in turn comes in another order for each number of --order.

# Sets `names` to that field of the records, in their order.
function(names_of field)
  execute_process(COMMAND "${BENCH}" ${ARGN} --trials 1 --json - RESULT_VARIABLE code
                  OUTPUT_VARIABLE records ERROR_VARIABLE complaint)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: exit code ${code}: ${complaint}")
  endif()
  string(REGEX MATCHALL "\"${field}\":(\"[^\"]*\"|[0-9]+)" names "${records}")
  list(TRANSFORM names REPLACE "^[^:]*:|\"" "")
  set(names "${names}" PARENT_SCOPE)
endfunction()

# Of a command that measures three.
function(check_orders field)
  names_of(${field} ${ARGN})
  list(LENGTH names length)
  if(NOT length EQUAL 3)
    message(FATAL_ERROR "${ARGN}: ${length} records, which have ${field} ${names}")
  endif()
  list(GET names 0 a)
  list(GET names 1 b)
  list(GET names 2 c)
  set(orders "${a} ${b} ${c}" "${c} ${b} ${a}" "${b} ${c} ${a}" "${a} ${c} ${b}" "${c} ${a} ${b}")
  foreach(number RANGE 4)
    names_of(${field} ${ARGN} --order ${number})
    list(GET orders ${number} wanted)
    list(JOIN names " " seen)
    if(NOT seen STREQUAL wanted)
      message(FATAL_ERROR "${ARGN} --order ${number}: ${seen}, and not ${wanted}")
    endif()
  endforeach()
endfunction()

set(storages --versions one-shot,steam,range)
check_orders(pointer counted --test set --pointers raw,private,thin --threads 1 --seconds 0.01)
check_orders(threads counted --test set --pointers raw --threads 1,2,3 --seconds 0.01)
check_orders(collector snapshots --structure hash --collector bbf,dl_rt,sl_rt --keys 100 --updates 10)
check_orders(engine ycsb --engine rwlock,rlu,mvrlu --records 20 --threads 1 --transactions 5)
check_orders(versions ycsb ${storages} --records 20 --threads 1 --transactions 5)
check_orders(versions tpcc ${storages} --items 100 --customers 20 --threads 1 --transactions 5)
check_orders(versions held --workload queue --index hash ${storages} --hold 0 --rows 20 --threads 1
             --warm-up 0 --seconds 0.02)
check_orders(hold held --workload queue --index hash --versions steam --hold 0,1,2 --rows 20 --threads 1
             --warm-up 0.01 --seconds 0.02)
check_orders(versions reports ${storages} --rows 100 --age 1 --threads 1 --seconds 0.02)

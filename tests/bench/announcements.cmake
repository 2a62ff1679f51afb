# SPDX-License-Identifier: Apache-2.0
# Announcements read by an operation: few in every scheme, and more where more threads are read.

execute_process(COMMAND "${BENCH}" announcements --threads 2,32 --operations 5000
                RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE complaint)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "exit code ${code}: ${complaint}")
endif()
string(REGEX REPLACE "\n$" "" out "${out}")
string(REPLACE "\n" ";" lines "${out}")
list(LENGTH lines count)
if(NOT count EQUAL 28)
  message(FATAL_ERROR "${count} records for 14 schemes and two numbers of threads")
endif()
foreach(line IN LISTS lines)
  string(JSON scheme GET "${line}" scheme)
  string(JSON threads GET "${line}" threads)
  string(JSON reads GET "${line}" announcements_per_op)
  if(scheme STREQUAL "qsbr")
    set(qsbr_${threads} ${reads})
  endif()
  if(reads GREATER threads)
    message(FATAL_ERROR "${scheme} reads ${reads} announcements an operation of ${threads} threads")
  endif()
endforeach()
# Each look of quiescent states goes over all threads, and comes after a fixed number of operations.
if(NOT qsbr_32 GREATER qsbr_2 OR NOT qsbr_2 GREATER 0)
  message(FATAL_ERROR "quiescent states read ${qsbr_2} of 2 threads and ${qsbr_32} of 32")
endif()

# SPDX-License-Identifier: Apache-2.0
# Sets `lines` to the records of one run of `small`, a command with the options that make it short,
# and of these options; they go to the file `out`. Both are the including test's.
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

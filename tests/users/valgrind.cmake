# SPDX-License-Identifier: Apache-2.0
# Runs a program under valgrind: as it is there must be no word, and each of its planted mistakes must
# be found by its name.

function(under_valgrind status said)
  execute_process(COMMAND "${VALGRIND}" --quiet --leak-check=full --error-exitcode=9 "${PROGRAM}"
                          ${ARGN}
                  RESULT_VARIABLE ended ERROR_VARIABLE errors)
  set(${status} "${ended}" PARENT_SCOPE)
  set(${said} "${errors}" PARENT_SCOPE)
endfunction()

under_valgrind(status said)
if(NOT status EQUAL 0 OR NOT said STREQUAL "")
  message(FATAL_ERROR "valgrind complains of the library (${status}):\n${said}")
endif()
foreach(mistake IN ITEMS "read;Invalid read" "leak;definitely lost")
  list(POP_FRONT mistake argument found)
  under_valgrind(status said ${argument})
  if(NOT status EQUAL 9 OR NOT said MATCHES "${found}")
    message(FATAL_ERROR "valgrind does not find a user's mistake, ${argument} (${status}):\n${said}")
  endif()
endforeach()

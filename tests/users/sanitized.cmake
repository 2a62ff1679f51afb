# SPDX-License-Identifier: Apache-2.0
# Compiles a program with a sanitizer, all warnings being errors, and runs it: as it is it must be
# silent, and with its planted mistake it must not.

execute_process(COMMAND "${CXX}" -std=c++20 -O0 -g1 -Wall -Wextra -Werror -fsanitize=${SANITIZER}
                        -fno-sanitize-recover=all "-I${INCLUDE}" "-I${INCLUDE}/../src" ${SOURCES} -o "${PROGRAM}" -pthread
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${PROGRAM}" RESULT_VARIABLE status ERROR_VARIABLE said)
if(NOT status EQUAL 0 OR NOT said STREQUAL "")
  message(FATAL_ERROR "the sanitizer complains of the library (${status}):\n${said}")
endif()
execute_process(COMMAND "${PROGRAM}" read RESULT_VARIABLE status ERROR_QUIET)
file(REMOVE "${PROGRAM}")
if(status EQUAL 0)
  message(FATAL_ERROR "the sanitizer does not find a mistake of the user")
endif()

# SPDX-License-Identifier: Apache-2.0
# The table in docs/schemes.md is what the schemes say of themselves.

execute_process(COMMAND "${BENCH}" list --markdown OUTPUT_VARIABLE table RESULT_VARIABLE code)
file(READ "${DOCS}/schemes.md" page)
string(FIND "${page}" "${table}" at)
if(NOT code EQUAL 0 OR at EQUAL -1)
  message(FATAL_ERROR "docs/schemes.md does not have this table; put it there:\n${table}")
endif()

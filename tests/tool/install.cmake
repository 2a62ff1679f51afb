# SPDX-License-Identifier: Apache-2.0
# The program is installed as bin/spolia, and runs there.

file(REMOVE_RECURSE "${STAGE}")
foreach(command IN ITEMS "${CMAKE_COMMAND};--install;${TOOL};--prefix;${STAGE}"
                         "${STAGE}/bin/spolia;--version")
  execute_process(COMMAND ${command} RESULT_VARIABLE code OUTPUT_VARIABLE said
                  ERROR_VARIABLE complaint)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${command}: ${code}: ${said}${complaint}")
  endif()
endforeach()

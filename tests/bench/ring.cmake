# SPDX-License-Identifier: Apache-2.0
# The paper's rings go round in every structure: no thread that only waits is a part of them.

foreach(structure IN ITEMS abtree avl external_bst list)
  foreach(seconds IN ITEMS 0.3 1 10)
    execute_process(COMMAND "${BENCH}" sets --structure ${structure} --keys 64
                            --seconds ${seconds} --scheme token_naive --release batch --threads 1
                            --json -
                    RESULT_VARIABLE code ERROR_VARIABLE complaint OUTPUT_VARIABLE record)
    if(NOT code EQUAL 0)
      message(FATAL_ERROR "exit code ${code}: ${complaint}")
    endif()
    string(JSON epochs GET "${record}" epochs)
    string(JSON freed GET "${record}" freed)
    if(NOT epochs LESS 10 AND NOT freed LESS 10)
      break()
    endif()
  endforeach()
  if(epochs LESS 10 OR freed LESS 10)
    message(FATAL_ERROR "${structure}: ${epochs} epochs and ${freed} blocks freed")
  endif()
endforeach()

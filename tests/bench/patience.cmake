# SPDX-License-Identifier: Apache-2.0
# How long a trial is that is to get somewhere, in seconds: the next where the machine was so busy
# that it got nowhere. One that never does fails after the last.
set(patience 0.1 1 10)

# Whether each record tells of a transaction.
function(each_works result lines)
  set(${result} TRUE PARENT_SCOPE)
  foreach(line IN LISTS lines)
    string(JSON transactions GET "${line}" transactions)
    if(transactions EQUAL 0)
      set(${result} FALSE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

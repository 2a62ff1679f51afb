# SPDX-License-Identifier: Apache-2.0
# The names of a record's fields are a contract, which docs/bench.md explains.
file(READ "${DOCS}/bench.md" contract)

# Sets each of the fields named after `record` to what it has there; all have to be there, and
# explained.
function(take_fields record)
  foreach(field IN LISTS ARGN)
    string(JSON value ERROR_VARIABLE missing GET "${record}" ${field})
    if(missing)
      message(FATAL_ERROR "a record has no ${field}: ${missing}")
    endif()
    if(NOT contract MATCHES "`${field}`")
      message(FATAL_ERROR "docs/bench.md does not explain ${field}")
    endif()
    set(${field} "${value}" PARENT_SCOPE)
  endforeach()
endfunction()

# SPDX-License-Identifier: Apache-2.0
# The headers that are installed: the umbrellas, which lie at the top of include/spolia, and what they
# reach; `./dev lint` complains of a header that no umbrella reaches. Those outside detail/ must each
# compile alone. The headers of the model checker belong to the model build variant.

# `headers`, below include/, and all headers of the library that they include, directly or not.
function(spolia_reached result headers)
  set(reached "")
  set(waiting ${headers})
  while(waiting)
    list(POP_FRONT waiting header)
    list(APPEND reached "include/${header}")
    file(STRINGS "include/${header}" lines REGEX "^#include <spolia/[^>]+>")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include <([^>]+)>.*" "\\1" included "${line}")
      if(NOT "include/${included}" IN_LIST reached AND NOT included IN_LIST waiting
         AND NOT included MATCHES "^spolia/model/")
        list(APPEND waiting "${included}")
      endif()
    endforeach()
  endwhile()
  list(SORT reached)
  set(${result} ${reached} PARENT_SCOPE)
endfunction()

file(GLOB umbrellas RELATIVE "${PROJECT_SOURCE_DIR}/include" CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/include/spolia/*.hpp")
if(NOT SPOLIA_STORE)
  list(REMOVE_ITEM umbrellas spolia/db.hpp)
endif()
spolia_reached(SPOLIA_HEADERS "${umbrellas}")

file(GLOB SPOLIA_MODEL_HEADERS CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
     include/spolia/model/*.hpp)

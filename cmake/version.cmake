# SPDX-License-Identifier: Apache-2.0
# The version stands in include/spolia/version.hpp and nowhere else.

function(spolia_read_version result)
  set(header "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include/spolia/version.hpp")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  set(parts "")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${header}" line REGEX "^#define SPOLIA_VERSION_${part} [0-9]+$")
    if(NOT line MATCHES "([0-9]+)$")
      message(FATAL_ERROR "no SPOLIA_VERSION_${part} in ${header}")
    endif()
    list(APPEND parts ${CMAKE_MATCH_1})
  endforeach()
  list(JOIN parts "." version)
  set(${result} ${version} PARENT_SCOPE)
endfunction()

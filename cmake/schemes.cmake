# SPDX-License-Identifier: Apache-2.0
# SPOLIA_SCHEMES        the names of all schemes, from the list in reclaim/schemes.hpp
# SPOLIA_EXTRA_SCHEMES  headers of a user's own: each declares, in the global namespace, a scheme that
#                       has the name of the file; the benchmark and the contract tests take them, too

set(SPOLIA_EXTRA_SCHEMES "" CACHE STRING
    "Headers of schemes of your own, each of which declares ::NAME in NAME.hpp")

file(READ include/spolia/reclaim/schemes.hpp text)
if(NOT text MATCHES "List<([a-z0-9_,\n ]+)>;")
  message(FATAL_ERROR "include/spolia/reclaim/schemes.hpp has no List<...>")
endif()
string(REGEX MATCHALL "[a-z0-9_]+" SPOLIA_SCHEMES "${CMAKE_MATCH_1}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/spolia/reclaim/schemes.hpp)

set(SPOLIA_EXTRA_SCHEME_NAMES "")
set(includes "")
foreach(header IN LISTS SPOLIA_EXTRA_SCHEMES)
  cmake_path(ABSOLUTE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" NORMALIZE)
  cmake_path(GET header STEM name)
  if(NOT EXISTS "${header}" OR NOT name MATCHES "^[A-Za-z_][A-Za-z0-9_]*$"
     OR name IN_LIST SPOLIA_SCHEMES)
    message(FATAL_ERROR "SPOLIA_EXTRA_SCHEMES: '${header}' is to be a header that exists, and that "
                        "has the name of the scheme which it declares, unlike any of Spolia's own")
  endif()
  list(APPEND SPOLIA_EXTRA_SCHEME_NAMES "${name}")
  string(APPEND includes "#include \"${header}\"\n")
endforeach()

# What tests and the benchmark are compiled with: one header for all, and the names.
add_library(spolia_extra_schemes INTERFACE)
if(SPOLIA_EXTRA_SCHEMES)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/extra_schemes.hpp"
       CONTENT "#pragma once\n${includes}" @ONLY)
  list(TRANSFORM SPOLIA_EXTRA_SCHEME_NAMES PREPEND "::" OUTPUT_VARIABLE types)
  list(JOIN types ", " types)
  target_compile_definitions(
    spolia_extra_schemes INTERFACE
    "SPOLIA_EXTRA_SCHEMES_HEADER=\"${PROJECT_BINARY_DIR}/extra_schemes.hpp\""
    "SPOLIA_EXTRA_SCHEMES_NAMES=${types}")
endif()

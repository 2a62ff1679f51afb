# SPDX-License-Identifier: Apache-2.0
# Which of the programs that go with the library are built: SPOLIA_BUILD_TESTS, _BENCH, _TOOL,
# _EXAMPLES and _DEMO. ON asks for one, and what it needs must be there. AUTO, the default of a
# build of this project alone, builds it if that is there, and else says in one line what is not.

set(default_parts OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(default_parts AUTO)
endif()
set(SPOLIA_BUILD_TESTS ${default_parts} CACHE STRING "Build the tests: ON, OFF, AUTO")
set(SPOLIA_BUILD_BENCH ${default_parts} CACHE STRING "Build spolia-bench: ON, OFF, AUTO")
set(SPOLIA_BUILD_TOOL ${default_parts} CACHE STRING
    "Build the command-line tool of the store: ON, OFF, AUTO")
set(SPOLIA_BUILD_EXAMPLES ${default_parts} CACHE STRING "Build the examples: ON, OFF, AUTO")
option(SPOLIA_BUILD_DEMO "Build the demonstration of ./dev demo" OFF)

# What a part needs besides the library. What it finds it asks for again where it is used.
set(needs_of_TESTS GTest)
if(CMAKE_CROSSCOMPILING)
  set(needs_of_TESTS "")  # they bring theirs
endif()
set(needs_of_BENCH CLI11 fmt nlohmann_json)
set(needs_of_TOOL CLI11 fmt nlohmann_json tomlplusplus)
set(needs_of_EXAMPLES "")

function(spolia_decide part)
  if(NOT SPOLIA_BUILD_${part} STREQUAL "AUTO")
    return()
  endif()
  set(missing "")
  if(NOT part STREQUAL "TESTS" AND NOT SPOLIA_STORE)
    list(APPEND missing "the store (SPOLIA_STORE)")
  endif()
  if(part MATCHES "^(TESTS|BENCH)$" AND CMAKE_VERSION VERSION_LESS 3.25)
    list(APPEND missing "CMake 3.25")
  endif()
  if(NOT missing)
    foreach(package IN LISTS needs_of_${part})
      find_package(${package} QUIET)
      if(NOT ${package}_FOUND)
        list(APPEND missing ${package})
      endif()
    endforeach()
  endif()
  set(decided ON)
  if(missing)
    set(decided OFF)
    string(TOLOWER ${part} name)
    list(JOIN missing ", " missing)
    message(STATUS "Spolia is built without its ${name}, for want of ${missing}")
  endif()
  set(SPOLIA_BUILD_${part} ${decided} PARENT_SCOPE)
endfunction()

foreach(part IN ITEMS TESTS BENCH TOOL EXAMPLES)
  spolia_decide(${part})
  if(NOT part STREQUAL "TESTS" AND SPOLIA_BUILD_${part} AND NOT SPOLIA_STORE)
    message(FATAL_ERROR "SPOLIA_STORE is OFF: the bench, the tool, the examples and the demo "
                        "need it; set SPOLIA_BUILD_BENCH, _TOOL, _EXAMPLES and _DEMO to OFF as well")
  endif()
endforeach()
if(SPOLIA_BUILD_DEMO AND NOT SPOLIA_STORE)
  message(FATAL_ERROR "SPOLIA_STORE is OFF: the demo needs it; set SPOLIA_BUILD_DEMO to OFF as well")
endif()

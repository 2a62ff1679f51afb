# SPDX-License-Identifier: Apache-2.0
# The smallest example of each umbrella header, as a test: the lines of its first comment that are
# indented as code. And the snippets of the guides: one unit reads the headers for both.

set(manuals_text "// Made by tests/users/manuals.cmake.\n#include <gtest/gtest.h>\n")
set(faces reclaim memory snapshot rlu map)
if(SPOLIA_STORE)
  list(APPEND faces db)
endif()
foreach(face IN LISTS faces)
  set(header "${PROJECT_SOURCE_DIR}/include/spolia/${face}.hpp")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  file(READ "${header}" text)
  string(REGEX MATCH "\n// The smallest example\n((//     [^\n]*\n)+)" found "${text}")
  if(NOT found)
    message(FATAL_ERROR "${header} has no 'The smallest example'")
  endif()
  string(REGEX REPLACE "(^|\n)//     " "\\1  " body "${CMAKE_MATCH_1}")
  string(APPEND manuals_text "#include <spolia/${face}.hpp>\n")
  string(APPEND manuals_bodies "TEST(manuals, ${face}) {\n${body}}\n\n")
endforeach()
if(SPOLIA_STORE)
  include("${CMAKE_CURRENT_LIST_DIR}/guides.cmake")
  string(APPEND manuals_text "${guides_includes}\n")
  string(APPEND manuals_bodies "${guides_tests}")
endif()
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/manuals_test.cpp"
     CONTENT "@manuals_text@\n@manuals_bodies@" @ONLY)
# Each day in one stage: what these programs do is tested elsewhere, so `./dev test --quick` leaves
# them out. ./dev test --all runs them under the sanitizers, too.
if(NOT (SPOLIA_EVERY_DAY AND SPOLIA_SANITIZE) AND NOT SPOLIA_ONE_TYPE)
  spolia_add_test(NAME users_manuals ALONE SOURCES "${CMAKE_CURRENT_BINARY_DIR}/manuals_test.cpp")
  # An example and a snippet do not look at all that they have.
  target_compile_options(test-users_manuals PRIVATE -Wno-unused-variable -Wno-unused-but-set-variable)
endif()

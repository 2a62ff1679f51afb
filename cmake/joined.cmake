# SPDX-License-Identifier: Apache-2.0
# With SPOLIA_JOIN_TESTS, what spolia_add_test names is compiled several sources to a unit, and a
# folder has one program for each kind of test: half of what a unit costs is reading and
# instantiating what the others do, too. ctest has the same tests as without; each is a process of
# its own, in which SPOLIA_TEST tells the program what to run (tests/support/joined.hpp).
#
# A unit first includes what its sources include, and then each source within a namespace of its own,
# so that no names of theirs clash. What a source has in `namespace spolia` is then in another one of
# that name, which sees all of the library's.

if(SPOLIA_JOIN_TESTS)
  add_library(test_joined OBJECT "${PROJECT_SOURCE_DIR}/tests/support/joined.cpp")
  target_compile_features(test_joined PRIVATE cxx_std_20)
  target_include_directories(test_joined PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(test_joined PRIVATE GTest::gtest)
  set_target_properties(test_joined PROPERTIES CXX_EXTENSIONS OFF)
endif()

# How many sources make a unit; a folder whose sources are large sets fewer.
set(SPOLIA_SOURCES_A_UNIT 16)

# `test`, which has these sources, is one of the program `target`: written at the folder's end.
function(spolia_join target test sources)
  if(NOT TARGET ${target})
    cmake_language(EVAL CODE
      "cmake_language(DEFER CALL spolia_write_joined ${target} \${SPOLIA_SOURCES_A_UNIT})")
    add_executable(${target})
    target_link_libraries(${target} PRIVATE test_joined)
  endif()
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source)
    set_property(TARGET ${target} APPEND PROPERTY SPOLIA_JOINED "${test}|${source}")
  endforeach()
endfunction()

function(spolia_write_joined target sources_a_unit)
  get_target_property(joined ${target} SPOLIA_JOINED)
  set(number 0)
  while(joined)
    list(SUBLIST joined 0 ${sources_a_unit} chosen)
    list(REMOVE_ITEM joined ${chosen})
    spolia_unit_text(text ${number} ${chosen})
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/joined/${target}_${number}.cpp")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "${text}" @ONLY)
    target_sources(${target} PRIVATE "${unit}")
    math(EXPR number "${number} + 1")
  endwhile()
endfunction()

# `unit` is which one of its program it is: namespaces differ between units, too, or the linker
# would take two things of one name for one.
function(spolia_unit_text result unit)
  set(text "")
  foreach(entry IN LISTS ARGN)
    string(REGEX REPLACE "^.*[|]" "" source "${entry}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    file(STRINGS "${source}" lines REGEX "^#include [<\"][^>\"]+[>\"]")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include ([<\"][^>\"]+[>\"]).*" "\\1" header "${line}")
      cmake_path(GET source PARENT_PATH folder)
      string(REGEX REPLACE "^\"(.*)\"$" "${folder}/\\1" beside "${header}")
      if(EXISTS "${beside}")
        set(header "\"${beside}\"")
      endif()
      # One that another system has may stand in a source, under a condition.
      string(APPEND text "#if __has_include(${header})\n#include ${header}\n#endif\n")
    endforeach()
  endforeach()
  string(APPEND text "#include \"support/joined.hpp\"\n")
  set(number 0)
  foreach(entry IN LISTS ARGN)
    string(REGEX MATCH "^(.*)[|](.*)$" entry "${entry}")
    set(test "${CMAKE_MATCH_1}")
    set(source "${CMAKE_MATCH_2}")
    string(APPEND text "namespace unit_${unit}_${number} {\n"
           "namespace {\nconst ::spolia::test::begins begin_${number}{\"${test}\","
           "\n    \"${source}\"};\n}\n")
    file(STRINGS "${source}" within REGEX "^namespace spolia")
    if(within)
      string(APPEND text "namespace spolia {\nusing namespace ::spolia;\n"
                         "namespace test {\nusing namespace ::spolia::test;\n}\n}\n")
    endif()
    string(APPEND text "#include \"${source}\"\n}\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# SPDX-License-Identifier: Apache-2.0
# spolia_add_test(NAME name SOURCES file... [LABELS quick|long] [STRESS | ONE_THREAD | NATIVE]
#                 [RACES cases] [MUCH_WORK] [EMULATED] [ALONE] [SHARDS n] [LINK library...])
#
# One GoogleTest program, and one test of ctest: a process for each case would spend more time on
# starting, and under a sanitizer on ending, than on testing. SHARDS: as n tests, name.1 to name.n,
# each with its share of the cases, for a program that would be the last to end.
# quick (the default) means that the whole program takes seconds; `./dev test` runs quick tests in
# every stage and long ones where they find most. A program with a main of its own keeps it. What
# hangs is ended by the presets' limit, which no machine that is only slow should come near.
#
# STRESS: threads race in it, and the more the compiler reorders the more it may find: in a release
# build it is optimised as users' programs are, and the others not, which halves their building; or
# a little where they run long, in the model checker and on an emulated processor.
# ONE_THREAD: one thread calls the library in it, and the thread sanitizer does not get it. Threads of
# the library's own, such as those that open a database, race in other tests.
# RACES: of a program of many cases, those in which threads race, as a filter of GoogleTest's: the
# thread sanitizer of each day gets no others.
# NATIVE: about what the processor, the scheduler, the loader or the compiler's flags do. A sanitizer
# sees nothing there that it does not see elsewhere, and of each day's tests it does not get this;
# nor does `./dev test --quick` (SPOLIA_NATIVE_TESTS).
# MUCH_WORK: millions of rows, or of blocks that wait, to see what becomes of memory or time. Where
# nothing is optimised that takes minutes, and a sanitizer changes both: `./dev test --quick` leaves
# it out, and so does each day's stage with a sanitizer (SPOLIA_MUCH_WORK_TESTS).
# The others, where they are about what stands in headers, are for clang each day, which takes half
# of g++'s time to compile them (SPOLIA_PLAIN_TESTS).
#
# ALONE: stays a program of its own where others are joined (joined.cmake), as it is compiled in a
# way of its own or replaces what the others use.
#
# EMULATED: also worth running on an emulated processor. In a cross-compiled tree these have the
# label `emulated` instead, and are what is built there by the target spolia-emulated-tests.

include("${CMAKE_CURRENT_LIST_DIR}/joined.cmake")

# What every test includes takes a second to read; these read it once for all of them: one for those
# that are optimised in a release build, one for the others. Joined tests about maps have the library's
# headers as well: each of their units includes most of them before its sources (joined.cmake). Only
# of clang: g++ takes as long for this one as the others then save.
foreach(target IN ITEMS test_headers test_headers_optimised test_headers_maps
        test_headers_maps_optimised)
  add_library(${target} OBJECT EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/testing.cpp")
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${target} PRIVATE GTest::gtest Threads::Threads)
  target_precompile_headers(${target} PRIVATE
                            <gtest/gtest.h> <algorithm> <atomic> <functional> <map> <random>
                            <string> <thread> <vector>)
  if(target MATCHES "maps")
    target_link_libraries(${target} PRIVATE spolia::headers)
    target_precompile_headers(${target} PRIVATE
                              <spolia/map.hpp> <spolia/reclaim.hpp> <spolia/snapshot.hpp>)
  endif()
endforeach()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(test_headers PRIVATE -O0)
  target_compile_options(test_headers_maps PRIVATE -O0)
endif()

if(SPOLIA_SANITIZE MATCHES "thread")
  add_library(test_forks OBJECT "${PROJECT_SOURCE_DIR}/tests/support/room_for_forks.cpp")
  target_compile_features(test_forks PRIVATE cxx_std_20)
  set_target_properties(test_forks PROPERTIES CXX_EXTENSIONS OFF)
endif()

add_custom_target(spolia-quick-tests COMMENT "")
add_custom_target(spolia-emulated-tests COMMENT "")

function(spolia_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "ALONE;EMULATED;MUCH_WORK;NATIVE;ONE_THREAD;STRESS"
                        "NAME;RACES;SHARDS"
                        "SOURCES;LABELS;LINK")
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "spolia_add_test: NAME and SOURCES are needed; "
                        "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS quick)
  endif()
  if(NOT arg_LABELS MATCHES "^(quick|long)$")
    message(FATAL_ERROR "spolia_add_test(${arg_NAME}): LABELS is quick or long")
  endif()
  if(arg_EMULATED AND CMAKE_CROSSCOMPILING)
    set(arg_LABELS emulated)
  endif()
  if(arg_ONE_THREAD AND SPOLIA_SANITIZE MATCHES "thread")
    return()
  endif()
  if((arg_NATIVE AND NOT SPOLIA_NATIVE_TESTS) OR (arg_STRESS AND NOT SPOLIA_STRESS_TESTS) OR
     (arg_MUCH_WORK AND NOT SPOLIA_MUCH_WORK_TESTS))
    return()
  endif()
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  if(NOT SPOLIA_PLAIN_TESTS AND folder IN_LIST SPOLIA_FOLDERS_OF_HEADERS AND
     NOT (arg_STRESS OR arg_NATIVE))
    return()
  endif()
  set(kind ${arg_LABELS})
  if(arg_STRESS AND CMAKE_BUILD_TYPE STREQUAL "Release")
    string(APPEND kind -stress)
  endif()
  if("test_faults" IN_LIST arg_LINK)
    if(NOT TARGET test_faults)
      return()  # this compiler's sanitizer lets no program replace operator new: see tests/support
    endif()
    string(APPEND kind -faults)
  endif()
  if(SPOLIA_JOIN_TESTS AND NOT arg_ALONE)
    set(target tests-${folder}-${kind})
    if(NOT TARGET ${target})
      set(made_here TRUE)
    endif()
    if(folder STREQUAL "map" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      set(headers _maps)
    endif()
    spolia_join(${target} ${arg_NAME} "${arg_SOURCES}")
  else()
    set(target test-${arg_NAME})
    set(made_here TRUE)
    add_executable(${target} ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
  endif()
  target_link_libraries(${target} PRIVATE ${arg_LINK})
  if(made_here)
    spolia_set_up_test(${target} ${arg_LABELS} "${arg_STRESS}" "${headers}")
  endif()
  if(NOT (SPOLIA_EVERY_DAY AND SPOLIA_SANITIZE MATCHES "thread"))
    set(arg_RACES "")
  endif()
  spolia_run_gtest(${arg_NAME} ${target} ${arg_LABELS} "${arg_SHARDS}" "${arg_RACES}")
endfunction()

# How a program of tests is compiled, and what it is linked with. `read`: empty, or _maps.
function(spolia_set_up_test target label stress read)
  set(library spolia::spolia)
  set(runs_long ${CMAKE_CROSSCOMPILING})
  if(SPOLIA_MODEL)
    set(library spolia::model)
    set(runs_long TRUE)
  endif()
  # Insides of the library are looked at, too: "db/versions/delta.hpp".
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests"
                                               "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE ${library} spolia_extra_schemes GTest::gtest)
  if(TARGET test_forks)
    target_link_libraries(${target} PRIVATE test_forks)
  endif()
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  if(SPOLIA_SANITIZE MATCHES "address" AND SPOLIA_EVERY_DAY)
    # A call for each access that is checked, not the check itself: the same reports, of a fifth less
    # code to make. What is not optimised runs as fast. The library is, and has the checks inline.
    target_compile_options(${target} PRIVATE
                           "SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
  endif()
  set(headers test_headers${read}_optimised)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    set(headers test_headers${read})
  elseif(runs_long AND NOT stress)
    # At -O1 g++ 12 does not see that an optional which is read has been looked at before.
    target_compile_options(${target} PRIVATE
                           -O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    if(NOT SPOLIA_EVERY_DAY)
      set(headers "")  # they are of -O2
    endif()
  elseif(NOT stress)
    set(headers test_headers${read})
    target_compile_options(${target} PRIVATE -O0)
  endif()
  if(headers)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
  if(NOT label STREQUAL "long")
    add_dependencies(spolia-${label}-tests ${target})
  endif()
endfunction()

# The tests of ctest for a GoogleTest program: of its cases those that fit a filter, if one more
# argument gives it. What each case did stands in results/ afterwards.
function(spolia_run_gtest name target label shards)
  if(NOT shards)
    set(shards 1)
  endif()
  set(always "")
  if(CMAKE_CROSSCOMPILING)
    # A lock of glib's own allocator, which qemu uses, stays locked in the child of a fork.
    set(always "G_SLICE=always-malloc;")
  endif()
  string(APPEND always "SPOLIA_TEST=${name};")
  if(ARGN)
    string(APPEND always "GTEST_FILTER=${ARGN};")
  endif()
  foreach(shard RANGE 1 ${shards})
    set(test ${name})
    set(environment "${always}")
    if(shards GREATER 1)
      set(test ${name}.${shard})
      math(EXPR index "${shard} - 1")
      string(APPEND environment "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index};")
    endif()
    add_test(NAME ${test} COMMAND ${target})
    # The longest begin first.
    set_tests_properties(
      ${test} PROPERTIES LABELS ${label} COST ${shards}
      ENVIRONMENT "${environment}GTEST_OUTPUT=json:${PROJECT_BINARY_DIR}/results/${test}.json")
  endforeach()
endfunction()

# What must not compile: refused/*.cpp beside the caller, as tests PREFIX/name. Once for each
# compiler: neither the optimiser nor a sanitizer has a say in it. Not in `./dev test --quick`, which
# could not tell whether they have changed.
function(spolia_add_refused prefix)
  if(SPOLIA_SANITIZE MATCHES "thread" OR SPOLIA_ONE_TYPE
     OR (SPOLIA_EVERY_DAY AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
     OR (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_BUILD_TYPE STREQUAL "Release"))
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS refused/*.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    add_test(NAME ${prefix}/${name}
             COMMAND "${CMAKE_COMMAND}" "-DCXX=${CMAKE_CXX_COMPILER}"
                     "-DINCLUDE=${PROJECT_SOURCE_DIR}/include" "-DSOURCE=${source}"
                     "-DHEADERS=${PROJECT_BINARY_DIR}/refused/headers.hpp"
                     -P "${PROJECT_SOURCE_DIR}/cmake/refuse.cmake")
    set_tests_properties(${prefix}/${name} PROPERTIES LABELS quick
                                                      FIXTURES_REQUIRED refused_headers)
    set_property(GLOBAL APPEND PROPERTY SPOLIA_REFUSED "${source}")
  endforeach()
endfunction()

# The test that all of these compile as they are: in one unit, each in a namespace of its own. It goes
# before them, and leaves what they include as a precompiled header.
function(spolia_add_right_forms)
  get_property(sources GLOBAL PROPERTY SPOLIA_REFUSED)
  if(NOT sources)
    return()
  endif()
  set(headers "")
  set(forms "")
  set(number 0)
  foreach(source IN LISTS sources)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    file(STRINGS "${source}" lines REGEX "^#include <")
    list(APPEND headers ${lines})
    string(APPEND forms "namespace form_${number} {\n#include \"${source}\"\n}\n")
    math(EXPR number "${number} + 1")
  endforeach()
  list(REMOVE_DUPLICATES headers)
  list(JOIN headers "\n" headers)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/refused/headers.hpp" CONTENT "${headers}\n" @ONLY)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/refused/forms.cpp" CONTENT "${forms}" @ONLY)
  add_test(NAME refused/right_forms_compile
           COMMAND "${CMAKE_COMMAND}" "-DCXX=${CMAKE_CXX_COMPILER}"
                   "-DINCLUDE=${PROJECT_SOURCE_DIR}/include"
                   "-DHEADERS=${PROJECT_BINARY_DIR}/refused/headers.hpp"
                   "-DFORMS=${PROJECT_BINARY_DIR}/refused/forms.cpp"
                   -P "${PROJECT_SOURCE_DIR}/cmake/right_forms.cmake")
  set_tests_properties(refused/right_forms_compile PROPERTIES LABELS quick
                                                              FIXTURES_SETUP refused_headers)
endfunction()

# SPDX-License-Identifier: Apache-2.0
# spolia::headers   the headers, C++20 and threads
# spolia::spolia    the library: the headers and what must exist once in a process
# spolia::model     in the model build variant, instead of spolia::spolia

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(spolia_headers INTERFACE)
add_library(spolia::headers ALIAS spolia_headers)
set_target_properties(spolia_headers PROPERTIES EXPORT_NAME headers)
target_compile_features(spolia_headers INTERFACE cxx_std_20)
target_link_libraries(spolia_headers INTERFACE Threads::Threads)
target_include_directories(spolia_headers INTERFACE
                           "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                           "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

# Each of `headers` compiles alone, in what `target` gives its users: `./dev test --stage alone`. Not
# by a file set of the target's own: an exported one asks for CMake 3.23 where it is used.
function(spolia_headers_compile_alone target headers)
  if(NOT PROJECT_IS_TOP_LEVEL OR CMAKE_VERSION VERSION_LESS 3.24)
    return()
  endif()
  add_library(${target}_alone INTERFACE)
  target_link_libraries(${target}_alone INTERFACE ${target})
  target_sources(${target}_alone INTERFACE FILE_SET HEADERS BASE_DIRS include FILES ${headers})
  set_target_properties(${target}_alone PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# So Debug and Release lie beside each other in one prefix, and a program gets its own.
function(spolia_name_debug_library target)
  if(NOT DEFINED CMAKE_DEBUG_POSTFIX)
    set_target_properties(${target} PROPERTIES DEBUG_POSTFIX -debug)
  endif()
endfunction()

# A library that is compiled with a sanitizer, or for valgrind, lies beside the others, too:
# SPOLIA_VARIANT is its name's end. As a component of find_package() it is thread_sanitizer,
# address_undefined_sanitizer, ..., or valgrind.
set(SPOLIA_VARIANT "")
if(SPOLIA_VALGRIND)
  set(SPOLIA_VARIANT "-valgrind")
elseif(SPOLIA_SANITIZE)
  string(REPLACE "," "-" SPOLIA_VARIANT "-${SPOLIA_SANITIZE}-sanitizer")
endif()

# The model checker, and with it the build variant of the headers that programs for it are compiled
# in.
function(spolia_add_model_library)
  # misuse.cpp also gives out the serial numbers of domains.
  add_library(spolia_model STATIC ${SPOLIA_MODEL_SOURCES} src/base/misuse.cpp)
  add_library(spolia::model ALIAS spolia_model)
  target_compile_definitions(spolia_model PUBLIC SPOLIA_MODEL=1)
  target_link_libraries(spolia_model PUBLIC spolia_headers)
  set_target_properties(spolia_model PROPERTIES
                        EXPORT_NAME model
                        CXX_EXTENSIONS OFF
                        UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  spolia_name_debug_library(spolia_model)
endfunction()

if(SPOLIA_MODEL)
  # In this build variant a header is only meant to be seen with SPOLIA_MODEL.
  spolia_add_model_library()
  spolia_headers_compile_alone(spolia_model "${SPOLIA_MODEL_HEADERS}")
  return()
endif()
set(headers_for_users ${SPOLIA_HEADERS})
list(FILTER headers_for_users EXCLUDE REGEX "/detail/")
spolia_headers_compile_alone(spolia_headers "${headers_for_users}")

# One that is for this project's own tests alone is of one build variant, as they are; and reading
# the store's headers again for each source takes longer than compiling it.
set(SPOLIA_FOR_TESTS_ONLY OFF)
if(SPOLIA_STORE AND PROJECT_IS_TOP_LEVEL AND (NOT SPOLIA_INSTALL OR SPOLIA_EVERY_DAY))
  set(SPOLIA_FOR_TESTS_ONLY ON)
  list(REMOVE_ITEM SPOLIA_SOURCES src/db/other_flavour.cpp)
endif()

add_library(spolia ${SPOLIA_SOURCES})
add_library(spolia::spolia ALIAS spolia)
target_link_libraries(spolia PUBLIC spolia_headers)
target_include_directories(spolia PRIVATE src)
if(SPOLIA_VALGRIND)
  target_compile_definitions(spolia PUBLIC SPOLIA_VALGRIND=1)
endif()
set_target_properties(spolia PROPERTIES
                      OUTPUT_NAME "spolia${SPOLIA_VARIANT}"
                      CXX_EXTENSIONS OFF
                      CXX_VISIBILITY_PRESET hidden
                      VISIBILITY_INLINES_HIDDEN ON
                      POSITION_INDEPENDENT_CODE ON
                      DEFINE_SYMBOL ""  # export.hpp asks for none: both kinds' objects are the same
                      VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      SPOLIA_STORE ${SPOLIA_STORE})  # for spolia-config.cmake
spolia_name_debug_library(spolia)
# Sources of the other build variant stand alone: what is read before them decides the variant.
set_source_files_properties(src/other_flavour.cpp src/db/other_flavour.cpp PROPERTIES
                            SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
if(SPOLIA_UNITY)
  # Half of what a unit costs is reading the same headers.
  set_target_properties(spolia PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
elseif(SPOLIA_FOR_TESTS_ONLY)
  target_precompile_headers(spolia PRIVATE "${PROJECT_SOURCE_DIR}/src/db/engine.hpp")
endif()
if(SPOLIA_SANITIZE AND SPOLIA_EVERY_DAY)
  # The tests of the store spend their time in here: it costs a minute and saves ten.
  target_compile_options(spolia PRIVATE -O1)
endif()
get_target_property(spolia_type spolia TYPE)
if(spolia_type STREQUAL "SHARED_LIBRARY")
  # Threads run the library's exit hooks when they end, which may be after a dlclose.
  target_link_options(spolia PRIVATE LINKER:-z,nodelete)
  if(NOT APPLE)
    set(map "${PROJECT_SOURCE_DIR}/cmake/exported.map")
    target_link_options(spolia PRIVATE "LINKER:--version-script=${map}")
    set_target_properties(spolia PROPERTIES LINK_DEPENDS "${map}")
  endif()
endif()
if(SPOLIA_INSTALL AND PROJECT_IS_TOP_LEVEL AND NOT SPOLIA_VARIANT)
  spolia_add_model_library()
endif()

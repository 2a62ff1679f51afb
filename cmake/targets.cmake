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
# Those that users include each compile alone.
set(headers_for_users ${SPOLIA_HEADERS})
list(FILTER headers_for_users EXCLUDE REGEX "/detail/")
set(details ${SPOLIA_HEADERS})
list(FILTER details INCLUDE REGEX "/detail/")
target_sources(spolia_headers INTERFACE
               FILE_SET HEADERS BASE_DIRS include FILES ${headers_for_users}
               FILE_SET details TYPE HEADERS BASE_DIRS include FILES ${details})
set_target_properties(spolia_headers PROPERTIES
                      VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL}
                      INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)

# The model checker, and with it the build variant of the headers that programs for it are compiled
# in.
function(spolia_add_model_library)
  # misuse.cpp also gives out the serial numbers of domains.
  add_library(spolia_model STATIC ${SPOLIA_MODEL_SOURCES} src/base/misuse.cpp)
  add_library(spolia::model ALIAS spolia_model)
  target_sources(spolia_model PUBLIC FILE_SET HEADERS BASE_DIRS include
                                     FILES ${SPOLIA_MODEL_HEADERS})
  target_compile_definitions(spolia_model PUBLIC SPOLIA_MODEL=1)
  target_link_libraries(spolia_model PUBLIC spolia_headers)
  set_target_properties(spolia_model PROPERTIES
                        EXPORT_NAME model
                        CXX_EXTENSIONS OFF
                        UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
endfunction()

if(SPOLIA_MODEL)
  spolia_add_model_library()
  set_target_properties(spolia_model PROPERTIES
                        VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL})
  # In this build variant a header is only meant to be seen with SPOLIA_MODEL, which spolia_headers
  # lacks.
  set_target_properties(spolia_headers PROPERTIES VERIFY_INTERFACE_HEADER_SETS OFF)
  return()
endif()

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
set_target_properties(spolia PROPERTIES
                      CXX_EXTENSIONS OFF
                      CXX_VISIBILITY_PRESET hidden
                      VISIBILITY_INLINES_HIDDEN ON
                      POSITION_INDEPENDENT_CODE ON
                      DEFINE_SYMBOL ""  # export.hpp asks for none: both kinds' objects are the same
                      VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
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
endif()
if(SPOLIA_INSTALL AND PROJECT_IS_TOP_LEVEL)
  spolia_add_model_library()
endif()

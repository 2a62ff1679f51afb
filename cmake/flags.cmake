# SPDX-License-Identifier: Apache-2.0
# Flags of this project's own code. They are set for this directory and below, never on a target's
# interface: a user of the library gets C++20, the include path and threads, and nothing else.

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(SPOLIA_CCACHE ccache)
  if(SPOLIA_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${SPOLIA_CCACHE}")
  endif()
  # -Wall has the last one from g++ 13 on.
  add_compile_options(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Woverloaded-virtual)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # g++ 12 sees overlapping copies inside std::string's operator+ (GCC bug 105651).
    add_compile_options(-Wno-restrict)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # It takes what lies after an object in one allocation for out of its bounds; the address
    # sanitizer knows better.
    add_compile_options(-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # It blames std::stable_sort's users for what libstdc++ 12 calls inside; g++ does the check.
    add_compile_options(-Wno-deprecated-declarations)
    string(REGEX MATCH "^[0-9]+" clang_major "${CMAKE_CXX_COMPILER_VERSION}")
    find_program(SPOLIA_LLD NAMES ld.lld-${clang_major} ld.lld)
    if(SPOLIA_LLD)
      add_link_options("--ld-path=${SPOLIA_LLD}")
    endif()
  endif()
endif()
if(SPOLIA_WERROR)
  add_compile_options(-Werror)
endif()

if(SPOLIA_CHECKS STREQUAL "ON")
  add_compile_definitions(SPOLIA_CHECKS=1)
elseif(SPOLIA_CHECKS STREQUAL "OFF")
  add_compile_definitions(SPOLIA_CHECKS=0)
elseif(NOT SPOLIA_CHECKS STREQUAL "AUTO")
  message(FATAL_ERROR "SPOLIA_CHECKS is ON, OFF or AUTO, not '${SPOLIA_CHECKS}'")
endif()

# ctest reads this file before the tests, so that they run the same way without ./dev.
set(test_environment "")
if(SPOLIA_SANITIZE)
  add_compile_options(-fsanitize=${SPOLIA_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SPOLIA_SANITIZE})
  if(SPOLIA_SANITIZE MATCHES "address" AND SPOLIA_EVERY_DAY)
    # To find out which checks of the stack it may leave out takes longer than to compile them.
    add_compile_options("SHELL:-mllvm -asan-use-stack-safety=0")
  endif()
  if(SPOLIA_SANITIZE MATCHES "undefined" AND SPOLIA_EVERY_DAY)
    # What is asked of each pointer and of each call makes a third of the time of compiling. The
    # address sanitizer sees a null pointer that is followed; asan-ubsan-all asks for all of it.
    add_compile_options(-fno-sanitize=null,alignment,object-size,vptr,function)
  endif()
  # The sanitizers' run time looks for a program without a version in its name; if it finds none,
  # its reports have addresses instead of lines.
  find_program(SPOLIA_SYMBOLIZER NAMES llvm-symbolizer-${clang_major} llvm-symbolizer)
  if(SPOLIA_SYMBOLIZER)
    set(symbolizer ":external_symbolizer_path=${SPOLIA_SYMBOLIZER}")
  endif()
  string(APPEND test_environment
         "set(ENV{ASAN_OPTIONS} detect_stack_use_after_return=1${symbolizer})\n"
         "set(ENV{UBSAN_OPTIONS} print_stacktrace=1${symbolizer})\n"
         "set(ENV{TSAN_OPTIONS} second_deadlock_stack=1:history_size=4${symbolizer})\n")
endif()
if(SPOLIA_COVERAGE)
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
  # %m merges the runs of one program into one file while they happen.
  string(APPEND test_environment
         "set(ENV{LLVM_PROFILE_FILE} \"${PROJECT_BINARY_DIR}/profiles/%m.profraw\")\n")
endif()
file(WRITE "${PROJECT_BINARY_DIR}/test-environment.cmake" "${test_environment}")
set_property(DIRECTORY APPEND PROPERTY
             TEST_INCLUDE_FILES "${PROJECT_BINARY_DIR}/test-environment.cmake")

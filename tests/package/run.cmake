# SPDX-License-Identifier: Apache-2.0
# One step of the package tests: cmake -DSTEP=... -DKIND=static|shared ... -P run.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(consumer "${SOURCE}/tests/package/consumer")
set(shared OFF)
set(installed ON)
if(KIND STREQUAL "shared")
  set(shared ON)
  set(installed OFF)
endif()
set(configure "${CMAKE_COMMAND}" -G Ninja "-DCMAKE_CXX_COMPILER=${CXX}"
              "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" -DBUILD_SHARED_LIBS=${shared})
set(level "")
if(LEVEL)
  set(level "-DCMAKE_CXX_FLAGS_RELEASE=${LEVEL} -DNDEBUG")
endif()
# What is built as a shared library goes on in the folder of the static one, see CMakeLists.txt.
if(NOT shared OR NOT STEP MATCHES "^(install|add_subdirectory)$")
  file(REMOVE_RECURSE "${WORK}")
endif()

# Builds the library alone, and installs it; then moves the stage, so that a path which was written
# down during the build is found out. A shared library names all libraries that it needs (-z defs).
function(step_install)
  run(${configure} -S "${SOURCE}" -B "${WORK}" "-DCMAKE_INSTALL_PREFIX=${WORK}/first"
      -DCMAKE_BUILD_TYPE=Release ${level} -DSPOLIA_WERROR=ON -DSPOLIA_BUILD_TESTS=OFF
      -DSPOLIA_BUILD_BENCH=OFF -DSPOLIA_BUILD_TOOL=OFF -DSPOLIA_BUILD_EXAMPLES=OFF
      -DSPOLIA_UNITY=${UNITY} -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,defs)
  run("${CMAKE_COMMAND}" --build "${WORK}")
  run("${CMAKE_COMMAND}" --install "${WORK}")
  file(REMOVE_RECURSE "${STAGE}")
  cmake_path(GET STAGE PARENT_PATH stages)
  file(MAKE_DIRECTORY "${stages}")
  file(RENAME "${WORK}/first" "${STAGE}")
  check_kind()
  check_interface()
endfunction()

function(check_kind)
  set(name libspolia.a)
  if(shared)
    set(name libspolia.so)
  endif()
  file(GLOB_RECURSE libraries RELATIVE "${STAGE}" "${STAGE}/*/libspolia.*")
  list(FILTER libraries EXCLUDE REGEX "[.]so[.]")
  if(NOT libraries MATCHES "/${name}$" OR libraries MATCHES ";")
    message(FATAL_ERROR "installed '${libraries}' where ${name} is wanted")
  endif()
  # A thread that ends after a dlclose still runs the library's exit hooks.
  if(shared)
    execute_process(COMMAND readelf -d "${STAGE}/${libraries}" OUTPUT_VARIABLE dynamic
                    COMMAND_ERROR_IS_FATAL ANY)
    if(NOT dynamic MATCHES "NODELETE")
      message(FATAL_ERROR "${libraries} can be unloaded")
    endif()
    check_exported("${STAGE}/${libraries}")
    check_binary("${STAGE}/${libraries}")
  endif()
endfunction()

# Distributions refuse folders of the machine that built it, code that is changed when it is loaded, and
# a stack that can be executed, which one source in assembler is enough for.
function(check_binary file)
  execute_process(COMMAND readelf -Wdl "${file}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  if(text MATCHES "(RPATH|RUNPATH|TEXTREL|GNU_STACK[^\n]*RWE)")
    message(FATAL_ERROR "${file} has ${CMAKE_MATCH_1}")
  endif()
endfunction()

# It shows names of its own, each of which has the version in which the next one may differ.
function(check_exported library)
  execute_process(COMMAND nm -DCP --defined-only "${library}" OUTPUT_VARIABLE text
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "," text "${text}")
  string(REGEX MATCHALL "[^\n]+" lines "${text}")
  list(LENGTH lines count)
  set(other ${lines})
  list(FILTER other EXCLUDE REGEX
       "^((typeinfo|typeinfo name|vtable) for )?spolia::(native|checked|core::v)_[0-9]+_[0-9]+::")
  if(other OR count LESS 100)
    list(JOIN other "\n" other)
    message(FATAL_ERROR "of ${count} names, these are not of a version of the library's:\n${other}")
  endif()
endfunction()

# Nothing but the language level, the include path and threads may reach a user's compiler.
function(check_interface)
  file(GLOB_RECURSE texts "${STAGE}/*.cmake" "${STAGE}/*.pc")
  if(NOT texts)
    message(FATAL_ERROR "no package files in ${STAGE}")
  endif()
  foreach(text IN LISTS texts)
    file(READ "${text}" content)
    foreach(leak "-march" "-mtune" "-mcx16" "-fsanitize" "-Wall" "${SOURCE}" "${WORK}")
      string(FIND "${content}" "${leak}" position)
      if(NOT position EQUAL -1)
        message(FATAL_ERROR "${text} contains ${leak}")
      endif()
    endforeach()
  endforeach()
endfunction()

function(step_find_package)
  run(${configure} -S "${consumer}" -B "${WORK}" "-DCMAKE_PREFIX_PATH=${STAGE}"
      -DCMAKE_BUILD_TYPE=Release ${level})
  run("${CMAKE_COMMAND}" --build "${WORK}")
  run("${WORK}/consumer")
  run("${WORK}/store")
  run("${WORK}/model")
  if(NOT shared)
    check_binary("${WORK}/model")
  endif()
endfunction()

# As users build while they work: not optimised, and so in the checked build variant; without the
# store, which the consumer has no use for; in a unity build of the user's own.
function(step_add_subdirectory)
  run(${configure} -S "${consumer}" -B "${WORK}" "-DSPOLIA_TREE=${SOURCE}" -DFETCHED=${shared}
      -DCMAKE_BUILD_TYPE=Debug -DSPOLIA_STORE=OFF -DSPOLIA_INSTALL=${installed}
      -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0)
  run("${CMAKE_COMMAND}" --build "${WORK}")
  run("${WORK}/consumer")
  file(REMOVE_RECURSE "${WORK}/installed")
  run("${CMAKE_COMMAND}" --install "${WORK}" --prefix "${WORK}/installed")
  if(shared)
    # Fetched, the library is none of what its user installs.
    file(GLOB_RECURSE installed RELATIVE "${WORK}/installed" "${WORK}/installed/*spolia*")
    if(installed)
      message(FATAL_ERROR "a user's build installs '${installed}'")
    endif()
    run_small("${WORK}/spolia" "${WORK}/middle-targets.cmake")
  else()
    file(GLOB_RECURSE packages "${WORK}/installed/*/spolia-config.cmake")
    cmake_path(GET packages PARENT_PATH package)
    run_small("${package}" "${WORK}/installed/lib/cmake/middle/middle-targets.cmake")
  endif()
endfunction()

# A program over the package `package`, and over a library that is exported over it, if there is one.
function(run_small package middle)
  file(REMOVE_RECURSE "${WORK}/small")
  run(${configure} -S "${SOURCE}/tests/package/small" -B "${WORK}/small" -DCMAKE_BUILD_TYPE=Debug
      "-Dspolia_DIR=${package}" "-DMIDDLE=${middle}" ${ARGN})
  run("${CMAKE_COMMAND}" --build "${WORK}/small")
  run("${WORK}/small/small")
endfunction()

# Both configurations in one prefix, and programs of each, and of a third.
function(step_multi_config)
  set(parts -DSPOLIA_STORE=OFF -DSPOLIA_UNITY=ON -DSPOLIA_BUILD_TESTS=OFF)
  run(${configure} -G "Ninja Multi-Config" -S "${SOURCE}" -B "${WORK}" ${parts})
  foreach(config Release Debug)
    run("${CMAKE_COMMAND}" --build "${WORK}" --config ${config})
    run("${CMAKE_COMMAND}" --install "${WORK}" --config ${config} --prefix "${WORK}/installed")
  endforeach()
  file(GLOB_RECURSE package "${WORK}/installed/*/spolia-config.cmake")
  cmake_path(GET package PARENT_PATH package)
  foreach(config Release Debug RelWithDebInfo)
    run_small("${package}" "" -DCMAKE_BUILD_TYPE=${config})
    file(READ "${WORK}/small/build.ninja" text)
    set(library libspolia.a)
    if(config STREQUAL "Debug")
      set(library libspolia-debug.a)
    endif()
    if(NOT text MATCHES "/${library}")
      message(FATAL_ERROR "${config} is not linked with ${library}")
    endif()
  endforeach()
  file(GLOB_RECURSE pc RELATIVE "${package}" "${WORK}/installed/*.pc")
  list(LENGTH pc files)
  if(NOT files EQUAL 2)
    message(FATAL_ERROR "one of Debug and Release has no file for pkg-config: '${pc}'")
  endif()
endfunction()

# Folders that are given as absolute paths, inside the prefix and beside it, and a distribution's: what
# pkg-config says of each, once with the root of another system. Nothing is built.
function(step_folders)
  set(cases
      "/opt/p|/opt/p/lib64|/opt/p/include||-I/opt/p/include -pthread -L/opt/p/lib64 -lspolia -pthread"
      "/opt/p|/out/lib|/dev/include||-I/dev/include -pthread -L/out/lib -lspolia -pthread"
      "/usr|lib/x|include|/root|-I/root/usr/include -pthread -L/root/usr/lib/x -lspolia -pthread")
  foreach(one IN LISTS cases)
    string(REPLACE "|" ";" one "${one}")
    list(POP_FRONT one prefix libdir includedir root wanted)
    run(${configure} -S "${SOURCE}" -B "${WORK}" "-DCMAKE_INSTALL_PREFIX=${prefix}"
        "-DCMAKE_INSTALL_LIBDIR=${libdir}" "-DCMAKE_INSTALL_INCLUDEDIR=${includedir}"
        -DCMAKE_BUILD_TYPE=Release -DSPOLIA_BUILD_TESTS=OFF -DSPOLIA_BUILD_BENCH=OFF
        -DSPOLIA_BUILD_TOOL=OFF -DSPOLIA_BUILD_EXAMPLES=OFF)
    # Where it will lie, as seen from its own folder.
    cmake_path(ABSOLUTE_PATH libdir BASE_DIRECTORY "${prefix}")
    set(there "${WORK}/stage${libdir}/pkgconfig")
    file(COPY "${WORK}/pkgconfig/Release/spolia.pc" DESTINATION "${there}")
    set(ENV{PKG_CONFIG_SYSROOT_DIR} "${root}")
    set(ENV{PKG_CONFIG_LIBDIR} "${there}")
    execute_process(COMMAND pkg-config --cflags --libs spolia OUTPUT_VARIABLE said
                    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX REPLACE "${WORK}/stage[^ ]*/pkgconfig/[./]+/" "${prefix}/" said "${said}")
    if(NOT said STREQUAL wanted)
      message(FATAL_ERROR "pkg-config says '${said}' where '${wanted}' is wanted")
    endif()
  endforeach()
endfunction()

# Two shared libraries of the same sources, one of which says that it is of the next minor version.
function(step_two_versions)
  file(READ "${SOURCE}/include/spolia/version.hpp" header)
  string(REGEX MATCH "define SPOLIA_VERSION_MINOR ([0-9]+)" minor "${header}")
  math(EXPR next "${CMAKE_MATCH_1} + 1")
  foreach(part first_version second_version)
    set(tree "${WORK}/${part}")
    file(COPY "${SOURCE}/include" "${SOURCE}/src" "${SOURCE}/cmake" "${SOURCE}/CMakeLists.txt"
              "${SOURCE}/LICENSE" "${SOURCE}/README.md" "${SOURCE}/CHANGELOG.md" "${SOURCE}/packaging"
         DESTINATION "${tree}")
    if(part STREQUAL "second_version")
      string(REPLACE "${minor}" "define SPOLIA_VERSION_MINOR ${next}" header "${header}")
      file(WRITE "${tree}/include/spolia/version.hpp" "${header}")
    endif()
    run(${configure} -S "${tree}" -B "${tree}/build" -DSPOLIA_STORE=OFF -DSPOLIA_UNITY=ON
        -DSPOLIA_BUILD_TESTS=OFF -DSPOLIA_BUILD_EXAMPLES=OFF "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG")
    run("${CMAKE_COMMAND}" --build "${tree}/build" --target spolia)
    run(${configure} -S "${SOURCE}/tests/package/versions" -B "${WORK}/part_${part}"
        -DPART=${part} "-DPACKAGE=${tree}/build" -DCMAKE_BUILD_TYPE=Release)
    run("${CMAKE_COMMAND}" --build "${WORK}/part_${part}")
  endforeach()
  run(${configure} -S "${SOURCE}/tests/package/versions" -B "${WORK}/program"
      "-DFIRST=${WORK}/part_first_version/libfirst_version.so"
      "-DSECOND=${WORK}/part_second_version/libsecond_version.so")
  run("${CMAKE_COMMAND}" --build "${WORK}/program")
  run("${WORK}/program/versions")
endfunction()

# The oldest CMake that builds and finds it. SPOLIA_OLD_CMAKE, of the environment, names it.
function(step_old_cmake)
  if(NOT EXISTS "$ENV{SPOLIA_OLD_CMAKE}")
    message("skipped: SPOLIA_OLD_CMAKE names no CMake 3.22")
    return()
  endif()
  set(CMAKE_COMMAND "$ENV{SPOLIA_OLD_CMAKE}")
  list(TRANSFORM configure REPLACE "^.*/cmake$" "${CMAKE_COMMAND}")
  set(parts -DSPOLIA_STORE=OFF -DSPOLIA_UNITY=ON)
  run(${configure} -S "${SOURCE}" -B "${WORK}" ${parts})
  run("${CMAKE_COMMAND}" --build "${WORK}")
  run("${CMAKE_COMMAND}" --install "${WORK}" --prefix "${WORK}/installed")
  file(GLOB_RECURSE package "${WORK}/installed/*/spolia-config.cmake")
  cmake_path(GET package PARENT_PATH package)
  run_small("${package}" "" -DCMAKE_BUILD_TYPE=Release)
endfunction()

function(step_pkg_config)
  file(GLOB_RECURSE pc "${STAGE}/*/spolia.pc")
  cmake_path(GET pc PARENT_PATH pc_dir)
  set(ENV{PKG_CONFIG_PATH} "${pc_dir}")
  execute_process(COMMAND pkg-config --cflags --libs spolia OUTPUT_VARIABLE flags
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  file(MAKE_DIRECTORY "${WORK}")
  run("${CXX}" -std=c++20 "${consumer}/main.cpp" "${consumer}/second.cpp" -o "${WORK}/consumer"
      ${flags})
  cmake_path(GET pc_dir PARENT_PATH lib_dir)
  set(ENV{LD_LIBRARY_PATH} "${lib_dir}")
  run("${WORK}/consumer")
endfunction()

cmake_language(CALL step_${STEP})

# SPDX-License-Identifier: Apache-2.0
# One step of the package tests: cmake -DSTEP=... -DKIND=static|shared ... -P run.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(consumer "${SOURCE}/tests/package/consumer")
set(shared OFF)
if(KIND STREQUAL "shared")
  set(shared ON)
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
# down during the build is found out.
function(step_install)
  run(${configure} -S "${SOURCE}" -B "${WORK}" "-DCMAKE_INSTALL_PREFIX=${WORK}/first"
      -DCMAKE_BUILD_TYPE=Release ${level} -DSPOLIA_WERROR=ON -DSPOLIA_BUILD_TESTS=OFF
      -DSPOLIA_BUILD_BENCH=OFF -DSPOLIA_BUILD_TOOL=OFF -DSPOLIA_BUILD_EXAMPLES=OFF
      -DSPOLIA_UNITY=${UNITY})
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
endfunction()

# As users build while they work: not optimised, and so in the checked build variant; and without
# the store, which the consumer has no use for.
function(step_add_subdirectory)
  run(${configure} -S "${consumer}" -B "${WORK}" "-DSPOLIA_TREE=${SOURCE}"
      -DCMAKE_BUILD_TYPE=Debug -DSPOLIA_STORE=OFF -DSPOLIA_UNITY=${UNITY})
  run("${CMAKE_COMMAND}" --build "${WORK}")
  run("${WORK}/consumer")
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

# SPDX-License-Identifier: Apache-2.0
# Sets of other libraries, to be measured beside ours. Each is built if its library is found;
# `spolia-bench list` says which were not. Adds to spolia-bench.

set(here "${CMAKE_CURRENT_LIST_DIR}")
target_sources(spolia-bench PRIVATE "${here}/counted_std.cpp" "${here}/rivals.cpp"
               "${here}/std_map.cpp")
set(standard_library "with ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")

find_package(PkgConfig QUIET)
set(liburcu "")
if(PkgConfig_FOUND)
  # The plain one is the variant memb.
  pkg_check_modules(LIBURCU QUIET IMPORTED_TARGET liburcu-qsbr liburcu liburcu-bp liburcu-cds)
endif()
if(LIBURCU_FOUND)
  set(liburcu "${LIBURCU_liburcu-cds_VERSION}")
  foreach(variant IN ITEMS qsbr memb bp)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/rivals/urcu_${variant}.cpp")
    configure_file("${here}/urcu.cpp.in" "${source}" @ONLY)
    target_sources(spolia-bench PRIVATE "${source}")
  endforeach()
  target_link_libraries(spolia-bench PRIVATE PkgConfig::LIBURCU)
endif()

# Not by its package file: Debian's names a folder that is not there, and asks for C++11.
set(libcds "")
find_path(SPOLIA_LIBCDS_INCLUDE cds/version.h)
find_library(SPOLIA_LIBCDS_LIBRARY cds)
if(SPOLIA_LIBCDS_INCLUDE AND SPOLIA_LIBCDS_LIBRARY)
  file(STRINGS "${SPOLIA_LIBCDS_INCLUDE}/cds/version.h" line REGEX "CDS_VERSION_STRING")
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" libcds "${line}")
  set(sources "${here}/cds_pointers.cpp" "${here}/cds_rcu.cpp")
  target_sources(spolia-bench PRIVATE ${sources})
  target_include_directories(spolia-bench SYSTEM PRIVATE "${SPOLIA_LIBCDS_INCLUDE}")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # The library was built so, and some of its types depend on it.
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -mcx16
                                                      SKIP_PRECOMPILE_HEADERS ON)
  endif()
  target_link_libraries(spolia-bench PRIVATE "${SPOLIA_LIBCDS_LIBRARY}")
endif()

set(onetbb "")
find_package(TBB QUIET)
if(TBB_FOUND)
  set(onetbb "${TBB_VERSION}")
  target_sources(spolia-bench PRIVATE "${here}/tbb.cpp" "${here}/tbb_snapshots.cpp")
  target_link_libraries(spolia-bench PRIVATE TBB::tbb)
endif()

find_path(SPOLIA_BOOST_INCLUDE boost/smart_ptr/atomic_shared_ptr.hpp)
if(SPOLIA_BOOST_INCLUDE)
  target_sources(spolia-bench PRIVATE "${here}/counted_boost.cpp")
  target_include_directories(spolia-bench SYSTEM PRIVATE "${SPOLIA_BOOST_INCLUDE}")
else()
  message(STATUS "spolia-bench: no Boost, so no boost-atomic to compare with")
endif()

# Engines for `spolia-bench ycsb`.
foreach(engine IN ITEMS rocksdb lmdb sqlite3)
  string(REGEX REPLACE "3$" "" name "${engine}")
  string(TOUPPER "${name}" upper)
  if(PkgConfig_FOUND)
    pkg_check_modules(${upper} QUIET IMPORTED_TARGET ${engine})
  endif()
  if(${upper}_FOUND)
    target_sources(spolia-bench PRIVATE "${here}/ycsb_${name}.cpp")
    target_link_libraries(spolia-bench PRIVATE PkgConfig::${upper})
  else()
    message(STATUS "spolia-bench: no ${engine}, so no engine of it to compare with")
  endif()
endforeach()

# The transactions of `spolia-bench rlu`: g++ has them, with a library of its own.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fgnu-tm)
check_cxx_source_compiles("int main(int n, char**) { __transaction_atomic { ++n; } return n; }"
                          SPOLIA_HAS_LIBITM)
unset(CMAKE_REQUIRED_FLAGS)
if(SPOLIA_HAS_LIBITM)
  target_sources(spolia-bench PRIVATE "${here}/stm.cpp")
  set_source_files_properties("${here}/stm.cpp" PROPERTIES COMPILE_OPTIONS -fgnu-tm
                                                           SKIP_PRECOMPILE_HEADERS ON)
  target_link_libraries(spolia-bench PRIVATE itm)
else()
  message(STATUS "spolia-bench: no libitm, so no transactional memory to compare with")
endif()

# The cache of `spolia-bench rlu`.
if(PkgConfig_FOUND)
  pkg_check_modules(KYOTOCABINET QUIET IMPORTED_TARGET kyotocabinet)
endif()
if(KYOTOCABINET_FOUND)
  target_sources(spolia-bench PRIVATE "${here}/cache_kyotocabinet.cpp")
  target_link_libraries(spolia-bench PRIVATE PkgConfig::KYOTOCABINET)
else()
  message(STATUS "spolia-bench: no Kyoto Cabinet, so no cache to compare with")
endif()

foreach(library IN ITEMS liburcu libcds onetbb)
  if(NOT ${library})
    message(STATUS "spolia-bench: no ${library}, so nothing of it to compare with")
  endif()
endforeach()
set_source_files_properties(
  "${here}/rivals.cpp" PROPERTIES COMPILE_DEFINITIONS
  "SPOLIA_STANDARD_LIBRARY=\"${standard_library}\";SPOLIA_LIBURCU=\"${liburcu}\";SPOLIA_LIBCDS=\"${libcds}\";SPOLIA_ONETBB=\"${onetbb}\"")

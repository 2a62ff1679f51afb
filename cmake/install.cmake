# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` installs, by components: spolia_runtime (a shared library), spolia_development,
# spolia_tool and spolia_documentation; and a package for find_package() in the build folder.
#
# A larger project that this is a part of has the rules, too, so that it can export targets that link
# Spolia's; but without SPOLIA_INSTALL they are none of what it installs.

if(SPOLIA_FOR_TESTS_ONLY)
  install(CODE "message(FATAL_ERROR \"This folder has the library for its own programs alone: \
`./dev install [PREFIX]` builds and installs one for all.\")")
  return()
endif()

include(CMakePackageConfigHelpers)

set(spolia_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/spolia")
set(if_asked "")
if(NOT SPOLIA_INSTALL)
  set(if_asked EXCLUDE_FROM_ALL)
endif()
set(development COMPONENT spolia_development ${if_asked})
set(documentation COMPONENT spolia_documentation ${if_asked})

set(headers ${SPOLIA_HEADERS})
install(TARGETS spolia spolia_headers EXPORT spolia-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT spolia_runtime ${if_asked}
                NAMELINK_COMPONENT spolia_development
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${development})
if(TARGET spolia_model)
  # In files of its own: a static library is in another package than the shared one in some
  # distributions, and may be missing.
  list(APPEND headers ${SPOLIA_MODEL_HEADERS})
  install(TARGETS spolia_model EXPORT spolia-model-targets
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${development})
  install(EXPORT spolia-model-targets FILE spolia-with-model.cmake NAMESPACE spolia::
          DESTINATION "${spolia_cmake_dir}" ${development})
  export(EXPORT spolia-model-targets NAMESPACE spolia::
         FILE "${CMAKE_CURRENT_BINARY_DIR}/spolia-with-model.cmake")
endif()
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  string(REGEX REPLACE "^include" "${CMAKE_INSTALL_INCLUDEDIR}" folder "${folder}")
  install(FILES "${header}" DESTINATION "${folder}" ${development})
endforeach()

# For a build folder, too, so that two projects can be worked on side by side.
set(targets "spolia${SPOLIA_VARIANT}-targets.cmake")
install(EXPORT spolia-targets FILE "${targets}" NAMESPACE spolia::
        DESTINATION "${spolia_cmake_dir}" ${development})
export(EXPORT spolia-targets NAMESPACE spolia:: FILE "${CMAKE_CURRENT_BINARY_DIR}/${targets}")
configure_file(cmake/model_program.cmake model_program.cmake COPYONLY)
configure_package_config_file(cmake/spolia-config.cmake.in spolia-config.cmake
                              INSTALL_DESTINATION "${spolia_cmake_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(spolia-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/spolia-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/spolia-config-version.cmake"
              cmake/model_program.cmake
        DESTINATION "${spolia_cmake_dir}" ${development})

# The prefix of the .pc file is found from where the file lies, so that a stage can be moved. Not that
# of a distribution's package: before /usr a pkg-config of any age puts the root of another system.
# Folders may have been given as absolute paths, and these may lie beside the prefix.
foreach(folder IN ITEMS LIBDIR INCLUDEDIR)
  set(spolia_pc_${folder} "${CMAKE_INSTALL_FULL_${folder}}")
  cmake_path(IS_PREFIX CMAKE_INSTALL_PREFIX "${spolia_pc_${folder}}" NORMALIZE inside)
  if(inside)
    cmake_path(RELATIVE_PATH spolia_pc_${folder} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
    set(spolia_pc_${folder} "\${prefix}/${spolia_pc_${folder}}")
  endif()
endforeach()
set(spolia_pc_prefix "${CMAKE_INSTALL_PREFIX}")
if(spolia_pc_LIBDIR MATCHES "prefix}" AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  file(RELATIVE_PATH spolia_pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
       "${CMAKE_INSTALL_PREFIX}")
  set(spolia_pc_prefix "\${pcfiledir}/${spolia_pc_prefix}")
endif()
set(spolia_pc_defined "")
if(SPOLIA_VALGRIND)
  set(spolia_pc_defined " -DSPOLIA_VALGRIND=1")
endif()
configure_file(cmake/spolia.pc.in spolia.pc.in @ONLY)
file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/pkgconfig/$<CONFIG>/spolia.pc"
     INPUT "${CMAKE_CURRENT_BINARY_DIR}/spolia.pc.in")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/pkgconfig/$<CONFIG>/spolia.pc"
        RENAME "$<TARGET_LINKER_FILE_BASE_NAME:spolia>.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" ${development})

install(FILES packaging/valgrind.supp DESTINATION "${CMAKE_INSTALL_DATADIR}/spolia" ${development})
# With what the guides link to.
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md CITATION.cff
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" ${documentation})
install(DIRECTORY docs examples DESTINATION "${CMAKE_INSTALL_DOCDIR}" ${documentation}
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.cpp" PATTERN "*.hpp")

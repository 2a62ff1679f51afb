# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

set(spolia_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/spolia")

install(TARGETS spolia spolia_headers spolia_model EXPORT spolia-targets FILE_SET HEADERS FILE_SET details)
install(EXPORT spolia-targets NAMESPACE spolia:: DESTINATION "${spolia_cmake_dir}")

configure_package_config_file(cmake/spolia-config.cmake.in spolia-config.cmake
                              INSTALL_DESTINATION "${spolia_cmake_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(spolia-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/spolia-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/spolia-config-version.cmake"
              cmake/model_program.cmake
        DESTINATION "${spolia_cmake_dir}")

# The prefix of the .pc file is found from where the file lies, so that a stage can be moved.
file(RELATIVE_PATH spolia_pc_to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file(cmake/spolia.pc.in spolia.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/spolia.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

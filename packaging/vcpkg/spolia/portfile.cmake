# SPDX-License-Identifier: Apache-2.0
# An overlay port, for a checkout of the library around it: vcpkg install spolia
# --overlay-ports=packaging/vcpkg. Not tried: there is no vcpkg where the project is tested.
cmake_path(SET SOURCE_PATH NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../..")

vcpkg_check_features(OUT_FEATURE_OPTIONS features
                     FEATURES store SPOLIA_STORE
                              tool SPOLIA_BUILD_TOOL)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
                      OPTIONS ${features} -DSPOLIA_UNITY=ON -DSPOLIA_BUILD_TESTS=OFF
                              -DSPOLIA_BUILD_BENCH=OFF -DSPOLIA_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/spolia)
vcpkg_fixup_pkgconfig()
if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES spolia AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

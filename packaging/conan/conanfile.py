# SPDX-License-Identifier: Apache-2.0
"""Conan 2: `conan create packaging/conan --version=0.1.0`, or ./dev package conan."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir


class SpoliaRecipe(ConanFile):
    name = "spolia"
    license = "Apache-2.0"
    description = "Safe memory reclamation, and an embedded in-memory transactional store"
    topics = ("memory-reclamation", "hazard-pointers", "rcu", "snapshots", "database")
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False], "fPIC": [True, False], "store": [True, False]}
    default_options = {"shared": False, "fPIC": True, "store": True}
    implements = ["auto_shared_fpic"]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, os.pardir, os.pardir)
        folders = ("include/*", "src/*", "cmake/*", "docs/*", "examples/*")
        files = ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md",
                 "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "packaging/valgrind.supp")
        for part in (*folders, *files):
            copy(self, part, root, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os == "Windows" or self.settings.arch in ("x86", "armv7", "armv7hf"):
            raise ConanInvalidConfiguration("Spolia is for 64-bit systems with POSIX threads")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["SPOLIA_STORE"] = bool(self.options.store)
        toolchain.cache_variables["SPOLIA_UNITY"] = True
        for part in ("TESTS", "BENCH", "TOOL", "EXAMPLES"):
            toolchain.cache_variables[f"SPOLIA_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan makes files of its own for CMake and pkg-config.
        for folder in ("lib/cmake", "lib/pkgconfig", "share"):
            rmdir(self, os.path.join(self.package_folder, folder))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "spolia")
        self.cpp_info.set_property("cmake_target_name", "spolia::spolia")
        self.cpp_info.set_property("pkg_config_name", "spolia")
        debug = "-debug" if self.settings.build_type == "Debug" else ""
        self.cpp_info.libs = [f"spolia{debug}"]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]

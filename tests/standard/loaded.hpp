// SPDX-License-Identifier: Apache-2.0
/// \file A plugin that was loaded, and its functions.
#pragma once

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <utility>

#include "standard/plugin.hpp"

namespace spolia::test {

class loaded {
 public:
  explicit loaded(const char* path) : path_(path), handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) ADD_FAILURE() << dlerror();
  }
  loaded(const loaded&) = delete;
  loaded& operator=(const loaded&) = delete;
  ~loaded() { unload(); }

  /// A function of the plugin, by the type of its declaration.
  template <class F>
  F* function(const char* name, F*) {
    void* const found = dlsym(handle_, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<F*>(found);
  }

  void unload() {
    if (handle_ == nullptr) return;
    EXPECT_EQ(dlclose(std::exchange(handle_, nullptr)), 0);
    EXPECT_EQ(dlopen(path_, RTLD_NOW | RTLD_NOLOAD), nullptr) << "the test needs it to be gone";
  }

 private:
  const char* path_;
  void* handle_;
};

/// The plugin's own copy of a function that plugin.hpp declares.
#define SPOLIA_TEST_PLUGIN_FUNCTION(plugin, name) (plugin).function(#name, decltype(&name){})

}  // namespace spolia::test

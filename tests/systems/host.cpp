// SPDX-License-Identifier: Apache-2.0
// A host of plugins that knows nothing of the library: each is everywhere.cpp as a shared object,
// with a static copy of the library in it. Each is loaded, and all of them stay. The first one runs
// on a thread that was there before it, the last one on the program's.
//   host PLUGIN...
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

using entry = int (*)(int, char**);

int run(entry plugin) {
  char name[] = "everywhere";
  char what[] = "parts";
  char* words[] = {name, what, nullptr};
  return plugin(2, words);
}

}  // namespace

int main(int count, char** paths) {
  std::atomic<entry> first{nullptr};
  int status = 0;
  // acquire ← the release below: the plugin is loaded.
  std::thread older([&] {
    entry plugin = nullptr;
    while ((plugin = first.load(std::memory_order_acquire)) == nullptr) std::this_thread::yield();
    status = run(plugin);
  });
  int loaded = 0;
  for (int i = 1; i < count; ++i) {
    void* const handle = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
    const auto plugin =
        handle != nullptr ? reinterpret_cast<entry>(dlsym(handle, "main")) : nullptr;
    if (plugin == nullptr) {
      std::printf("NO: %s\n", dlerror());
      std::_Exit(1);  // a thread waits
    }
    if (i == 1) {
      first.store(plugin, std::memory_order_release);  // → the acquire above
      older.join();
    }
    // All of it in the first and the last; the others have to be there.
    if (i == count - 1) status += run(plugin);
    ++loaded;
  }
  std::printf("%d plugins\n", loaded);
  return status;
}

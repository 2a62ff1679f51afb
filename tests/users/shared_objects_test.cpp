// SPDX-License-Identifier: Apache-2.0
// Shared objects: plugins that hold static copies of the library, of one or another of its parts,
// and go while threads live that have used them.

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/reclaim.hpp>

#include "support/elsewhere.hpp"
#include "support/parked_thread.hpp"
#include "users/plugin.hpp"

namespace {

using spolia::test::parked_thread;
using spolia::test::parking_spot;
using spolia::test::status_of_child;

class plugin {
 public:
  explicit plugin(const char* path) : path_(path), handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      ADD_FAILURE() << dlerror();
      return;
    }
    work_ = function<decltype(&plugin_work)>("plugin_work");
    use_map_ = function<decltype(&plugin_use_map)>("plugin_use_map");
    function<decltype(&plugin_count_in)>("plugin_count_in")(&live_);
  }
  plugin(const plugin&) = delete;
  plugin& operator=(const plugin&) = delete;
  ~plugin() { unload(); }

  void work(int count) const { work_(count); }
  void use_map(int count) const { use_map_(count); }
  int live() const { return live_.load(); }

  void unload() {
    if (handle_ == nullptr) return;
    EXPECT_EQ(dlclose(std::exchange(handle_, nullptr)), 0);
    EXPECT_EQ(dlopen(path_, RTLD_NOW | RTLD_NOLOAD), nullptr) << "the test needs it to be gone";
  }

 private:
  template <class F>
  F function(const char* name) {
    void* const found = dlsym(handle_, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<F>(found);
  }

  const char* path_;
  void* handle_;
  decltype(&plugin_work) work_ = nullptr;
  decltype(&plugin_use_map) use_map_ = nullptr;
  std::atomic<int> live_{0};
};

void use_own_domain() {
  static spolia::domain<> own;
  struct block : spolia::domain<>::header {};
  for (int i = 0; i < 100; ++i) {
    auto* const fresh = own.make<block>();
    auto guard = own.enter();
    guard.retire(fresh);
  }
}

TEST(users_shared_objects, threads_outlive_the_plugin_that_they_have_used) {
  for (int round = 0; round < 3; ++round) {
    plugin first(SPOLIA_FIRST_PLUGIN);
    plugin second(SPOLIA_SECOND_PLUGIN);
    std::vector<std::unique_ptr<parked_thread>> users;
    for (int t = 0; t < 4; ++t) {
      users.push_back(std::make_unique<parked_thread>([&, t](parking_spot& spot) {
        use_own_domain();
        first.work(100);
        if (t % 2 == 0) second.work(100);
        spot.park();
        use_own_domain();
        if (t % 2 == 0) second.work(100);
      }));
    }
    EXPECT_GT(first.live(), 0) << "nothing waits: this test tests nothing";
    first.unload();
    EXPECT_EQ(first.live(), 0) << "the domain went with the plugin";
    for (auto& user : users) user->release();  // ends, with the first plugin's key gone
    second.work(10);
    second.unload();
    EXPECT_EQ(second.live(), 0);
  }
}

TEST(users_shared_objects, a_map_goes_with_the_plugin_though_its_users_live_on) {
  for (int round = 0; round < 3; ++round) {
    plugin it(SPOLIA_FIRST_PLUGIN);
    parked_thread user([&](parking_spot& spot) {
      it.use_map(100);
      spot.park();
    });
    it.use_map(100);
    EXPECT_GE(it.live(), 50) << "what stays in the map";
    it.unload();
    EXPECT_EQ(it.live(), 0);
    user.release();
  }
}

TEST(users_shared_objects, a_fork_after_unloading_calls_nothing_that_is_gone) {
  {
    plugin gone(SPOLIA_FIRST_PLUGIN);
    gone.work(10);
  }
  EXPECT_EQ(spolia::test::status_of_child([] { use_own_domain(); }), 0);
}

TEST(users_shared_objects, a_plugin_without_a_key_is_loaded_and_says_so_when_it_is_used) {
  EXPECT_EQ(status_of_child([] {
              pthread_key_t last{};
              for (pthread_key_t k{}; pthread_key_create(&k, nullptr) == 0;) last = k;
              plugin it(SPOLIA_FIRST_PLUGIN);
              for (int round = 0; round < 2; ++round) {
                try {
                  it.use_map(10);
                  ADD_FAILURE() << "without a key";
                } catch (const std::bad_alloc& e) {
                  EXPECT_NE(std::string(e.what()).find("pthread key"), std::string::npos);
                }
              }
              pthread_key_delete(last);
              it.use_map(10);
              EXPECT_GT(it.live(), 0);
            }),
            0);
}

}  // namespace

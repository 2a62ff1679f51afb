// SPDX-License-Identifier: Apache-2.0
// Shared objects: plugins that hold static copies of the library, of one or another of its parts,
// and go while threads live that have used them.

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/memory.hpp>
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
  explicit plugin(std::string path)
      : path_(std::move(path)), handle_(dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
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
  const char* code() const { return reinterpret_cast<const char*>(work_); }

  void unload() {
    if (handle_ == nullptr) return;
    EXPECT_EQ(dlclose(std::exchange(handle_, nullptr)), 0);
    EXPECT_EQ(dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr)
        << "the test needs it to be gone";
  }

 private:
  template <class F>
  F function(const char* name) {
    void* const found = dlsym(handle_, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<F>(found);
  }

  std::string path_;
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

/// More types than the table has room for, of plugins that are each loaded to another place.
TEST(users_shared_objects, thin_types_of_plugins_that_are_gone_take_no_room) {
  const auto kind = [](const char* of) { return spolia::counted::detail::add_thin_kind(of); };
  static const char kept = 0;
  const std::uint32_t kept_number = kind(&kept);
  // As where a compiler has made the code while the program runs.
  const auto in_no_object = std::make_unique<char>();
  const std::uint32_t made_number = kind(in_no_object.get());
  std::vector<void*> places;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (int round = 0; round < 70; ++round) {
    plugin it(SPOLIA_FIRST_PLUGIN);
    const char* const first = it.code();
    std::uint32_t number = 0;
    for (int i = 0; i < 1000; ++i) ASSERT_NO_THROW(number = kind(first + i)) << round;
    EXPECT_EQ(spolia::counted::detail::thin_kinds[number], first + 999);
    EXPECT_EQ(kind(first), kind(first)) << "a kind of a loaded plugin keeps its number";
    it.unload();
    // No other may come to this place.
    void* const place = const_cast<char*>(first - reinterpret_cast<std::uintptr_t>(first) % page);
    places.push_back(
        mmap(place, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    EXPECT_EQ(places.back(), place);
  }
  EXPECT_EQ(kind(&kept), kept_number);
  EXPECT_EQ(kind(in_no_object.get()), made_number);
  for (void* place : places) munmap(place, page);
}

/// As extension modules of an interpreter, each with the library in it.
TEST(users_shared_objects, a_hundred_static_copies_are_loaded) {
  constexpr int copies = SPOLIA_ASAN || SPOLIA_TSAN ? 20 : 100;
  EXPECT_EQ(status_of_child([] {
              const int from = open(SPOLIA_FIRST_PLUGIN, O_RDONLY | O_CLOEXEC);
              struct stat what{};
              ASSERT_EQ(fstat(from, &what), 0);
              std::vector<std::unique_ptr<plugin>> all;
              for (int i = 0; i < copies; ++i) {
                const int copy = memfd_create("plugin", MFD_CLOEXEC);
                off_t at = 0;
                const auto size = static_cast<std::size_t>(what.st_size);
                ASSERT_EQ(sendfile(copy, from, &at, size), what.st_size);
                const std::string path = "/proc/self/fd/" + std::to_string(copy);
                all.push_back(std::make_unique<plugin>(path));
                ASSERT_FALSE(HasFailure()) << "copy " << i;
                all.back()->work(10);
                EXPECT_GT(all.back()->live(), 0);
              }
              for (const auto& it : all) it->unload();
            }),
            0);
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

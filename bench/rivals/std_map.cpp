// SPDX-License-Identifier: Apache-2.0
// std_map.cpp: the map everyone has, under locks: one mutex, one that readers share, or one for
// each of 64 parts.
#include <spolia/base/config.hpp>

#include <array>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "probe.hpp"
#include "trial.hpp"

namespace {

using bench::set_options;
using bench::sums;
using bench::trial_result;

template <class Mutex>
struct alignas(spolia::cache_line) locked_part {
  Mutex mutex;
  std::map<std::uint64_t, std::uint64_t> map;
};

template <class Mutex>
struct reading {
  using lock = std::lock_guard<Mutex>;
};
template <>
struct reading<std::shared_mutex> {
  using lock = std::shared_lock<std::shared_mutex>;
};

/// Keys are spread over the parts by a hash, so that neighbours do not share a lock. With more
/// than one part the whole is not ordered any more.
template <class Mutex, std::size_t Parts>
class locked_map {
  using part = locked_part<Mutex>;

 public:
  class worker {
   public:
    explicit worker(locked_map& m) noexcept : parts_(m.parts_) {}
    bool insert(std::uint64_t key) {
      part& p = of(key);
      const std::lock_guard<Mutex> held(p.mutex);
      return p.map.emplace(key, key).second;
    }
    bool erase(std::uint64_t key) {
      part& p = of(key);
      const std::lock_guard<Mutex> held(p.mutex);
      return p.map.erase(key) != 0;
    }
    bool contains(std::uint64_t key) {
      part& p = of(key);
      const typename reading<Mutex>::lock held(p.mutex);
      return p.map.contains(key);
    }

   private:
    part& of(std::uint64_t key) noexcept {
      return parts_[Parts == 1 ? 0 : bench::random_source(key).below(Parts)];
    }
    std::array<part, Parts>& parts_;
  };

  explicit locked_map(const set_options&) {}
  static sums counted() { return {}; }
  static std::optional<std::uint64_t> garbage() { return std::nullopt; }
  static void describe(trial_result&, std::size_t) {}

 private:
  std::array<part, Parts> parts_;
};

template <class Mutex>
void add_probe(std::vector<bench::probe>& all, const char* name) {
  auto mutex = std::make_shared<Mutex>();
  all.push_back({name,
                 "enter+leave",
                 [mutex] {
                   return bench::ns_each([&] {
                     const typename reading<Mutex>::lock held(*mutex);
                     bench::touch();
                   });
                 },
                 {}});
}

const bool listed = [] {
  bench::rival_probes().push_back([](std::vector<bench::probe>& all) {
    add_probe<std::mutex>(all, "mutex");
    add_probe<std::shared_mutex>(all, "shared_mutex");
  });
  return bench::add_rival("std_map", "mutex", bench::run_trial<locked_map<std::mutex, 1>>) &&
         bench::add_rival("std_map", "shared_mutex",
                          bench::run_trial<locked_map<std::shared_mutex, 1>>) &&
         bench::add_rival("std_map", "sharded_mutex", bench::run_trial<locked_map<std::mutex, 64>>);
}();

}  // namespace

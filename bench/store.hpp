// SPDX-License-Identifier: Apache-2.0
// store.hpp: what the benchmarks of the store share: names of storages, threads that begin and end
// together, latencies, and what happened over time.
#pragma once

#include <nlohmann/json.hpp>
#include <spolia/base/atomic.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/db.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace bench {

/// All version storages under the names that the command line has for them.
std::vector<std::pair<std::string, spolia::db::version_storage>> version_storages();
std::vector<std::string> version_storage_names();
/// Is none of these: it forgets all versions (floor_storage.hpp).
inline constexpr const char* floor_name = "floor";
/// By name. `changes`: versions have the changed columns only, where they can. Throws usage_error,
/// with the names that there are.
void choose_versions(spolia::db::options& o, const std::string& name, bool changes);
/// Throws usage_error. `old_are_read`: by a reader that cannot begin anew.
void check_versions(const std::vector<std::string>& names, bool old_are_read);
/// Whether versions can have the changed columns only.
bool keeps_changes(const std::string& name);
/// All, if none was given.
std::vector<std::string> versions_or_all(const std::vector<std::string>& names);
/// Whether one of these has partitions.
bool any_one_shot(const std::vector<std::string>& names);

/// f, for transact(): a scan that has no result is tried again after a conflict, too.
template <class F>
auto with_conflicts(F&& f) {
  return [f = std::forward<F>(f)](spolia::db::transaction& tx) mutable -> spolia::db::status {
    try {
      return f(tx);
    } catch (const spolia::db::no_result& e) {
      return e.code();
    }
  };
}
/// By name: probing, cuckoo. Throws usage_error.
spolia::db::hash_kind hash_kind_of(const std::string& name);
/// By name: none, async, sync. Throws usage_error.
spolia::db::durability_level durability_of(const std::string& name);

/// Threads that begin to work at the same moment, and end on stop() or by themselves.
class worker_pool {
 public:
  worker_pool() = default;
  ~worker_pool() { end(); }
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;

  /// `work` runs on a thread of its own once begin() is called. What it throws comes out of end().
  void add(std::function<void()> work);
  /// What they do in the first `warm_up` seconds, for which it waits, is not to count. Then it
  /// calls `measured`, and seconds() begins anew.
  void begin(double warm_up = 0, const std::function<void()>& measured = {});
  /// Whether what begins now counts.
  [[nodiscard]] bool warm() const noexcept { return warm_.load_relaxed(); }
  [[nodiscard]] bool stopped() const noexcept { return stop_.load_relaxed(); }
  /// Asks them to end, and waits until they have.
  void stop();
  /// Waits until they are done by themselves.
  void wait();
  /// Since what they do counts.
  [[nodiscard]] double seconds() const noexcept;
  /// How many have not returned yet.
  [[nodiscard]] std::uint32_t working() const noexcept { return working_.load_relaxed(); }

 private:
  void end() noexcept;

  std::vector<std::thread> threads_;
  std::exception_ptr failed_;
  spolia::atomic<bool> failing_{false};
  spolia::atomic<bool> go_{false};
  spolia::atomic<bool> warm_{false};
  spolia::atomic<bool> stop_{false};
  spolia::atomic<std::uint32_t> working_{0};
  std::chrono::steady_clock::time_point start_;
};

/// Points over time: milliseconds since the start, transactions a second since the point before,
/// bytes of old versions, old versions alive, and partitions with versions in them. The last three
/// are null where the store under test does not count versions.
class history {
 public:
  /// Takes about `looks` points until the threads have worked for so long, or are done. 0 seconds:
  /// no limit; then a point each 10 ms.
  void watch(const worker_pool& working, double seconds, std::uint32_t looks,
             const std::function<std::uint64_t()>& transactions,
             const std::function<std::optional<spolia::db::delta_stats>()>& versions);
  [[nodiscard]] const nlohmann::json& points() const noexcept { return points_; }
  /// Pairs of milliseconds and bytes.
  [[nodiscard]] const nlohmann::json& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t most_bytes() const noexcept { return most_bytes_; }

 private:
  nlohmann::json points_ = nlohmann::json::array();
  nlohmann::json bytes_ = nlohmann::json::array();
  std::uint64_t most_bytes_ = 0;
};

/// Quantiles in nanoseconds of what was recorded in ticks: {p50, p99, p999, max, distribution}, the
/// last pairs of a share and the nanoseconds that it did not pass.
nlohmann::json latencies(const spolia::histogram_snapshot& ticks);
/// What all records say of a version storage: of what has happened since it was as in `before`, and
/// of what there is.
nlohmann::json version_figures(const spolia::db::delta_stats& now,
                               const spolia::db::delta_stats& before = {});

}  // namespace bench

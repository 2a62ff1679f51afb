// SPDX-License-Identifier: Apache-2.0
#include "announcements.hpp"

#include <spolia/base/counters.hpp>
#include <spolia/reclaim.hpp>

#include <thread>
#include <utility>

#include "record.hpp"

namespace bench {
namespace {

// How often this thread has read the others' parts. The thread itself reads this, at its end.
thread_local std::uint64_t looks = 0;

/// The other threads' parts. Each read of one of them is counted.
template <class Peers>
struct counting_peers {
  Peers peers;

  template <class F>
  void for_each(F&& f) const {
    peers.for_each([&](std::uint32_t n, auto& other) {
      ++looks;
      return f(n, other);
    });
  }
  auto find(std::uint32_t n) const noexcept {
    ++looks;
    return peers.find(n);
  }
  std::uint32_t high_water() const noexcept { return peers.high_water(); }
  std::uint64_t existing() const noexcept { return peers.existing(); }
};

/// A scheme whose reads of other threads' parts are counted, where it makes them to find safe
/// blocks.
template <class Scheme>
class counted : public Scheme {
 public:
  using Scheme::Scheme;
  using typename Scheme::local;

  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    Scheme::tick(me, counting_peers<Peers>{peers}, sink);
  }
  template <class Peers, class Sink>
  void retire(local& me, spolia::retired* block, Peers peers, Sink sink) noexcept {
    Scheme::retire(me, block, counting_peers<Peers>{peers}, sink);
  }
};

/// Threads that each replace the one block of a cell of their own, again and again.
template <class Scheme>
class replacing {
  using domain = spolia::domain<counted<Scheme>, spolia::batch>;
  struct block : domain::header {
    std::uint64_t value = 0;
  };

 public:
  nlohmann::json run(std::uint32_t threads, std::uint32_t operations) {
    std::vector<std::thread> workers;
    for (std::uint32_t i = 0; i < threads; ++i) {
      workers.emplace_back([this, operations] { work(operations); });
    }
    while (ready_.load_acquire() < threads) std::this_thread::yield();
    const std::uint64_t epochs = domain_.stats().epochs;
    go_.store_release(true);
    while (done_.load_acquire() < threads) std::this_thread::yield();
    const auto stats = domain_.stats();
    leave_.store_release(true);
    for (std::thread& w : workers) w.join();
    const double all = static_cast<double>(operations) * threads;
    return make_record("announcements", {},
                       {.threads = threads, .seconds = nullptr, .warm_up_s = nullptr},
                       {{"scheme", std::string(Scheme::info.name)}, {"operations", operations}},
                       {{"announcements_per_op", static_cast<double>(looked_.load_relaxed()) / all},
                        {"epochs", stats.epochs - epochs},
                        {"retired", stats.retired}});
  }

 private:
  void work(std::uint32_t operations) {
    spolia::atomic<block*> mine{domain_.template make<block>()};
    replace(mine);
    ready_.fetch_add_release(1);
    while (!go_.load_acquire()) std::this_thread::yield();
    looks = 0;
    for (std::uint32_t i = 0; i < operations; ++i) {
      replace(mine);
      // More threads than cores: no thread runs for a whole time slice while the others wait.
      if (i % 64 == 0) std::this_thread::yield();
    }
    looked_.fetch_add_relaxed(looks);
    done_.fetch_add_release(1);
    // A thread that is gone would no longer have to be looked at.
    while (!leave_.load_acquire()) {
      std::this_thread::yield();
      auto guard = domain_.enter();
    }
    auto guard = domain_.enter();
    guard.retire(mine.exchange_acq_rel(nullptr));
  }

  void replace(spolia::atomic<block*>& mine) {
    block* const fresh = domain_.template make<block>();
    auto guard = domain_.enter();
    const auto old = guard.read([&](auto& phase) { return phase.keep(phase.protect(mine)); });
    mine.store_release(fresh);
    guard.retire(old.get());
  }

  domain domain_;
  spolia::atomic<std::uint32_t> ready_{0};
  spolia::atomic<std::uint32_t> done_{0};
  spolia::atomic<std::uint64_t> looked_{0};
  spolia::atomic<bool> go_{false};
  spolia::atomic<bool> leave_{false};
};

/// Of the schemes that free something.
template <class... Schemes>
struct counts_of {
  static std::vector<nlohmann::json> all(const std::vector<std::uint32_t>& threads,
                                         std::uint32_t operations) {
    std::vector<nlohmann::json> records;
    for (const std::uint32_t n : threads) (count<Schemes>(n, operations, records), ...);
    return records;
  }

 private:
  template <class Scheme>
  static void count(std::uint32_t threads, std::uint32_t operations,
                    std::vector<nlohmann::json>& records) {
    if constexpr (Scheme::info.reclaims) {
      records.push_back(replacing<Scheme>().run(threads, operations));
    }
  }
};

}  // namespace

std::vector<nlohmann::json> count_announcements(const std::vector<std::uint32_t>& threads,
                                                std::uint32_t operations) {
  return spolia::every_scheme<counts_of>::all(threads, operations);
}

}  // namespace bench

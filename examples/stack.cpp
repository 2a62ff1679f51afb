// SPDX-License-Identifier: Apache-2.0
// A lock-free stack whose nodes are freed.
//
// Without reclamation pop() has no right to look at first->next: another thread may have popped the
// node and freed it meanwhile. The guard keeps it until we are done; retire() frees it when
// no thread can still read it.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include <spolia/reclaim.hpp>

namespace {

class stack {
  struct node : spolia::domain<>::header {
    explicit node(std::uint64_t v) : value(v) {}
    std::uint64_t value;
    node* next = nullptr;
  };

 public:
  ~stack() {
    while (pop().has_value()) continue;
  }

  void push(std::uint64_t value) {
    node* const fresh = nodes_.make<node>(value);
    fresh->next = top_.load_relaxed();
    // release → the acquire in protect(): a thread that reads the pointer sees the node.
    while (!top_.cas_weak_release(fresh->next, fresh)) continue;
  }

  std::optional<std::uint64_t> pop() {
    auto guard = nodes_.enter();
    for (;;) {
      const auto first = guard.protect(top_);
      node* found = first.get();
      if (found == nullptr) return std::nullopt;
      if (!top_.cas_strong_acq_rel(found, first->next)) continue;
      const std::uint64_t value = first->value;
      guard.retire(found);
      return value;
    }
  }

  const spolia::domain<>& nodes() const { return nodes_; }

 private:
  spolia::domain<> nodes_;
  spolia::atomic<node*> top_{nullptr};
};

}  // namespace

int main() {
  constexpr std::uint64_t each = 100'000;
  stack s;
  std::vector<std::uint64_t> sums(4, 0);
  std::vector<std::thread> threads;
  for (std::uint64_t& sum : sums) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 1; i <= each; ++i) {
        s.push(i);
        if (const auto value = s.pop()) sum += *value;
      }
    });
  }
  for (std::thread& t : threads) t.join();

  std::uint64_t popped = 0;
  for (const std::uint64_t sum : sums) popped += sum;
  while (const auto value = s.pop()) popped += *value;
  const auto stats = s.nodes().stats();
  std::printf("%llu nodes were retired, %llu of them are freed by now\n",
              static_cast<unsigned long long>(stats.retired),
              static_cast<unsigned long long>(stats.freed));
  return popped == sums.size() * each * (each + 1) / 2 ? 0 : 1;
}

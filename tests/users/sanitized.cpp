// SPDX-License-Identifier: Apache-2.0
// What a user might write: a stack over a domain, hazard pointers, a map, on several threads.
// Compiled with sanitizers by sanitized.cmake, and run under valgrind by valgrind.cmake. With an
// argument it makes a mistake: `read` reads what it has retired, `leak` loses what it has made,
// `race` counts in two threads without an order, in a function that the library calls, `unset`
// decides by a value of a map that was never set.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <spolia/hazard_pointer.hpp>
#include <spolia/map.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>

namespace {

template <class Domain>
class stack {
 public:
  explicit stack(Domain& home) : home_(home) {}
  ~stack() {
    while (node* const n = top_.load_relaxed()) {
      top_.store_relaxed(n->next);
      home_.destroy(n);
    }
  }

  void push(int value) {
    auto* const fresh = home_.template make<node>();
    fresh->value = value;
    fresh->next = top_.load_relaxed();
    // release → the acquire in pop(): the node is whole.
    while (!top_.cas_weak_release(fresh->next, fresh)) continue;
  }

  int pop() {
    auto guard = home_.enter();
    for (;;) {
      const auto first = guard.protect(top_);
      node* n = first.get();
      if (n == nullptr) return 0;
      // acquire ← the release in push().
      if (!top_.cas_strong_acquire(n, first->next)) continue;
      const int value = first->value;
      guard.retire(n);
      return value;
    }
  }

 private:
  struct node : Domain::header {
    int value = 0;
    node* next = nullptr;
  };
  Domain& home_;
  spolia::atomic<node*> top_{nullptr};
};

template <class Domain>
void use_stack() {
  Domain home;
  {
    stack<Domain> s(home);
    std::vector<std::thread> all;
    for (int t = 0; t < 3; ++t) {
      all.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          s.push(i);
          s.pop();
        }
      });
    }
    for (std::thread& t : all) t.join();
  }
  home.drain();
}

struct config : spolia::hazard_pointer_obj_base<config> {
  int number = 0;
};

void use_hazard_pointers() {
  spolia::atomic<config*> now{new config};
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) {
      auto* const fresh = new config;
      fresh->number = i;
      // acq_rel → protect(), and ← the one before: whole, and ours to retire.
      now.exchange_acq_rel(fresh)->retire();
    }
  });
  long sum = 0;
  auto reader = spolia::make_hazard_pointer();
  for (int i = 0; i < 1000; ++i) sum += reader.protect(now)->number;
  reader = spolia::hazard_pointer();
  writer.join();
  now.load_relaxed()->retire();
  spolia::hazard_pointer_clean_up();
  if (sum < 0) std::abort();
}

void use_map() {
  spolia::abtree<int, std::string> names;
  std::vector<std::thread> all;
  for (int t = 0; t < 3; ++t) {
    all.emplace_back([&names, t] {
      for (int i = 0; i < 1000; ++i) {
        names.insert(i % 50, std::string(30, static_cast<char>('a' + t)));
        names.find(i % 50);
        names.erase((i + t) % 50);
      }
    });
  }
  for (std::thread& t : all) t.join();
}

struct block : spolia::domain<>::header {
  int value = 1;
};

void read_too_late() {
  spolia::domain<> home;
  auto* const b = home.make<block>();
  {
    auto guard = home.enter();
    guard.retire(b);
  }
  std::thread other([&] { home.drain(); });
  volatile int sum = 0;
  for (int i = 0; i < 2000; ++i) {
    sum = sum + b->value;
    std::this_thread::yield();
  }
  other.join();
  home.drain();
  b->value = sum;
}

void lose() {
  spolia::domain<> home;
  int sum = 0;
  for (int i = 0; i < 100; ++i) sum += home.make<block>()->value;
  if (sum != 100) std::abort();
}

/// Both are in the callback before one counts: whatever the library orders is no excuse.
void race_in_a_callback() {
  spolia::abtree<int, int> m;
  m.insert(1, 1);
  std::atomic<int> inside{0};
  int calls = 0;
  const auto count = [&] {
    m.for_each([&](int, int) {
      inside.fetch_add(1, std::memory_order_relaxed);
      while (inside.load(std::memory_order_relaxed) < 2) std::this_thread::yield();
      ++calls;
    });
  };
  std::thread other(count);
  count();
  other.join();
  if (calls == 0) std::abort();
}

void decide_by_nothing() {
  struct half {
    int set = 1;
    int unset;
    half() {}
  };
  spolia::abtree<int, half> m;
  m.insert(1, half());
  if (m.find(1)->unset == 7) std::abort();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mistake = count > 1 ? arguments[1] : "";
  if (mistake == "read") return read_too_late(), 0;
  if (mistake == "leak") return lose(), 0;
  if (mistake == "unset") return decide_by_nothing(), 0;
  if (mistake == "race") return race_in_a_callback(), 0;
  use_stack<spolia::domain<>>();
  use_stack<spolia::domain<spolia::hazard_pointers>>();
  use_hazard_pointers();
  use_map();
  spolia::rcu_retire(new int(1));
  spolia::rcu_barrier();
}

// SPDX-License-Identifier: Apache-2.0
// Hazard pointers and RCU with the names of C++26: a stack, and settings that are read often.
//
// Where the standard library has them, namespace spolia::standard is the standard library's.
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include <spolia/standard.hpp>

namespace safe = spolia::standard;

namespace {

struct node : safe::hazard_pointer_obj_base<node> {
  explicit node(int v) : value(v) {}
  int value;
  node* next = nullptr;
};

/// Hazard pointers: each pop protects the one node that it looks into.
class stack {
 public:
  ~stack() {
    while (pop() >= 0) continue;
  }

  void push(int value) {
    auto* const fresh = new node(value);
    fresh->next = head_.load_relaxed();
    // release → the acquire in protect(): a thread that sees the node sees it constructed.
    while (!head_.cas_weak_release(fresh->next, fresh)) continue;
  }

  /// The newest value, or -1.
  int pop() {
    auto hazard = safe::make_hazard_pointer();
    for (;;) {
      node* top = hazard.protect(head_);
      if (top == nullptr) return -1;
      node* const below = top->next;  // safe: protected
      if (!head_.cas_strong_relaxed(top, below)) continue;
      const int value = top->value;
      top->retire();  // freed when no thread protects it
      return value;
    }
  }

 private:
  spolia::atomic<node*> head_{nullptr};
};

struct settings {
  int limit;
  int twice_the_limit;
};

/// RCU: readers take no lock, and everything they find stays until their region ends.
class live_settings {
 public:
  ~live_settings() { delete current_.load_relaxed(); }

  int read() const {
    const std::scoped_lock region(safe::rcu_default_domain());
    const settings* const s = current_.load_acquire();
    return s->twice_the_limit - 2 * s->limit;
  }

  void change(int limit) {
    safe::rcu_retire(current_.exchange_acq_rel(new settings{limit, 2 * limit}));
  }

 private:
  spolia::atomic<settings*> current_{new settings{0, 0}};
};

}  // namespace

int main() {
  stack numbers;
  live_settings live;
  spolia::atomic<int> popped(0);
  spolia::atomic<int> wrong(0);
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([&] {
      for (int i = 1; i <= 10'000; ++i) {
        numbers.push(i);
        if (numbers.pop() >= 0) popped.fetch_add_relaxed(1);
        if (i % 100 == 0) live.change(i);
        if (live.read() != 0) wrong.fetch_add_relaxed(1);
      }
    });
  }
  for (auto& t : all) t.join();
  safe::rcu_barrier();  // every old setting is gone when this returns
  std::printf("%d values popped, %d torn settings seen\n", popped.load_relaxed(),
              wrong.load_relaxed());
  return popped.load_relaxed() == 40'000 && wrong.load_relaxed() == 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// A user's structure under the model checker: a stack over a domain, right and with a release left
// out, which the checker has to find.
#include <cstdio>
#include <memory>

#include <spolia/model/engine.hpp>
#include <spolia/reclaim.hpp>

namespace {

using namespace spolia;

class stack {
 public:
  explicit stack(bool right) : right_(right) {}
  ~stack() {
    while (node* n = head_.load_relaxed()) {
      head_.store_relaxed(n->next);
      nodes_.destroy(n);
    }
  }
  void push(int value) {
    node* const made = nodes_.make<node>();
    made->value.write(value);
    made->next = head_.load_relaxed();
    for (;;) {
      // release → the acquire in protect(): the value.
      if (right_ ? head_.cas_strong_release(made->next, made)
                 : head_.cas_strong_relaxed(made->next, made)) {
        return;
      }
    }
  }
  bool pop(int& value) {
    auto guard = nodes_.enter();
    for (;;) {
      const auto first = guard.protect(head_);
      node* found = first.get();
      if (found == nullptr) return false;
      if (!head_.cas_strong_acquire(found, first->next)) continue;
      value = first->value.read();
      guard.retire(first.get());
      return true;
    }
  }

 private:
  struct node : domain<token>::header {
    plain<int> value{0};
    node* next = nullptr;
  };
  const bool right_;
  domain<token> nodes_;
  atomic<node*> head_{nullptr};
};

model::outcome run(bool right) {
  model::options how;
  how.executions = 2000;
  return model::explore(how, [right](model::scenario& of) {
    auto s = std::make_shared<stack>(right);
    of.thread([s] { s->push(7); });
    of.thread([s] {
      int value = 0;
      if (s->pop(value)) model::check(value == 7, "what was pushed comes out");
    });
  });
}

}  // namespace

int main() {
  const model::outcome clean = run(true);
  const model::outcome broken = run(false);
  std::printf("right: %s; without the release: %s\n", clean.ok ? "ok" : clean.why.c_str(),
              broken.ok ? "nothing found" : broken.why.c_str());
  return clean.ok && !broken.ok ? 0 : 1;
}

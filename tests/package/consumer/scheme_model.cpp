// SPDX-License-Identifier: Apache-2.0
// The program of docs/checker.md: a reader and a thread that retires, over a scheme.
#include <cstdio>
#include <memory>

#include <spolia/model/engine.hpp>
#include <spolia/reclaim.hpp>

using domain = spolia::domain<spolia::token>;  // or a scheme of your own

struct node : domain::header {
  spolia::plain<int> value{7};  // races on it are reported
};

struct place {
  domain nodes;
  spolia::atomic<node*> current{nodes.make<node>()};
  ~place() {
    if (node* left = current.load_relaxed()) nodes.destroy(left);
  }
};

int main() {
  spolia::model::options how;
  how.how = spolia::model::options::mode::pct;  // at random; without this line: one by one
  how.executions = 20'000;
  const auto found = spolia::model::explore(how, [](spolia::model::scenario& run) {
    auto p = std::make_shared<place>();  // all state is made afresh for each execution
    run.thread([p] {
      auto guard = p->nodes.enter();
      const auto seen = guard.protect(p->current);
      if (seen) spolia::model::check(seen->value.read() == 7, "what is protected can be read");
    });
    run.thread([p] {
      {
        auto guard = p->nodes.enter();
        guard.retire(p->current.exchange_acq_rel(nullptr));
      }
      p->nodes.drain();  // so that what is freed too early is freed here
    });
  });
  std::puts(found.ok ? "nothing found" : (found.why + "\n" + found.trace).c_str());
  return found.ok ? 0 : 1;
}

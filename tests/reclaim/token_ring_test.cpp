// SPDX-License-Identifier: Apache-2.0
// What tells the paper's three token rings apart: where the token is while a thread frees a batch
// (Kim, Brown, Singh, PPoPP 2024, section 4). That they are safe is shown elsewhere.
#include <spolia/reclaim/token_ring.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/reclaim/domain.hpp>

#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// A thread that runs an operation when it is told to, and retires a block in each: when it frees
/// some, the token has come.
template <class Domain>
class told_thread {
 public:
  explicit told_thread(Domain& d) : home_(d), thread_([this] { run(); }) {}
  told_thread(const told_thread&) = delete;
  told_thread& operator=(const told_thread&) = delete;
  ~told_thread() {
    over_ = true;
    begin_.post();
    thread_.join();
  }

  /// Runs one operation there, waits for its end, and says whether the token had come.
  bool had_the_token() {
    const int before = *freed_;
    begin_.post();
    end_.wait();
    return *freed_ != before;
  }

 private:
  struct node : Domain::header {
    explicit node(std::shared_ptr<int> counts) : freed(std::move(counts)) {}
    ~node() { ++*freed; }
    const std::shared_ptr<int> freed;
  };

  void run() {
    for (begin_.wait(); !over_; begin_.wait()) {
      {
        auto guard = home_.enter();
        guard.retire(home_.template make<node>(freed_));
      }
      end_.post();
    }
  }

  Domain& home_;
  const std::shared_ptr<int> freed_ = std::make_shared<int>(0);  // the last ones end after this
  bool over_ = false;
  posix_semaphore begin_;
  posix_semaphore end_;
  std::thread thread_;
};

template <class Domain>
struct telling_node : Domain::header {
  explicit telling_node(const std::function<void()>& f) : when_it_ends(f) {}
  ~telling_node() { when_it_ends(); }
  const std::function<void()>& when_it_ends;
};

constexpr int batch_size = 1000;

/// During a batch: at which of its blocks the token was with the other thread, which runs one
/// operation in each of them.
template <token_order Order>
std::vector<int> receipts() {
  using home = domain<token_ring<Order>, batch>;
  home d;
  std::vector<int> found;
  int freed = 0;
  bool later_one_freed = false;
  // The last ones are freed by drain().
  const std::function<void()> later_one = [&] { later_one_freed = true; };
  {
    told_thread<home> other(d);
    const std::function<void()> look = [&] {
      if (other.had_the_token()) found.push_back(freed);
      ++freed;
      auto own = d.enter();  // a deleter's operations leave the token alone
    };
    const auto operation = [&](int blocks, const std::function<void()>& f) {
      auto guard = d.enter();
      for (int i = 0; i < blocks; ++i) guard.retire(d.template make<telling_node<home>>(f));
    };
    for (int i = 0; i < 20; ++i) {  // both are there, and the other's blocks go with each receipt
      operation(0, look);
      other.had_the_token();
    }
    operation(batch_size, look);
    for (int i = 0; i < 20 && freed == 0; ++i) {
      other.had_the_token();
      operation(1, later_one);
    }
    EXPECT_EQ(freed, batch_size);
    EXPECT_FALSE(later_one_freed) << "a token that is passed on from within a batch ends none";
  }
  EXPECT_TRUE(d.drain());
  return found;
}

TEST(token_ring, naive_passes_the_token_after_it_has_freed) {
  EXPECT_EQ(receipts<token_order::naive>(), std::vector<int>());
}
TEST(token_ring, pass_first_passes_it_before_and_keeps_the_next_one) {
  EXPECT_EQ(receipts<token_order::pass_first>(), std::vector<int>{0});
}
TEST(token_ring, periodic_passes_it_on_after_each_hundredth_block) {
  EXPECT_EQ(receipts<token_order::periodic>(),
            (std::vector<int>{0, 100, 200, 300, 400, 500, 600, 700, 800, 900}));
}

}  // namespace

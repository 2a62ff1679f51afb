// SPDX-License-Identifier: Apache-2.0
// rlu_bank: a structure under a readers-writer lock, and the same over read-log-update. The steps
// are those of docs/migrate/readers-writer-lock.md.
//
// Accounts form a list and money moves between them. An audit adds everything up. Under the lock it
// stops all transfers; with read-log-update it stops none.
#include <spolia/rlu.hpp>

#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace before {

struct account {
  std::string owner;
  long balance;
  account* next;
};

class bank {
 public:
  ~bank() {
    while (first_ != nullptr) delete std::exchange(first_, first_->next);
  }

  void open(std::string owner, long balance) {
    const std::unique_lock lock(lock_);
    first_ = new account{std::move(owner), balance, first_};
  }

  bool transfer(const std::string& from, const std::string& to, long amount) {
    const std::unique_lock lock(lock_);
    account* const a = find(from);
    account* const b = find(to);
    if (a == nullptr || b == nullptr || a == b || a->balance < amount) return false;
    a->balance -= amount;
    b->balance += amount;
    return true;
  }

  bool close(const std::string& owner) {
    const std::unique_lock lock(lock_);
    for (account** link = &first_; *link != nullptr; link = &(*link)->next) {
      account* const a = *link;
      if (a->owner != owner || a->balance != 0) continue;
      *link = a->next;
      delete a;
      return true;
    }
    return false;
  }

  long audit() {
    const std::shared_lock lock(lock_);
    long sum = 0;
    for (account* a = first_; a != nullptr; a = a->next) sum += a->balance;
    return sum;
  }

 private:
  account* find(const std::string& owner) {
    account* a = first_;
    while (a != nullptr && a->owner != owner) a = a->next;
    return a;
  }

  std::shared_mutex lock_;
  account* first_ = nullptr;
};

}  // namespace before

namespace after {

namespace rlu = spolia::rlu;

// Step 1: what changes becomes the body, what never does the fixed part, and pointers rlu::ptr.
struct account {
  using fixed = std::string;  // the owner
  long balance = 0;
  rlu::ptr<account> next;
};
// Step 2: what the structure begins with becomes an object, too.
struct front {
  rlu::ptr<account> first;
};

class bank {
 public:
  ~bank() {  // step 6: no other thread uses it
    rlu::ptr<account> a = home_.alone(front_).first;
    home_.discard(front_);
    while (a) {
      const rlu::ptr<account> next = home_.alone(a).next;
      home_.discard(a);
      a = next;
    }
  }

  // Step 4: unique_lock becomes update. Each object that is to change is locked, and if that fails
  // we return: the function is called again.
  void open(const std::string& owner, long balance) {
    home_.update([&](auto& in) {
      auto front = in.try_lock(front_);
      if (!front) return;
      front->first = in.template make<account>(owner, {balance, front->first});
    });
  }

  bool transfer(const std::string& from, const std::string& to, long amount) {
    return home_.update([&](auto& in) {
      const auto a = find(in, from);
      const auto b = find(in, to);
      if (!a || !b || a == b || in.read(a)->balance < amount) return false;
      auto giving = in.try_lock(a);
      auto taking = in.try_lock(b);
      if (!giving || !taking) return false;
      giving->balance -= amount;
      taking->balance += amount;
      return true;
    });
  }

  // Step 5: delete becomes free. A section that still reads the account goes on reading it.
  bool close(const std::string& owner) {
    return home_.update([&](auto& in) {
      rlu::ptr<account> before;
      auto a = in.read(in.read(front_)->first);
      while (a && a.fixed() != owner) {
        before = a;
        a = in.read(a->next);
      }
      if (!a || a->balance != 0 || !in.free(a.self())) return false;
      if (!before) {
        if (auto front = in.try_lock(front_)) front->first = a->next;
      } else if (auto link = in.try_lock(before)) {
        link->next = a->next;
      }
      return true;
    });
  }

  // Step 3: shared_lock becomes read. It sees one instant, waits for no thread, and stops none.
  long audit() {
    return home_.read("audit", [&](auto& in) {
      long sum = 0;
      for (auto a = in.read(in.read(front_)->first); a; a = in.read(a->next)) sum += a->balance;
      return sum;
    });
  }

 private:
  rlu::ptr<account> find(rlu::domain::reader& in, const std::string& owner) {
    auto a = in.read(in.read(front_)->first);
    while (a && a.fixed() != owner) a = in.read(a->next);
    return a;
  }

  rlu::domain home_;
  const rlu::ptr<front> front_ = home_.make<front>({});
};

}  // namespace after

template <class Bank>
bool holds_together() {
  Bank bank;
  for (int i = 0; i < 20; ++i) bank.open("owner " + std::to_string(i), 100);
  bool right = true;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&bank, t] {
      for (int i = 0; i < 5000; ++i) {
        bank.transfer("owner " + std::to_string((i * 7 + t) % 20),
                      "owner " + std::to_string((i * 3 + 5) % 20), 1 + i % 10);
      }
    });
  }
  for (int i = 0; i < 500; ++i) right &= bank.audit() == 2000;
  for (std::thread& t : threads) t.join();
  bank.open("guest", 0);
  right &= bank.close("guest") && !bank.close("guest") && bank.audit() == 2000;
  return right;
}

int main() {
  const bool locked = holds_together<before::bank>();
  const bool logged = holds_together<after::bank>();
  std::printf("under a lock: %s; over read-log-update: %s\n", locked ? "right" : "WRONG",
              logged ? "right" : "WRONG");
  return locked && logged ? 0 : 1;
}

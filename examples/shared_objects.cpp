// SPDX-License-Identifier: Apache-2.0
// From std::shared_ptr to Spolia's: the steps of docs/migrate/shared-ptr.md but the last, each
// checked.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <spolia/memory.hpp>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "shared_objects: %s\n", what);
  std::exit(1);
}

// Step 1. Change the name. Nothing else changes.
struct session : spolia::enable_shared_from_this<session> {
  explicit session(std::string n) : name(std::move(n)) {}
  std::string name;
};

void plain_pointers() {
  const spolia::shared_ptr<session> a = spolia::make_shared<session>("a");
  const spolia::weak_ptr<session> w = a;
  const spolia::shared_ptr<std::string> name(a, &a->name);
  check(a.use_count() == 2 && w.lock() == a->shared_from_this(), "counts are exact");
}

// An interface that is not ours keeps its std::shared_ptr, and a pointer of ours holds that.
void a_strangers_pointer() {
  auto theirs = std::make_shared<std::string>("theirs");
  const std::weak_ptr<std::string> seen = theirs;
  spolia::shared_ptr<std::string> ours(theirs.get(), [theirs](auto*) {});
  theirs.reset();
  check(!seen.expired() && *ours == "theirs", "ours holds theirs");
  ours.reset();
  check(seen.expired(), "and lets go of it at once");
}

// Step 2. A pointer that threads change and read at once. Before, it was a
// std::atomic<std::shared_ptr>, or was read by std::atomic_load and set by std::atomic_store.
struct settings {
  int level = 0;
  std::map<std::string, std::string> words;
};
spolia::atomic_shared_ptr<const settings> current(spolia::make_shared<const settings>());

void raise_level() {
  spolia::shared_ptr seen = current.load();
  for (;;) {
    auto fresh = spolia::make_shared<settings>(*seen);
    ++fresh->level;
    if (current.compare_exchange_weak(seen, std::move(fresh))) return;
  }
}

// Step 3. Where it is read often, use a private pointer: it changes no count.
int level_now() {
  const spolia::private_ptr seen(current);
  return seen->level;
}

// Step 4. Walks: the pointer moves on, and what it points to stays.
struct node {
  node(int k, spolia::shared_ptr<node> n) : key(k), next(std::move(n)) {}
  int key;
  spolia::atomic_shared_ptr<node> next;
};

bool contains(const spolia::atomic_shared_ptr<node>& head, int key) {
  spolia::private_ptr at(head);
  while (at && at->key != key) at = at->next;
  return at != nullptr;
}

// A walk that goes on into objects of another type.
struct shelf {
  spolia::atomic_shared_ptr<node> first;
};

int first_key(const spolia::atomic_shared_ptr<shelf>& where) {
  spolia::private_ptr at(where);
  const spolia::atomic_shared_ptr<node>& first = at->first;  // before `at` is moved from
  const spolia::private_ptr in(std::move(at), first);
  return in->key;
}

// Step 5. What an atomic location gave up ends later. Where that matters, call drain().
void ends_when_told() {
  static int open_files = 0;
  struct file {
    file() { ++open_files; }
    ~file() { --open_files; }
  };
  spolia::atomic_shared_ptr<file> log(spolia::make_shared<file>());
  log.store(nullptr);
  check(spolia::counted::drain(), "no thread looks at it");
  check(open_files == 0, "drain ends what no thread looks at");
}

// Step 6. A lock that destructors take, too.
std::mutex registry;
struct registered {
  ~registered() { const std::lock_guard lock(registry); }
};

void change_under_a_lock(spolia::atomic_shared_ptr<registered>& where) {
  const spolia::counted::no_destructors quiet;
  const std::lock_guard lock(registry);
  where = spolia::make_shared<registered>();
}

}  // namespace

int main() {
  plain_pointers();
  a_strangers_pointer();

  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) {
        raise_level();
        check(level_now() > 0, "what was raised stays so");
      }
    });
  }
  for (std::thread& t : threads) t.join();
  check(level_now() == 4000, "no change was lost");

  spolia::atomic_shared_ptr<node> head;
  for (int i = 0; i < 100; ++i) head = spolia::make_shared<node>(i, head.load());
  check(contains(head, 0) && !contains(head, 100), "the list is whole");
  const spolia::atomic_shared_ptr<shelf> shelves(spolia::make_shared<shelf>());
  spolia::private_ptr(shelves)->first = head.load();
  check(first_key(shelves) == 99, "the walk goes on in what the shelf holds");

  ends_when_told();

  spolia::atomic_shared_ptr<registered> where;
  for (int i = 0; i < 10000; ++i) change_under_a_lock(where);
  check(spolia::counted::statistics().waiting() < 5000, "they end once the lock is free");

  // Step 7. At the end of the program nothing is drained unless you ask for it.
  check(spolia::counted::drain(), "no thread looks at anything");
  const spolia::counted::collector_counts c = spolia::counted::statistics();
  check(c.waiting() == 0, "everything that was given up has ended");
  std::printf("%llu references given up, %llu waiting, %llu epochs\n",
              static_cast<unsigned long long>(c.logged),
              static_cast<unsigned long long>(c.waiting()),
              static_cast<unsigned long long>(c.epochs));
  return 0;
}

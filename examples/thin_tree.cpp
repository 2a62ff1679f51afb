// SPDX-License-Identifier: Apache-2.0
// Readers walk a tree of thin pointers while a writer changes it. Then one line does the same with
// a container that is written over such pointers.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/map.hpp>
#include <spolia/memory.hpp>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "thin_tree: %s\n", what);
  std::exit(1);
}

// A node takes as much room as one that has no count: its links are one word each.
struct node {
  explicit node(long k) : key(k) {}
  const long key;
  spolia::atomic_thin_ptr<node> left;
  spolia::atomic_thin_ptr<node> right;
};
static_assert(sizeof(node) == 3 * sizeof(long));

// Readers hold what they read by a private pointer, and change no count.
bool contains(const spolia::atomic_thin_ptr<node>& root, long key) {
  spolia::private_thin_ptr at(root);
  while (at && at->key != key) at = key < at->key ? at->left : at->right;
  return at != nullptr;
}

// To be called by one thread at a time: the link that it walks to must not go away meanwhile.
void insert(spolia::atomic_thin_ptr<node>& root, long key) {
  spolia::atomic_thin_ptr<node>* link = &root;
  for (spolia::private_thin_ptr at(root); at; at = *link) {
    if (at->key == key) return;
    link = key < at->key ? &at->left : &at->right;
  }
  *link = spolia::make_thin<node>(key);
}

void own_tree() {
  spolia::atomic_thin_ptr<node> root(spolia::make_thin<node>(500));
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      for (long i = 0; i < 20000; ++i) check(contains(root, 500), "the root's key is there");
    });
  }
  for (long i = 0; i < 1000; ++i) insert(root, i * 7919 % 1000);
  for (std::thread& t : readers) t.join();
  for (long i = 0; i < 1000; ++i) check(contains(root, i), "each key is there");

  // A walk's result may leave the thread: it becomes a counted pointer.
  const spolia::private_thin_ptr at(root);
  const spolia::thin_ptr<node> kept = at.share_out();
  root = nullptr;
  std::thread([kept] { check(kept->key == 500, "it outlives the tree"); }).join();
}

void ready_made() {
  spolia::counted_btree<std::string, int> stock;
  stock.insert("nails", 100);
  stock.insert_or_assign("nails", 80);
  check(stock.find("nails") == 80, "it was replaced");
  check(stock.visit("nails", [](const int& n) { std::printf("%d nails\n", n); }), "it is there");
  check(stock.erase("nails") && stock.empty_approx(), "nothing is left");

  // The same source over shared_ptr and its locations.
  spolia::counted_hash<std::string, int, spolia::shared_family> other;
  other.insert("screws", 5);
  check(other.contains("screws"), "it is there");
}

}  // namespace

int main() {
  own_tree();
  ready_made();
  check(spolia::counted::drain(), "no thread looks at anything");
  return 0;
}

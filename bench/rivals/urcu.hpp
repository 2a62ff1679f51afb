// SPDX-License-Identifier: Apache-2.0
// urcu.hpp: sets over liburcu, in the way its users write them. The headers of liburcu declare one
// variant of RCU (a `flavor` there) for each translation unit, so urcu.cpp.in is compiled once for
// each variant.
//
// A Variant has name, head (a block's place in a queue), thread (registers one while it lives),
// lock(), unlock(), quiescent(), call(head*, f), barrier(), and api() for the hash table.
#pragma once

#include <spolia/base/counters.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <urcu/rculfhash.h>
#include <urcu/rculist.h>
#include "probe.hpp"
#include "trial.hpp"

namespace bench {

/// A read section, as long as this lives. After it the thread says that it is in a quiescent state:
/// the variant qsbr needs that from time to time, and the others ignore it.
template <class Variant>
struct urcu_section {
  urcu_section() noexcept { Variant::lock(); }
  ~urcu_section() {
    Variant::unlock();
    Variant::quiescent();
  }
  urcu_section(const urcu_section&) = delete;
  urcu_section& operator=(const urcu_section&) = delete;
};

/// Blocks on their way from erase to delete. call_rcu has one thread of the library free them.
template <class Variant, class Node>
class urcu_bin {
 public:
  /// One thread's count of what it retired.
  spolia::tally& count() {
    const std::lock_guard<std::mutex> held(mutex_);
    return *counts_.emplace_back(std::make_unique<spolia::tally>());
  }

  static void retire(Node* n) {
    Variant::call(&n->later, [](typename Variant::head* h) {
      delete reinterpret_cast<Node*>(reinterpret_cast<char*>(h) - offsetof(Node, later));
      freed_.add();
    });
  }

  std::uint64_t retired() {
    const std::lock_guard<std::mutex> held(mutex_);
    std::uint64_t sum = 0;
    for (const auto& c : counts_) sum += c->value();
    return sum;
  }
  std::uint64_t freed() const { return freed_.value() - freed_before_; }

 private:
  // Of all sets of this variant and kind that there ever were. Only the library's thread adds.
  static inline spolia::tally freed_;
  const std::uint64_t freed_before_ = freed_.value();
  std::mutex mutex_;
  std::vector<std::unique_ptr<spolia::tally>> counts_;
};

/// What all sets here have in common. Set has insert, erase and contains, called in a read section.
template <class Variant, class Set, class Node>
class urcu_set {
 public:
  class worker {
   public:
    explicit worker(urcu_set& s) : set_(s.set_), retired_(s.bin_.count()) {}
    bool insert(std::uint64_t key) {
      const urcu_section<Variant> inside;
      return set_.insert(key);
    }
    bool erase(std::uint64_t key) {
      const urcu_section<Variant> inside;
      Node* const n = set_.erase(key);
      if (n == nullptr) return false;
      retired_.add();
      urcu_bin<Variant, Node>::retire(n);
      return true;
    }
    bool contains(std::uint64_t key) {
      const urcu_section<Variant> inside;
      return set_.contains(key);
    }

   private:
    typename Variant::thread here_;
    Set& set_;
    spolia::tally& retired_;
  };

  explicit urcu_set(const set_options& o) : set_(o.keys / 2) {}
  ~urcu_set() { Variant::barrier(); }
  urcu_set(const urcu_set&) = delete;
  urcu_set& operator=(const urcu_set&) = delete;

  template <class Park>
  void stall(Park&& park) {
    const typename Variant::thread here;
    const urcu_section<Variant> inside;
    park();
  }

  sums counted() {
    return {.retired = bin_.retired(), .freed = bin_.freed(), .epochs = std::nullopt};
  }
  std::optional<std::uint64_t> garbage() {
    const std::uint64_t freed = bin_.freed();  // first, or it could be more than was retired
    return bin_.retired() - freed;
  }
  static void describe(trial_result&, std::size_t) {}

 private:
  Set set_;
  urcu_bin<Variant, Node> bin_;
};

template <class Variant>
struct urcu_list_node {
  cds_list_head link;
  typename Variant::head later;
  std::uint64_t key;
  std::uint64_t value;
};

/// The textbook's list: sorted, read without locks, written under one.
template <class Variant>
class urcu_list {
 public:
  using node = urcu_list_node<Variant>;

  explicit urcu_list(std::uint64_t) { CDS_INIT_LIST_HEAD(&head_); }
  ~urcu_list() {
    for (cds_list_head* at = head_.next; at != &head_;) {
      cds_list_head* const next = at->next;
      delete of(at);
      at = next;
    }
  }
  urcu_list(const urcu_list&) = delete;
  urcu_list& operator=(const urcu_list&) = delete;

  bool insert(std::uint64_t key) {
    const std::lock_guard<std::mutex> held(writing_);
    cds_list_head* const at = from(key);
    if (at != &head_ && of(at)->key == key) return false;
    // Before `at`: the library's name for that is "at the tail of the list that at begins".
    cds_list_add_tail_rcu(&(new node{{}, {}, key, key})->link, at);
    return true;
  }

  node* erase(std::uint64_t key) {
    const std::lock_guard<std::mutex> held(writing_);
    cds_list_head* const at = from(key);
    if (at == &head_ || of(at)->key != key) return nullptr;
    cds_list_del_rcu(at);
    return of(at);
  }

  bool contains(std::uint64_t key) {
    cds_list_head* const at = from(key);
    return at != &head_ && of(at)->key == key;
  }

 private:
  static node* of(cds_list_head* at) { return reinterpret_cast<node*>(at); }

  /// The first link with no smaller key, or the head.
  cds_list_head* from(std::uint64_t key) {
    cds_list_head* at = rcu_dereference(head_.next);
    while (at != &head_ && of(at)->key < key) at = rcu_dereference(at->next);
    return at;
  }

  cds_list_head head_;
  alignas(spolia::cache_line) std::mutex writing_;
};

template <class Variant>
struct urcu_hash_node {
  cds_lfht_node link;
  typename Variant::head later;
  std::uint64_t key;
  std::uint64_t value;
};

/// The hash table of liburcu, with a bucket for each key and without a count of keys: its best
/// case.
template <class Variant>
class urcu_hash {
 public:
  using node = urcu_hash_node<Variant>;

  explicit urcu_hash(std::uint64_t keys)
      : table_(cds_lfht_new_flavor(buckets(keys), 1, 0, 0, Variant::api(), nullptr)) {
    if (table_ == nullptr) throw std::bad_alloc();
  }
  ~urcu_hash() {
    clear();
    cds_lfht_destroy(table_, nullptr);
  }
  urcu_hash(const urcu_hash&) = delete;
  urcu_hash& operator=(const urcu_hash&) = delete;

  bool insert(std::uint64_t key) {
    auto made = std::make_unique<node>(node{{}, {}, key, key});
    cds_lfht_node_init(&made->link);
    if (cds_lfht_add_unique(table_, hash(key), equal, &key, &made->link) != &made->link) {
      return false;
    }
    (void)made.release();
    return true;
  }

  node* erase(std::uint64_t key) {
    cds_lfht_iter at;
    cds_lfht_lookup(table_, hash(key), equal, &key, &at);
    cds_lfht_node* const found = cds_lfht_iter_get_node(&at);
    return found != nullptr && cds_lfht_del(table_, found) == 0 ? of(found) : nullptr;
  }

  bool contains(std::uint64_t key) const {
    cds_lfht_iter at;
    cds_lfht_lookup(table_, hash(key), equal, &key, &at);
    return cds_lfht_iter_get_node(&at) != nullptr;
  }

 private:
  static node* of(cds_lfht_node* link) { return reinterpret_cast<node*>(link); }
  static unsigned long hash(std::uint64_t key) { return random_source(key).next(); }
  static int equal(cds_lfht_node* link, const void* key) {
    return of(link)->key == *static_cast<const std::uint64_t*>(key) ? 1 : 0;
  }
  static unsigned long buckets(std::uint64_t keys) {
    unsigned long n = 1;
    while (n < keys) n *= 2;
    return n;
  }

  void clear() {
    const typename Variant::thread here;
    std::vector<node*> gone;
    {
      const urcu_section<Variant> inside;
      cds_lfht_iter at;
      cds_lfht_first(table_, &at);
      for (; cds_lfht_iter_get_node(&at) != nullptr; cds_lfht_next(table_, &at)) {
        cds_lfht_node* const link = cds_lfht_iter_get_node(&at);
        if (cds_lfht_del(table_, link) == 0) gone.push_back(of(link));
      }
    }
    for (node* const n : gone) delete n;  // no other thread is left that could read it
  }

  cds_lfht* table_;
};

template <class Variant>
void add_urcu_probes(std::vector<probe>& all) {
  auto here = std::make_shared<typename Variant::thread>();
  // Lives as long as the program.
  auto source = std::make_shared<int*>(new int);
  all.push_back({Variant::name,
                 "enter+leave",
                 [here] {
                   return ns_each([] {
                     Variant::lock();
                     touch();
                     Variant::unlock();
                   });
                 },
                 {}});
  all.push_back({Variant::name,
                 "enter+leave+quiescent",
                 [here] {
                   return ns_each([] {
                     const urcu_section<Variant> inside;
                     touch();
                   });
                 },
                 {}});
  all.push_back({Variant::name,
                 "protect",
                 [here, source] {
                   const urcu_section<Variant> inside;
                   return ns_each([&] { use(rcu_dereference(*source)); });
                 },
                 {}});
  all.push_back({Variant::name,
                 "enter+protect+leave",
                 [here, source] {
                   return ns_each([&] {
                     Variant::lock();
                     use(rcu_dereference(*source));
                     Variant::unlock();
                   });
                 },
                 {}});
}

/// Called before main by each generated source.
template <class Variant>
bool add_urcu() {
  rival_probes().push_back(add_urcu_probes<Variant>);
  using list = urcu_list<Variant>;
  using hash = urcu_hash<Variant>;
  return add_rival("urcu_list", Variant::name,
                   run_trial<urcu_set<Variant, list, typename list::node>>) &&
         add_rival("urcu_hash", Variant::name,
                   run_trial<urcu_set<Variant, hash, typename hash::node>>);
}

}  // namespace bench

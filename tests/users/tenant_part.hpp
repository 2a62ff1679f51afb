// SPDX-License-Identifier: Apache-2.0
// The plugin of tenant.hpp; a source that includes this says in which build variant
// (SPOLIA_CHECKS).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <spolia/live.hpp>
#include <spolia/memory.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>

#include "users/tenant.hpp"

// Not in a namespace without a name: what is made of a type from there is no other plugin's anyway.
namespace tenants {

struct node {
  explicit node(int r) : round(r), again(r) {}
  int round;
  int again;
};
template <int Kind>
struct other_node {
  int filler[Kind + 1] = {};
};
template <std::size_t Bytes>
struct bulk {
  unsigned char bytes[Bytes] = {};
};

/// What ended by the code of this plugin.
SPOLIA_OWN_COPY inline int ended_here = 0;

using blocks = spolia::domain<spolia::token, spolia::batch>;
struct made_block : blocks::header {
  ~made_block() { ++ended_here; }
};
struct deleted_block : blocks::header {};
struct plain_object {};
struct counts_one {
  void operator()(auto* object) const {
    ++ended_here;
    delete object;
  }
};
/// Its body counts when a version of it comes home, its fixed part when it ends.
struct account {
  account() = default;
  account(const account&) = default;
  account& operator=(const account& from) noexcept {
    ++ended_here;
    balance = from.balance;
    return *this;
  }
  int balance = 0;

  struct fixed {
    fixed() = default;
    fixed(fixed&& from) noexcept : owns(std::exchange(from.owns, false)) {}
    ~fixed() { ended_here += owns ? 1 : 0; }
    bool owns = true;
  };
};
}  // namespace tenants

namespace {

using namespace spolia::test;
using namespace tenants;

constexpr int keys_each = 8;

struct premises {
  spolia::snapshot_hash<int, std::string> texts;
  spolia::snapshot_tree<int, int> numbers;
  spolia::atomic_shared_ptr<const std::string> word{
      spolia::make_shared<const std::string>(40U, 'a')};
  spolia::atomic_thin_ptr<node> top{spolia::make_thin<node>(0)};
  spolia::rlu_hash<int, int> counts{16};
  spolia::timeline own_time;
};
premises& shared() {
  static premises it;
  return it;
}

/// What stands at keys from first on is of one round, the same in both maps, and stays at `now`.
const char* look(int first, const spolia::snapshot& now) {
  premises& p = shared();
  const int* const number = p.numbers.find(now, first);
  if (number == nullptr) return "a snapshot lacks a number";
  const std::string text = std::to_string(*number);
  for (int look = 0; look < 2; ++look) {
    for (int k = first; k < first + keys_each; ++k) {
      const int* const n = p.numbers.find(now, k);
      const std::string* const t = p.texts.find(now, k);
      if (n == nullptr || t == nullptr) return "a snapshot lacks a pair";
      if (*n != *number || *t != text) {
        return look == 0 ? "a snapshot saw a part of a batch"
                         : "a snapshot saw something else later";
      }
    }
    std::this_thread::yield();
  }
  return nullptr;
}

const char* change(int first, int round) {
  premises& p = shared();
  spolia::changes all;
  for (int k = first; k < first + keys_each; ++k) {
    all.insert_or_assign(p.texts, k, std::to_string(round));
    all.insert_or_assign(p.numbers, k, round);
  }
  all.commit();
  return p.numbers.find(first) == round ? nullptr : "a batch that was made does not show";
}

const char* use_pointers(int round) {
  premises& p = shared();
  p.word.store(spolia::make_shared<const std::string>(40U, static_cast<char>('a' + round % 26)));
  const spolia::private_ptr word(p.word);
  if (word->size() != 40 || word->front() != word->back()) return "a text is damaged";
  p.top.store(spolia::make_thin<node>(round));
  const spolia::private_thin_ptr top(p.top);
  return top->round == top->again ? nullptr : "a thin object is damaged";
}

const char* use_sections(int key, int round) {
  premises& p = shared();
  p.counts.insert_or_assign(key, round);
  return p.counts.find(key) == round ? nullptr : "read-log-update lost a change of this thread's";
}

const char* work(int thread, int workers, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    if (const char* const wrong = change(thread * keys_each, round)) return wrong;
    const spolia::snapshot now("tenant");
    if (const char* const wrong = look(thread * keys_each, now)) return wrong;
    // Of a second timeline as well: a way of its own to announce what is seen.
    const spolia::snapshot both({spolia::default_timeline(), shared().own_time}, "both");
    if (const char* const wrong = look(thread * keys_each, both)) return wrong;
    const int next = (thread + 1) % workers * keys_each;
    if (shared().numbers.contains(now, next)) {
      if (const char* const wrong = look(next, now)) return wrong;
    }
    if (const char* const wrong = use_pointers(round)) return wrong;
    if (const char* const wrong = use_sections(thread, round)) return wrong;
  }
  return nullptr;
}

void leave() {
  shared().word.store(nullptr);
  shared().top.store(nullptr);
}

template <int... Kind>
void use_kinds_of(int count, std::integer_sequence<int, Kind...>) {
  ((Kind < count ? static_cast<void>(spolia::make_thin<other_node<Kind>>()) : void()), ...);
}
void use_kinds(int count) { use_kinds_of(count, std::make_integer_sequence<int, most_kinds>()); }

/// What each of these weighs shows if it does not come back to where it was taken from.
void churn(int count) {
  spolia::atomic_shared_ptr<bulk<100>> place;
  for (int i = 0; i < count; ++i) {
    (void)spolia::make_thin<bulk<60>>();
    (void)spolia::make_shared<bulk<120>>();
    (void)spolia::make_shared<bulk<10>[]>(20);
    (void)spolia::shared_ptr<bulk<8>>(new bulk<8>);
    const auto whole = spolia::make_shared<bulk<100>>();
    place.store({whole, whole.get() + 1});  // an alias
  }
  spolia::counted::drain();
}

int end_blocks(int count) {
  ended_here = 0;
  {
    blocks all;
    for (int i = 0; i < count; ++i) {
      auto* const made = all.make<made_block>();
      auto here = all.enter();
      here.retire(made);
      here.retire(new deleted_block, counts_one{});
      here.retire(new plain_object, counts_one{});
    }
  }
  spolia::rlu::domain bank;
  for (int i = 0; i < count; ++i) {
    const auto changed = bank.make<account>({});
    const auto freed = bank.make<account>({});
    bank.update([&](auto& in) {
      auto mine = in.try_lock(changed);
      if (mine && in.free(freed)) mine->balance = i;
    });
    bank.discard(changed);  // brings the version home first
  }
  bank.collect();
  bank.collect();
  return ended_here;
}

bool announces_here() {
  const spolia::snapshot both({spolia::default_timeline(), shared().own_time}, "both");
  return spolia::core::here.number_plus_one != 0;
}

const void* timeline() { return &spolia::default_timeline(); }
prices* make() { return std::make_unique<prices>().release(); }
void end(prices* p) { const std::unique_ptr<prices> ended(p); }
void change_prices(prices& p, int round) {
  for (int i = 0; i < price_count; ++i) {
    p.insert_or_assign(i, std::string(40, static_cast<char>('a' + round % 26)));
  }
}
long count_prices(const prices& p, const spolia::snapshot& now) {
  long found = 0;
  const std::string* const first = p.find(now, 0);
  for (const auto& [key, price] : p.all(now)) {
    if (first == nullptr || price != *first) return -1;
    ++found;
  }
  return found;
}

struct thing {
  spolia::live<int> value{1};
  std::optional<spolia::live<int>::reading> held{};
  spolia::atomic_shared_ptr<int> shared{spolia::make_shared<int>(1)};
  spolia::atomic_thin_ptr<int> thin{spolia::make_thin<int>(1)};
  spolia::rlu::domain bank;
};

void* make_thing() { return std::make_unique<thing>().release(); }

void use_thing(void* given, int kind) {
  auto& it = *static_cast<thing*>(given);
  switch (kind) {
    case 0:
      it.value.store(*it.value.read() + 1);
      break;
    case 1:
      for (int i = 0; i < 50'000; ++i) it.shared.store(spolia::make_shared<int>(i));
      break;
    case 2:
      for (int i = 0; i < 50'000; ++i) it.thin.store(spolia::make_thin<int>(i));
      break;
    case 3:
      if (it.held) {
        // Of a thread that has read one of this copy's, and does nothing but read.
        const spolia::live<int> own{*it.held.value()};
        static_cast<void>(own.copy());
        it.held.reset();
      } else {
        it.held.emplace(it.value.read());
        it.value.store(2);
      }
      break;
    default:
      it.bank.read([](auto&) {});
  }
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] extern const tenant tenant_functions;
const tenant tenant_functions{&timeline,   &make,       &end,      &change_prices, &count_prices,
                              &use_kinds,  &work,       &leave,    &churn,         &announces_here,
                              &end_blocks, &make_thing, &use_thing};
}

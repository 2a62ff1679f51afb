// SPDX-License-Identifier: Apache-2.0
// Sections of several threads that take one step at a time, in any order: what each of them reads,
// locks, frees and commits is what a list of all commits says.

#include <gtest/gtest.h>

#include <spolia/rlu.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "support/parked_thread.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// The tail says the same as the value.
struct body {
  using fixed = std::shared_ptr<int>;  // shared by all: how many objects there are
  using tail = long;
  long value = 0;
};
using pointer = rlu::ptr<body>;

void write(const rlu::copy<body>& to, long value) {
  to->value = value;
  for (long& each : to.tail()) each = value;
}

/// A thread that does what it is told, one thing at a time.
template <class Domain>
class actor {
 public:
  using reader = typename Domain::reader;
  using writer = typename Domain::writer;

  explicit actor(Domain& d) : home_(d), thread_([this] { live(); }) {}
  actor(const actor&) = delete;
  actor& operator=(const actor&) = delete;
  ~actor() {
    tell({});
    thread_.join();
  }

  /// Begins a section, and returns within it.
  void begin_reading() {
    tell([this] {
      home_.read("in step", [this](reader& in) {
        in_ = &in;
        take_part();
        return true;
      });
    });
  }
  void begin_writing() {
    tell([this] {
      how_ = home_.attempt([this](writer& in) {
        in_ = out_ = &in;
        take_part();
      });
    });
  }
  rlu::outcome end() {
    tell({});
    in_ = out_ = nullptr;
    return how_;
  }
  /// Within the section, or outside of sections.
  template <class F>
  void tell(const F& f)
    requires std::is_invocable_v<const F&>
  {
    tell(std::function<void()>(f));
  }
  void tell(std::function<void()> f) {
    what_ = std::move(f);
    go_.post();
    done_.wait();
  }
  reader& in() { return *in_; }
  writer& out() { return *out_; }
  [[nodiscard]] bool writes() const { return out_ != nullptr; }

 private:
  /// Until it is told nothing.
  void follow() {
    for (;;) {
      go_.wait();
      const std::function<void()> what = std::move(what_);
      if (!what) return;
      what();
      done_.post();
    }
  }
  void take_part() {
    done_.post();
    follow();
  }
  void live() {
    follow();
    done_.post();
  }

  Domain& home_;
  posix_semaphore go_;
  posix_semaphore done_;
  std::function<void()> what_;
  reader* in_ = nullptr;
  writer* out_ = nullptr;
  rlu::outcome how_{};
  std::thread thread_;
};

struct change {
  std::optional<long> to;  // nothing: it is freed
};

template <class Domain>
class in_step : public testing::Test {
 protected:
  static constexpr std::size_t most_objects = 24;
  static constexpr std::size_t actors = 4;

  /// The values of an object, by the number of the commit that made them; then perhaps its end.
  struct thing {
    pointer at;
    std::map<std::size_t, change> history;
  };
  using number = std::size_t;  // of a thing
  struct part {
    std::unique_ptr<actor<Domain>> who;
    bool open = false;
    std::size_t began = 0;  // commits that there were
    bool doomed = false;
    bool cancelled = false;
    bool serializable = false;
    std::set<number> read;
    std::map<number, change> wrote;
    std::set<number> locked;                      // those that it wrote and others
    std::vector<std::pair<pointer, long>> fresh;  // made by it
  };

  in_step() {
    for (part& p : parts) p.who = std::make_unique<actor<Domain>>(home);
  }
  ~in_step() override {
    for (part& p : parts) {
      if (p.open) p.who->end();
      p.who.reset();
    }
    for (const auto& [n, t] : things) {
      if (last(t).to) home.discard(t.at);
    }
    for (int i = 0; i < 4; ++i) home.collect();
    EXPECT_EQ(alive.use_count(), 1) << "objects are left";
  }

  static const change& last(const thing& t) { return t.history.rbegin()->second; }
  /// What a section that began after so many commits sees; null: there is no such object.
  static const long* seen(const thing& t, std::size_t began) {
    const auto later = t.history.upper_bound(began);
    if (later == t.history.begin()) return nullptr;
    const change& then = std::prev(later)->second;
    return then.to ? &*then.to : nullptr;
  }
  /// Objects that a section may follow a pointer to.
  std::optional<number> any_seen(const part& p) {
    std::vector<number> all;
    for (const auto& [n, t] : things) {
      const auto own = p.wrote.find(n);
      if (own != p.wrote.end() ? own->second.to.has_value() : seen(t, p.began) != nullptr) {
        all.push_back(n);
      }
    }
    if (all.empty()) return {};
    return all[random.below(all.size())];
  }
  bool can_lock(const part& p, number n) const {
    if (p.locked.contains(n)) return true;
    for (const part& other : parts) {
      if (&other != &p && other.open && other.locked.contains(n)) return false;
    }
    return things.at(n).history.rbegin()->first <= p.began;
  }

  void begin(part& p) {
    p.began = commits;
    p.open = true;
    if (random.chance(1, 3)) return p.who->begin_reading();
    p.who->begin_writing();
    p.serializable = random.chance(1, 4);
    if (p.serializable) p.who->tell([&] { p.who->out().serializable(); });
  }
  void expect_value(part& p, pointer at, long expected) {
    p.who->tell([&] {
      const auto shown = p.who->in().read(at);
      EXPECT_EQ(shown->value, expected);
      for (const long each : shown.tail()) EXPECT_EQ(each, expected);
      EXPECT_EQ(p.who->in().get(at, &body::value), expected);
    });
  }
  void read(part& p) {
    for (const auto& [at, value] : p.fresh) expect_value(p, at, value);
    const auto n = any_seen(p);
    if (!n) return;
    p.read.insert(*n);
    const auto own = p.wrote.find(*n);
    expect_value(p, things.at(*n).at,
                 own != p.wrote.end() ? *own->second.to : *seen(things.at(*n), p.began));
  }
  /// Whether the lock was had is what the list says.
  void note_lock(part& p, number n, bool had) {
    EXPECT_EQ(had, can_lock(p, n));
    had ? static_cast<void>(p.locked.insert(n)) : static_cast<void>(p.doomed = true);
  }
  void write_one(part& p) {
    const auto n = any_seen(p);
    if (!n || p.doomed) return;
    const long value = ++made;
    p.who->tell([&] {
      const auto mine = p.who->out().try_lock(things.at(*n).at);
      note_lock(p, *n, static_cast<bool>(mine));
      if (!mine) return;
      write(mine, value);
      p.wrote[*n] = {value};
    });
  }
  void keep_one(part& p) {
    const auto n = any_seen(p);
    if (!n || p.doomed) return;
    p.who->tell([&] { note_lock(p, *n, p.who->out().try_lock_const(things.at(*n).at)); });
  }
  void free_one(part& p) {
    const auto n = any_seen(p);
    if (!n || p.doomed || things.size() < most_objects / 2) return;
    p.who->tell([&] {
      const bool had = p.who->out().free(things.at(*n).at);
      note_lock(p, *n, had);
      if (had) p.wrote[*n] = {};
    });
  }
  void make_one(part& p) {
    if (p.doomed || things.size() >= most_objects) return;
    const long value = ++made;
    p.who->tell([&] {
      const auto fresh = p.who->out().template make<body>(alive, {}, random.below(6));
      write(fresh, value);
      p.fresh.emplace_back(fresh.self(), value);
    });
  }
  /// A section within: a part of the outer one.
  void nest(part& p) {
    const auto n = any_seen(p);
    if (!n || p.doomed) return;
    const long value = ++made;
    p.who->tell([&] {
      home.update([&](auto& in) {
        const auto mine = in.try_lock(things.at(*n).at);
        note_lock(p, *n, static_cast<bool>(mine));
        if (!mine) return;
        write(mine, value);
        p.wrote[*n] = {value};
      });
    });
  }
  void drop(part& p) {
    if (p.doomed) return;
    p.cancelled = p.doomed = true;
    p.who->tell([&] { p.who->out().cancel(); });
  }

  void finish(part& p) {
    const bool wrote = p.who->writes();
    bool commits_now = wrote && !p.doomed;
    if (commits_now && p.serializable && !p.locked.empty()) {
      for (const number n : p.read) commits_now = commits_now && can_lock(p, n);
    }
    const rlu::outcome how = p.who->end();
    if (wrote) {
      EXPECT_EQ(how, commits_now   ? rlu::outcome::committed
                     : p.cancelled ? rlu::outcome::cancelled
                                   : rlu::outcome::conflict);
    }
    if (commits_now) {
      ++commits;
      for (const auto& [n, to] : p.wrote) things.at(n).history[commits] = to;
      for (const auto& [at, value] : p.fresh) things[++numbers] = {at, {{commits, {value}}}};
    }
    auto who = std::move(p.who);
    p = {};
    p.who = std::move(who);
    forget_the_dead();
  }
  /// Objects that no section can reach any more.
  void forget_the_dead() {
    std::erase_if(things, [&](const auto& entry) {
      const thing& t = entry.second;
      if (last(t).to) return false;
      for (const part& p : parts) {
        if (p.open && p.began < t.history.rbegin()->first) return false;
      }
      return true;
    });
  }

  void step_outside(part& p) {
    switch (random.below(8)) {
      case 0:
        p.who->tell([&] { home.collect(); });
        return;
      case 1:
        if (random.chance(1, 4)) p.who = std::make_unique<actor<Domain>>(home);
        return;
      case 2: {
        if (things.size() >= most_objects) return;
        const long value = ++made;
        pointer at;
        p.who->tell([&] { at = home.template make<body>(alive, {value}, 0); });
        things[++numbers] = {at, {{0, {value}}}};
        return;
      }
      default:
        begin(p);
    }
  }
  void step_within(part& p) {
    const std::uint64_t what = random.below(p.who->writes() ? 16 : 5);
    if (what < 4) return read(p);
    if (what == 4) return finish(p);
    if (what < 9) return write_one(p);
    if (what == 9) return keep_one(p);
    if (what == 10) return free_one(p);
    if (what == 11) return make_one(p);
    if (what == 12) return nest(p);
    if (what == 13 && random.chance(1, 3)) return drop(p);
    finish(p);
  }
  void step() {
    // For a while one thread may have the domain to itself.
    const std::size_t few = 1 + static_cast<std::size_t>(made) / 200 % actors;
    part& p = parts[random.below(few)];
    p.open ? step_within(p) : step_outside(p);
    for (std::size_t i = few; i < actors; ++i) {
      if (parts[i].open && random.chance(1, 40)) finish(parts[i]);
    }
  }

  rng random{seed_for(0)};
  std::shared_ptr<int> alive = std::make_shared<int>();
  Domain home{rlu::options{
      .segment_bytes = 1024, .low_watermark = 2048, .high_watermark = 8192, .walk_watermark = 16}};
  std::size_t commits = 0;
  long made = 0;
  number numbers = 0;
  std::map<number, thing> things;
  std::array<part, actors> parts;
};

using domains = testing::Types<rlu::domain, rlu::basic_domain<logical_clock, domain<token>>>;
TYPED_TEST_SUITE(in_step, domains);

TYPED_TEST(in_step, sections_are_as_their_order_says) {
  for (int i = 0; i < 20000; ++i) {
    this->step();
    if (this->HasFailure()) FAIL() << "at step " << i;
  }
  for (auto& p : this->parts) {
    if (p.open) this->finish(p);
  }
  const rlu::statistics all = this->home.stats();
  EXPECT_GT(all.commits, 500U);
  EXPECT_GT(all.walks, 500U);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// counted_trial.hpp: the tests of the paper on one kind of pointer. (Tripp, Hyde, Grossman-Ponemon,
// ISMM 2018, sections 4.3 and 4.4)
//
// Each kind is a family of pointers as counted/families.hpp says; the simple ones are made of the
// two templates below.
//
//   contention   all threads read one object, each time by a new local pointer
//   set          each thread has a pointer, and sets it to one object and to another by turns
//   allocate     each thread fills an array of pointers with new objects, and empties it
//   read, hot, insert, remove: see counted_maps.hpp; strings, mixed: counted_strings.hpp;
//   destroy: counted_pauses.hpp; parts, stream, burst: counted_inside.hpp
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "probe.hpp"

namespace bench {

/// Runs `work(thread)` again and again, each call counting as so many operations as it returns.
template <class MakeWork>
counted_result run_threads(const counted_options& o, std::uint32_t count, MakeWork make_work) {
  using steady = std::chrono::steady_clock;
  spolia::atomic<std::uint32_t> ready{0};
  spolia::atomic<bool> go{false};
  spolia::atomic<bool> stop{false};
  std::vector<counted_result> each(count);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      auto work = make_work(t);
      work();  // once to warm up
      ready.fetch_add_release(1);
      while (!go.load_acquire()) std::this_thread::yield();
      const auto start = steady::now();
      std::uint64_t done = 0;
      do {  // at least once, however late the thread got a processor
        done += work();
      } while (!stop.load_relaxed());
      each[t].operations = done;
      each[t].thread_ns = std::chrono::duration<double, std::nano>(steady::now() - start).count();
    });
  }
  while (ready.load_acquire() < count) std::this_thread::yield();
  const auto start = steady::now();
  go.store_release(true);
  std::this_thread::sleep_for(std::chrono::duration<double>(o.seconds));
  stop.store_relaxed(true);
  for (std::thread& t : threads) t.join();
  counted_result sum;
  sum.elapsed_s = std::chrono::duration<double>(steady::now() - start).count();
  for (const counted_result& r : each) {
    sum.operations += r.operations;
    sum.thread_ns += r.thread_ns;
  }
  return sum;
}

/// Locations that copies are loaded from and stored into.
template <template <class> class Pointer, template <class> class Location>
struct loaded_family {
  template <class T>
  using pointer = Pointer<T>;
  template <class T>
  using location = Location<T>;
  template <class T>
  using view = Pointer<T>;
  struct quiet {};

  template <class T>
  static Pointer<T> look(const Location<T>& from) {
    return from.load();
  }
  template <class T>
  static void step(Pointer<T>& at, const Location<T>& to) {
    at = to.load();
  }
  template <class To, class From>
  static Pointer<To> onward(Pointer<From>&& /*at*/, const Location<To>& to) {
    return to.load();
  }
  template <class T>
  static Pointer<T> load(const Location<T>& from) {
    return from.load();
  }
  template <class T>
  static void set(Location<T>& to, Pointer<T> p) {
    to.store(std::move(p));
  }
};

/// Pointers that no thread changes while others read them.
template <template <class> class Pointer>
struct plain_family {
  template <class T>
  using pointer = Pointer<T>;
  template <class T>
  using location = Pointer<T>;
  template <class T>
  static Pointer<T> look(const Pointer<T>& from) {
    return from;
  }
  template <class T>
  static Pointer<T> load(const Pointer<T>& from) {
    return from;
  }
  template <class T>
  static void set(Pointer<T>& to, Pointer<T> p) {
    to = std::move(p);
  }
};

template <class P>
counted_result contention(const counted_options& o, std::uint32_t threads) {
  typename P::template location<long> shared;
  P::template set<long>(shared, P::template make<long>(7L));
  return run_threads(o, threads, [&](std::uint32_t) {
    return [&shared] {
      for (int i = 0; i < 1024; ++i) {
        const auto seen = P::template look<long>(shared);
        use(&*seen);
      }
      return std::uint64_t{1024};
    };
  });
}

template <class P>
counted_result setting(const counted_options& o, std::uint32_t threads) {
  using location = typename P::template location<long>;
  struct three {
    location a, b, c;
  };
  return run_threads(o, threads, [&](std::uint32_t) {
    auto all = std::make_shared<three>();
    P::template set<long>(all->a, P::template make<long>(1L));
    P::template set<long>(all->b, P::template make<long>(2L));
    return [all] {
      for (int i = 0; i < 512; ++i) {
        P::template set<long>(all->c, P::template load<long>(all->a));
        touch();
        P::template set<long>(all->c, P::template load<long>(all->b));
        touch();
      }
      return std::uint64_t{1024};
    };
  });
}

/// For pointers that only read: one local pointer, set from two locations by turns.
template <class P>
counted_result looking(const counted_options& o, std::uint32_t threads) {
  using location = typename P::template location<long>;
  return run_threads(o, threads, [&](std::uint32_t) {
    auto both = std::make_shared<std::pair<location, location>>();
    P::template set<long>(both->first, P::template make<long>(1L));
    P::template set<long>(both->second, P::template make<long>(2L));
    return [both] {
      auto seen = P::template look<long>(both->first);
      for (int i = 0; i < 512; ++i) {
        P::template step<long>(seen, both->second);
        use(&*seen);
        P::template step<long>(seen, both->first);
        use(&*seen);
      }
      return std::uint64_t{1024};
    };
  });
}

template <class P>
counted_result allocation(const counted_options& o, std::uint32_t threads) {
  using location = typename P::template location<long>;
  return run_threads(o, threads, [&](std::uint32_t) {
    return [] {
      constexpr std::size_t many = 10000;
      auto all = std::make_unique<location[]>(many);
      for (std::size_t i = 0; i < many; ++i) {
        P::template set<long>(all[i], P::template make<long>(5L));
      }
      return std::uint64_t{many};
    };
  });
}

}  // namespace bench

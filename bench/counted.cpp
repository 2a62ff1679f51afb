// SPDX-License-Identifier: Apache-2.0
#include "counted.hpp"

#include <spolia/counted/one_word_router.hpp>
#include <spolia/counted/tree_router.hpp>
#include <spolia/memory.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>

#include "counted_inside.hpp"
#include "counted_pauses.hpp"
#include "counted_strings.hpp"
#include "options.hpp"
#include "record.hpp"

namespace bench {
namespace {

/// Leaks what it should free: a bound for all others, not a correct program.
struct raw_family {
  template <class T>
  using pointer = T*;
  template <class T>
  using location = spolia::atomic<T*>;
  template <class T>
  using view = T*;
  struct quiet {};

  template <class T, class... Args>
  static T* make(Args&&... args) {
    return new T(std::forward<Args>(args)...);
  }
  template <class T>
  static T* look(const location<T>& from) {
    return from.load_acquire();
  }
  template <class T>
  static void step(T*& at, const location<T>& to) {
    at = to.load_acquire();
  }
  template <class To, class From>
  static To* onward(From* /*at*/, const location<To>& to) {
    return to.load_acquire();
  }
  template <class T>
  static T* load(const location<T>& from) {
    return from.load_acquire();
  }
  template <class T>
  static void set(location<T>& to, T* p) {
    to.store_release(p);
  }
};

/// Private pointers themselves, as a program has them that makes a container of its own; ours walk
/// by something simpler.
template <class Family>
struct private_family : Family {
  template <class T>
  using location = typename Family::template location<T>;
  template <class T>
  using view = typename Family::template private_pointer<T>;
  template <class T>
  static view<T> look(const location<T>& from) {
    return view<T>(from);
  }
  template <class T>
  static void step(view<T>& at, const location<T>& to) {
    at = to;
  }
  template <class To, class From>
  static view<To> onward(view<From>&& at, const location<To>& to) {
    return view<To>(std::move(at), to);
  }

 private:
  class first_look;
};
using private_shared = private_family<spolia::shared_family>;
using private_thin = private_family<spolia::thin_family>;

/// The nodes and locations of shared_family, read as raw pointers are. So it shows what counts
/// beside the objects cost, and what pins cost. Precondition: no thread changes anything meanwhile.
struct unpinned_family : spolia::shared_family {
  template <class T>
  using view = T*;
  template <class T>
  static T* look(const location<T>& from) {
    return location<T>::units::made_object(
        spolia::counted::detail::access::words_of(from).load_acquire());
  }
  template <class T>
  static void step(T*& at, const location<T>& to) {
    at = look<T>(to);
  }
  template <class To, class From>
  static To* onward(From* /*at*/, const location<To>& to) {
    return look<To>(to);
  }

 private:
  class first_look;
};

/// new and delete, for allocation.
template <class T>
using owner = std::unique_ptr<T>;
struct owned_family : plain_family<owner> {
  template <class T, class... Args>
  static owner<T> make(Args&&... args) {
    return std::make_unique<T>(std::forward<Args>(args)...);
  }
};

template <class Family>
struct makes_shared : Family {
  template <class T, class... Args>
  static spolia::shared_ptr<T> make(Args&&... args) {
    return spolia::make_shared<T>(std::forward<Args>(args)...);
  }
};
using atomic_family = makes_shared<loaded_family<spolia::shared_ptr, spolia::atomic_shared_ptr>>;
using shared_plain_family = makes_shared<plain_family<spolia::shared_ptr>>;

template <class Family>
void add_tests_of_the_collector(counted_pointer& p) {
  p.tests.emplace_back("destroy", destruction<Family>);
  p.tests.emplace_back("parts", time_by_parts<Family>);
  p.tests.emplace_back("stream", small_stream<Family>);
  p.tests.emplace_back("burst", sudden_burst<Family>);
}

/// Tasks of phases with nothing to do: what handing them out costs. The last one opens the next.
template <class Router, class Barrier>
counted_result routing(const counted_options& o, std::uint32_t threads) {
  struct phase {
    Router tasks;
    Barrier undone;
  };
  auto p = std::make_unique<phase>();
  const std::uint64_t all = ~std::uint64_t{0};
  p->undone.open(all);
  p->tasks.open(all);
  return run_threads(o, threads, [&](std::uint32_t t) {
    return [&, t] {
      std::uint64_t done = 0;
      for (int i = 0; i < 256; ++i) {
        const unsigned input = p->tasks.claim(t * 7);
        if (input == Router::none) continue;
        ++done;
        if (p->undone.arrive(input)) {
          p->undone.open(all);
          p->tasks.open(all);
        }
      }
      return done;
    };
  });
}

[[maybe_unused]] const bool told = [] {
  auto& all = counted_pointers();
  all.push_back({"raw",
                 "an atomic raw pointer; nothing is freed",
                 {{"contention", contention<raw_family>},
                  {"set", setting<raw_family>},
                  {"allocate", allocation<owned_family>}}});
  add_tests_of_maps<raw_family>(all.back());
  all.push_back({"private",
                 "spolia::private_ptr from spolia::atomic_shared_ptr",
                 {{"contention", contention<private_shared>}, {"set", looking<private_shared>}}});
  add_tests_of_maps<private_shared>(all.back());
  add_tests_of_the_collector<spolia::shared_family>(all.back());
  all.push_back({"thin",
                 "spolia::private_thin_ptr from spolia::atomic_thin_ptr",
                 {{"contention", contention<private_thin>},
                  {"set", setting<spolia::thin_family>},
                  {"allocate", allocation<spolia::thin_family>}}});
  add_tests_of_maps<private_thin>(all.back());
  add_tests_of_the_collector<spolia::thin_family>(all.back());
  all.push_back({"walk", "the pointers of private, as Spolia's containers go by them", {}});
  add_tests_of_keys<spolia::shared_family>(all.back());
  all.push_back({"thin-walk", "the pointers of thin, as Spolia's containers go by them", {}});
  add_tests_of_keys<spolia::thin_family>(all.back());
  all.push_back({"unpinned",
                 "the containers of private, read without pins",
                 {{"read", on_maps<unpinned_family>}, {"hot", on_maps<unpinned_family>}}});
  all.push_back({"atomic",
                 "spolia::atomic_shared_ptr, read by load",
                 {{"contention", contention<atomic_family>},
                  {"set", setting<atomic_family>},
                  {"allocate", allocation<atomic_family>}}});
  add_tests_of_maps<atomic_family>(all.back());
  all.push_back({"shared",
                 "spolia::shared_ptr, which no thread changes meanwhile",
                 {{"contention", contention<shared_plain_family>},
                  {"set", setting<shared_plain_family>},
                  {"allocate", allocation<shared_plain_family>}}});
  all.push_back(
      {"one-word",
       "the collector's router",
       {{"route", routing<spolia::counted::one_word_router, spolia::counted::one_word_barrier>}}});
  all.push_back({"tree",
                 "the paper's router",
                 {{"route", routing<spolia::counted::tree_router, spolia::counted::tree_router>}}});
  return true;
}();

const auto* test_of(const counted_pointer& p, const std::string& name) {
  const auto at =
      std::find_if(p.tests.begin(), p.tests.end(), [&](const auto& t) { return t.first == name; });
  return at == p.tests.end() ? nullptr : &at->second;
}

bool is_one_of(const std::string& test, std::initializer_list<const char*> tests) {
  return std::find(tests.begin(), tests.end(), test) != tests.end();
}
/// Tests of a number of keys, but not in a container that one can choose.
bool of_keys(const std::string& test) { return is_one_of(test, {"destroy", "parts", "burst"}); }
bool of_strings(const std::string& test) { return is_one_of(test, {"strings", "mixed"}); }
bool of_map(const std::string& test) {
  return !of_keys(test) && !is_one_of(test, {"contention", "set", "allocate", "stream", "route"});
}

bool wanted(const counted_options& o, const counted_pointer& p) {
  return o.pointers.empty() || std::ranges::find(o.pointers, p.name) != o.pointers.end();
}

/// What the test cannot honour.
void check_words(const counted_options& o) {
  const std::string test = "--test " + o.test;
  if (!of_map(o.test)) {
    refuse(o.given, {"--structure"}, test, "the tests of containers");
    if (!of_keys(o.test)) refuse(o.given, {"--keys"}, test, "the tests of containers and of trees");
  }
  if (!of_strings(o.test)) refuse(o.given, {"--strings"}, test, "--test strings and mixed");
  std::vector<std::string> able;
  bool some = false;
  for (const counted_pointer& p : counted_pointers()) {
    if (test_of(p, o.test) == nullptr) continue;
    able.push_back(p.name);
    some = some || wanted(o, p);
  }
  if (!some) {
    throw usage_error(fmt::format("--pointers {} with {}: these have it: {}",
                                  fmt::join(o.pointers, ","), test, fmt::join(able, ", ")));
  }
}

void check(const counted_options& o) {
  const std::vector<std::string> names = {"contention", "set",    "allocate", "read",  "hot",
                                          "insert",     "remove", "strings",  "mixed", "destroy",
                                          "parts",      "stream", "burst",    "route"};
  if (std::find(names.begin(), names.end(), o.test) == names.end()) {
    throw usage_error(
        fmt::format("there is no test {}; there are {}", o.test, fmt::join(names, ", ")));
  }
  const std::vector<std::string> structures = {"bst", "btree", "hash", "tree", "btree-locked"};
  if (std::find(structures.begin(), structures.end(), o.structure) == structures.end()) {
    throw usage_error(fmt::format("there is no structure {}; there are {}", o.structure,
                                  fmt::join(structures, ", ")));
  }
  const bool locked = o.structure == "tree" || o.structure == "btree-locked";
  if (locked && (o.test == "strings" || o.test == "mixed")) {
    throw usage_error("tests of strings have the structures bst, btree and hash");
  }
  for (const std::string& name : o.pointers) {
    const auto& all = counted_pointers();
    if (std::none_of(all.begin(), all.end(), [&](const auto& p) { return p.name == name; })) {
      throw usage_error("there is no pointer " + name + ", or its library is absent");
    }
  }
  check_words(o);
  for (const std::uint32_t n : o.threads) {
    if (n < 1 || n > 1024) {
      throw usage_error(fmt::format("--threads has {}, but must be from 1 to 1024", n));
    }
  }
  if (!(o.seconds > 0) || o.seconds > 3600) throw usage_error("--seconds must be above 0, to 3600");
  if (o.trials < 1) throw usage_error("--trials must be at least 1");
  if (o.keys < 1 || o.keys > 100000000) throw usage_error("--keys must be from 1 to 100000000");
}

}  // namespace

std::vector<counted_pointer>& counted_pointers() {
  static std::vector<counted_pointer> all;
  return all;
}

namespace {

/// Of how many keys the paper has a container. (ISMM 2018, sections 4.3 to 4.6: N threads, M = 100
/// 000 operations of each)
std::uint64_t paper_keys(const std::string& test, std::uint32_t threads) {
  constexpr std::uint64_t each = 100000;
  if (test == "insert") return each * threads;
  if (test == "remove" || test == "burst") return 10000 * std::uint64_t{threads};
  if (test == "strings" || test == "mixed" || test == "parts") return 28772169;
  return each;
}

nlohmann::json record_of(const counted_options& o, const std::string& pointer,
                         std::uint32_t threads, std::uint32_t trial, const counted_result& r) {
  const auto known = [](bool there, const auto& value) {
    return there ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  nlohmann::json results = {{"operations", r.operations},
                            {"elapsed_s", r.elapsed_s},
                            {"mops", static_cast<double>(r.operations) / r.elapsed_s / 1e6},
                            {"ns_per_op", r.thread_ns / static_cast<double>(r.operations)}};
  results.update(r.figures);
  return make_record("counted", trial,
                     {.threads = threads, .seconds = o.seconds, .warm_up_s = nullptr},
                     {{"test", o.test},
                      {"pointer", pointer},
                      {"structure", known(of_map(o.test), o.structure)},
                      {"keys", known(of_map(o.test) || of_keys(o.test), o.keys)},
                      {"strings", known(of_strings(o.test), o.strings)},
                      {"paper_size", o.paper_size},
                      {"trials", o.trials}},
                     results);
}

/// Of those that have the test.
std::vector<const counted_pointer*> chosen(const counted_options& o) {
  std::vector<const counted_pointer*> some;
  for (const counted_pointer& p : counted_pointers()) {
    if (wanted(o, p) && test_of(p, o.test) != nullptr) some.push_back(&p);
  }
  return in_order(some, o.order);
}

}  // namespace

void measure_counted(const counted_options& given,
                     const std::function<void(nlohmann::json)>& write) {
  counted_options o = given;
  check(o);
  if (o.paper_size && !o.given.contains("--threads")) o.threads = {32};
  for (const std::uint32_t threads : in_order(o.threads, o.order)) {
    if (o.paper_size && !o.given.contains("--keys")) o.keys = paper_keys(o.test, threads);
    for (std::uint32_t trial = 0; trial < o.trials; ++trial) {
      for (const counted_pointer* const p : chosen(o)) {
        const counted_result r = (*test_of(*p, o.test))(o, threads);
        spolia::counted::drain();
        // Each trial begins with new memory: raw pointers, which free nothing, do so anyway.
        spolia::counted::trim();
        write(record_of(o, p->name, threads, trial, r));
      }
    }
  }
}

}  // namespace bench

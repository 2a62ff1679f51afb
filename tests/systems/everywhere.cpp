// SPDX-License-Identifier: Apache-2.0
// What a user might write with every part of the library, for compilers and systems that have
// little else: it asks for no framework of tests, and takes a second.
//   everywhere parts        all parts but files
//   everywhere signals      the same where the program has taken all real-time signals
//   everywhere threads DIR  a database and others where the program may have no threads more
//   everywhere write DIR    makes a database there
//   everywhere check DIR    reads it, perhaps on a machine of another kind
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/hazard_pointer.hpp>
#include <spolia/live.hpp>
#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>
#include <spolia/standard.hpp>

// All members, whether the program uses them or not.
template class spolia::abtree<std::uint64_t, int>;
template class spolia::avl<double, std::string>;
template class spolia::external_bst<std::string, int>;
template class spolia::list<int, std::string>;
template class spolia::michael_hash<int, std::string>;
template class spolia::split_ordered_hash<std::string, int>;
template class spolia::snapshot_hash<int, std::string>;
template class spolia::snapshot_tree<std::string, std::uint64_t>;
template class spolia::counted_hash<int, std::string>;
template class spolia::counted_bst<std::string, int>;
template class spolia::counted_btree<int, std::string>;
template class spolia::counted_tree<std::string, int>;
template class spolia::counted_btree_locked<std::string, int>;
template class spolia::rlu_list<int, std::string>;
template class spolia::rlu_hash<int, std::string>;
template class spolia::rlu_bst<std::string, int>;
template class spolia::shared_ptr<std::string>;
template class spolia::weak_ptr<std::string>;
template class spolia::atomic_shared_ptr<std::string>;
template class spolia::atomic_weak_ptr<std::string>;
template class spolia::private_ptr<std::string>;
template class spolia::thin_ptr<std::string>;
template class spolia::private_thin_ptr<std::string>;
template class spolia::atomic_thin_ptr<std::string>;
template class spolia::live<std::string>;
template class spolia::versioned<std::string, spolia::sl_rt<>>;
template class spolia::versioned<std::string, spolia::steam<>>;
template class spolia::versioned<std::string, spolia::bbf<>>;
template class spolia::versioned<std::string, spolia::dl_rt<>>;
template class spolia::versioned<std::string, spolia::epoch_collector<>>;

namespace db = spolia::db;

namespace {

int failures = 0;

void need(bool good, const char* what) {
  if (good) return;
  std::printf("NO: %s\n", what);
  ++failures;
}

template <class F>
void by_threads(int count, const F& f) {
  std::vector<std::thread> all;
  for (int t = 0; t < count; ++t) all.emplace_back(f, t);
  for (std::thread& t : all) t.join();
}

/// Three threads insert what the others do not, and erase each third of it.
template <class Map, class KeyOf, class ValueOf, class... Options>
void a_map(const char* name, const KeyOf& key_of, const ValueOf& value_of, Options... options) {
  constexpr int each = 200;
  Map m(options...);
  by_threads(3, [&](int t) {
    for (int i = 0; i < each; ++i) {
      m.insert(key_of(i * 3 + t), value_of(i));
      if (i % 3 == 0) m.erase(key_of(i * 3 + t));
      static_cast<void>(m.contains(key_of(i * 3 + (t + 1) % 3)));
    }
  });
  int found = 0;
  for (int i = 0; i < 3 * each; ++i) found += m.contains(key_of(i)) ? 1 : 0;
  int passed = 0;
  m.for_each([&](const auto&, const auto&) { ++passed; });
  need(found == 399 && passed == 399, name);
}

int number(int i) { return i; }
double half(int i) { return 0.5 * i; }
std::string text(int i) { return "key " + std::to_string(i); }
std::uint64_t large(int i) { return static_cast<std::uint64_t>(i) << 40U; }

void maps() {
  a_map<spolia::abtree<std::uint64_t, int>>("abtree", large, number);
  a_map<spolia::avl<double, std::string>>("avl", half, text);
  a_map<spolia::external_bst<std::string, int>>("external_bst", text, number);
  a_map<spolia::list<int, std::string>>("list", number, text);
  a_map<spolia::michael_hash<int, std::string>>("michael_hash", number, text, std::size_t{64});
  a_map<spolia::split_ordered_hash<std::string, int>>("split_ordered_hash", text, number);
  a_map<spolia::snapshot_hash<int, std::string>>("snapshot_hash", number, text);
  a_map<spolia::snapshot_tree<std::string, std::uint64_t>>("snapshot_tree", text, large);
  a_map<spolia::counted_hash<int, std::string>>("counted_hash", number, text);
  a_map<spolia::counted_bst<std::string, int>>("counted_bst", text, number);
  a_map<spolia::counted_btree<int, std::string>>("counted_btree", number, text);
  a_map<spolia::counted_tree<std::string, int>>("counted_tree", text, number);
  a_map<spolia::counted_btree_locked<std::string, int>>("counted_btree_locked", text, number);
  a_map<spolia::rlu_list<int, std::string>>("rlu_list", number, text);
  a_map<spolia::rlu_hash<int, std::string>>("rlu_hash", number, text, std::size_t{64});
  a_map<spolia::rlu_bst<std::string, int>>("rlu_bst", text, number);
}

void snapshots() {
  spolia::snapshot_hash<int, std::string> m;
  m.insert(1, "old");
  const spolia::snapshot then;
  m.insert_or_assign(1, std::string("new"));
  const std::string* const seen = m.find(then, 1);
  need(seen != nullptr && *seen == "old", "a snapshot sees what was there");
}

template <class Scheme>
void a_scheme(const char* name) {
  struct counted : spolia::domain<Scheme>::header {
    explicit counted(spolia::atomic<int>& all) : ended(all) {}
    // relaxed: read when all threads have been waited for.
    ~counted() { ended.fetch_add_relaxed(1); }
    spolia::atomic<int>& ended;
  };
  spolia::atomic<int> ended{0};
  {
    spolia::domain<Scheme> home;
    by_threads(3, [&](int) {
      for (int i = 0; i < 300; ++i) {
        auto guard = home.enter();
        guard.retire(home.template make<counted>(ended));
      }
    });
  }
  need(ended.load_relaxed() == 900, name);
}

/// Where the system has a signal to spare.
void neutralization() {
  try {
    a_scheme<spolia::neutralization>("neutralization");
    std::printf("neutralization: works\n");
  } catch (const std::runtime_error& e) {
    std::printf("%s\n", e.what());
  }
}

void schemes() {
  a_scheme<spolia::robust_token>("robust_token");
  a_scheme<spolia::token>("token");
  a_scheme<spolia::debra>("debra");
  a_scheme<spolia::hazard_pointers>("hazard_pointers");
  a_scheme<spolia::hazard_eras>("hazard_eras");
  a_scheme<spolia::wait_free_eras>("wait_free_eras");
  neutralization();
}

struct chained : spolia::hazard_pointer_obj_base<chained> {
  int value = 0;
};

void faces() {
  spolia::atomic<chained*> source(new chained);
  by_threads(3, [&](int) {
    for (int i = 0; i < 300; ++i) {
      auto hazard = spolia::make_hazard_pointer();
      need(hazard.protect(source)->value == 0, "a protected object is there");
      // release → protect(): the object is whole. acquire: so is the one that is retired.
      source.exchange_acq_rel(new chained)->retire();
    }
  });
  source.exchange_acq_rel(nullptr)->retire();
  spolia::rcu_retire(new int(1));
  spolia::rcu_barrier();
}

void pointers() {
  spolia::atomic_shared_ptr<std::string> at(spolia::make_shared<std::string>("first"));
  spolia::live<std::string> current(std::string("first"));
  by_threads(3, [&](int t) {
    for (int i = 0; i < 500; ++i) {
      if (t == 0) {
        at.store(spolia::make_shared<std::string>(text(i)));
        current.store(text(i));
      } else {
        need(!at.load()->empty(), "a counted object is there");
        need(!current.read()->empty(), "a live value is there");
      }
    }
  });
}

void sections() {
  spolia::rlu::domain home;
  const spolia::rlu::detector upkeep(home);
  spolia::rlu_hash<int, std::string> m(home, 64);
  for (int i = 0; i < 100; ++i) m.insert(i, text(i));
  need(m.contains(42), "a table over read-log-update with a detector");
}

constexpr std::array<std::int64_t, 6> integers{0,         -1,  INT64_MIN,
                                               INT64_MAX, 258, -72057594037927936};
constexpr std::array<double, 6> reals{0.0, -1.5, 1e300, -1e-300, 5e-324, 0.1};
constexpr std::array<std::string_view, 6> texts{"", "a", "\x7f", "\x80", "\xff\xfe", "caf\xc3\xa9"};

void write(const char* folder) {
  db::database base = db::database::open(folder);
  db::table& t = base.create_table({.name = "t",
                                    .columns = {{"id", db::int64, db::primary_key},
                                                {"real", db::float64},
                                                {"text", db::text(32)},
                                                {"flag", db::boolean},
                                                {"long", db::text()},
                                                {"later", db::int64, db::nullable}},
                                    .indexes = {{.name = "by_real", .columns = {"real"}},
                                                {.name = "by_text", .columns = {"text"}}}});
  const auto row = [&](std::size_t i) {
    return base.transact([&](db::transaction& tx) {
      return tx.insert(
          t, {integers[i], reals[i], texts[i], i % 2 == 0, std::string(i * 1000, 'x'), nullptr});
    });
  };
  for (std::size_t i = 0; i < 3; ++i) need(bool(row(i)), "a row is inserted");
  base.checkpoint();
  for (std::size_t i = 3; i < 6; ++i) need(bool(row(i)), "a row is inserted");
  for (std::size_t i = 0; i < 6; ++i) {
    need(bool(base.transact([&](db::transaction& tx) {
           return tx.update(t, {integers[i]}, {{"later", integers[5 - i]}});
         })),
         "a row is updated");
  }
}

void check(const char* folder) {
  db::database base = db::database::open(folder);
  const db::table& t = base.find_table("t");
  const db::reader now = base.snapshot();
  for (std::size_t i = 0; i < 6; ++i) {
    const auto row = now.find(t, {integers[i]});
    need(bool(row), "a row is there");
    if (!row) continue;
    need(std::bit_cast<std::uint64_t>(row->get(t.column<double>("real"))) ==
             std::bit_cast<std::uint64_t>(reals[i]),
         "float64");
    need(row->get(t.column<std::string_view>("text")) == texts[i], "text");
    need(row->get(t.column<bool>("flag")) == (i % 2 == 0), "boolean");
    need(row->get(t.column<std::string_view>("long")).size() == i * 1000, "long text");
    need(row->get(t.column<std::int64_t>("later")) == integers[5 - i], "what was updated");
  }
  std::optional<double> last;
  int rows = 0;
  now.scan(t.index("by_real"), {}, {}, [&](const db::row& r) {
    const double real = r.get(t.column<double>("real"));
    need(!last || *last < real, "the order of numbers");
    last = real;
    ++rows;
  });
  std::string before;
  now.scan(t.index("by_text"), {}, {}, [&](const db::row& r) {
    const std::string value(r.get(t.column<std::string_view>("text")));
    need(rows++ == 6 || before < value, "the order of texts");
    before = value;
  });
  need(rows == 12, "each index has all rows");
  need((base.verify)().equal(), "the files have what the tables have");
}

void parts() {
  maps();
  snapshots();
  schemes();
  faces();
  pointers();
  sections();
}

/// A host that takes every real-time signal, as Go's runtime does: one scheme says that it needs
/// one, and all else works.
void without_signals() {
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) std::signal(signal, [](int) {});
  bool refused = false;
  try {
    spolia::domain<spolia::neutralization> home;
  } catch (const std::runtime_error& e) {
    refused = std::string_view(e.what()).find("signal") != std::string_view::npos;
  }
  need(refused, "neutralization says what it needs");
  parts();
}

/// Where no thread can be had, as in a container with as many processes as it may have: what needs
/// one says so, and the rest does without.
void without_threads(const char* folder) {
  const uid_t another = 65534;  // no limit holds the superuser
  if (::mkdir(folder, 0700) != 0) throw std::runtime_error("cannot make the folder");
  if (::geteuid() == 0 && (::chown(folder, another, another) != 0 || ::setuid(another) != 0)) {
    throw std::runtime_error("cannot become another user");
  }
  const std::string data = std::string(folder) + "/data";
  write(data.c_str());
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) throw std::runtime_error("cannot set the limit");
  bool refused = false;
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) {
    refused = true;
  }
  need(refused, "there is no thread to be had");
  check(data.c_str());
  refused = false;
  try {
    db::options o;
    o.durability = db::durability_level::async;
    static_cast<void>(db::database::open(data, o));
  } catch (const db::storage_error& e) {
    refused = e.file() == data && e.reason() == std::errc::resource_unavailable_try_again;
  }
  need(refused, "a log with a thread of its own names its file");
  spolia::rlu::domain home;
  refused = false;
  try {
    const spolia::rlu::detector upkeep(home);
  } catch (const std::system_error&) {
    refused = true;
  }
  need(refused, "a detector is a thread");
  snapshots();
  check(data.c_str());
}

int run(std::string_view what, const char* folder) {
  if (what == "parts") {
    parts();
  } else if (what == "signals") {
    without_signals();
  } else if (what == "threads" && folder != nullptr) {
    without_threads(folder);
  } else if (what == "write" && folder != nullptr) {
    write(folder);
  } else if (what == "check" && folder != nullptr) {
    check(folder);
  } else {
    need(false, "usage: everywhere parts | signals | threads DIR | write DIR | check DIR");
  }
  std::printf("%s: %s\n", std::string(what).c_str(), failures == 0 ? "ok" : "failed");
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count > 1 ? words[1] : "parts", count > 2 ? words[2] : nullptr);
  } catch (const std::exception& e) {
    std::printf("NO: %s\n", e.what());
    return 1;
  }
}

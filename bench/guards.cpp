// SPDX-License-Identifier: Apache-2.0
#include "guards.hpp"

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "probe.hpp"
#include "record.hpp"

namespace bench {
namespace {

struct shared {
  int value = 0;
};

template <class Scheme>
void add_probes(std::vector<probe>& all) {
  using domain = spolia::domain<Scheme>;
  auto d = std::make_shared<domain>();
  auto source =
      std::make_shared<spolia::atomic<shared*>>(new shared);  // lives as long as the program
  const std::string name(Scheme::info.name);
  all.push_back({name,
                 "enter+leave",
                 [d] {
                   return ns_each([&] {
                     auto guard = d->enter();
                     touch();
                   });
                 },
                 {}});
  all.push_back({name,
                 "nested enter+leave",
                 [d] {
                   auto outer = d->enter();
                   return ns_each([&] {
                     auto guard = d->enter();
                     touch();
                   });
                 },
                 {}});
  if constexpr (!spolia::protects_by_restart<Scheme>) {
    all.push_back({name,
                   "protect",
                   [d, source] {
                     auto guard = d->enter();
                     return ns_each([&] { use(guard.protect(*source).get()); });
                   },
                   {}});
    all.push_back({name,
                   "enter+protect+leave",
                   [d, source] {
                     return ns_each([&] {
                       auto guard = d->enter();
                       use(guard.protect(*source).get());
                     });
                   },
                   {}});
  } else {
    all.push_back({name,
                   "enter+read+leave",
                   [d, source] {
                     return ns_each([&] {
                       auto guard = d->enter();
                       use(guard.read([&](auto& phase) { return phase.protect(*source).get(); }));
                     });
                   },
                   {}});
  }
}

template <class... Schemes>
struct probes_of {
  static void add(std::vector<probe>& all) { (add_probes<Schemes>(all), ...); }
};

struct protected_value : spolia::hazard_pointer_obj_base<protected_value> {
  int value = 0;
};

/// The faces with the standard's names, on the process's default domains.
void add_standard_faces(std::vector<probe>& all) {
  auto source = std::make_shared<spolia::atomic<protected_value*>>(new protected_value);
  const std::string hazards = "hazard_pointer";
  all.push_back({hazards,
                 "make+destroy",
                 [] {
                   return ns_each([&] {
                     auto made = spolia::make_hazard_pointer();
                     touch();
                   });
                 },
                 {}});
  all.push_back({hazards,
                 "protect",
                 [source] {
                   auto made = spolia::make_hazard_pointer();
                   return ns_each([&] { use(made.protect(*source)); });
                 },
                 {}});
  all.push_back({hazards,
                 "make+protect+destroy",
                 [source] {
                   return ns_each([&] {
                     auto made = spolia::make_hazard_pointer();
                     use(made.protect(*source));
                   });
                 },
                 {}});
  all.push_back({"rcu_domain",
                 "lock+unlock",
                 [] {
                   spolia::rcu_domain& d = spolia::rcu_default_domain();
                   return ns_each([&] {
                     d.lock();
                     touch();
                     d.unlock();
                   });
                 },
                 {}});
}

void add_baselines(std::vector<probe>& all) {
  auto source = std::make_shared<spolia::atomic<shared*>>(nullptr);
  auto mark = std::make_shared<spolia::atomic<std::uint64_t>>(0);
  all.push_back({"-",
                 "acquire load",
                 [source] { return ns_each([&] { use(source->load_acquire()); }); },
                 {}});
  all.push_back({"-",
                 "two plain stores",
                 [mark] {
                   return ns_each([&] {
                     mark->store_relaxed(1);
                     touch();
                     mark->store_release(0);
                   });
                 },
                 {}});
  all.push_back({"-",
                 "two stores and a full fence",
                 [mark] {
                   return ns_each([&] {
                     mark->store_relaxed(1);
                     spolia::fence::full();
                     mark->store_release(0);
                   });
                 },
                 {}});
}

}  // namespace

std::vector<void (*)(std::vector<probe>&)>& rival_probes() {
  static std::vector<void (*)(std::vector<probe>&)> all;
  return all;
}

std::vector<nlohmann::json> measure_guards(std::uint32_t rounds) {
  std::vector<probe> all;
  add_baselines(all);
  spolia::every_scheme<probes_of>::add(all);
  add_standard_faces(all);
  for (const auto add : rival_probes()) add(all);
  for (std::uint32_t r = 0; r < rounds; ++r) {
    for (probe& p : all) p.ns.push_back(p.measure());
  }
  std::vector<nlohmann::json> records;
  for (probe& p : all) {
    std::sort(p.ns.begin(), p.ns.end());
    records.push_back(make_record(
        "guards", {}, {.threads = 1, .seconds = nullptr, .warm_up_s = nullptr},
        {{"scheme", p.scheme}, {"operation", p.operation}, {"rounds", rounds}},
        {{"ns", p.ns[p.ns.size() / 2]}, {"ns_min", p.ns.front()}, {"ns_max", p.ns.back()}}));
  }
  return records;
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// rcu.cpp: domains of regions, and the process's own.
#include <spolia/rcu.hpp>

#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/made_once.hpp>

#include "reclaim/homes.hpp"

namespace spolia::core::inline SPOLIA_OF_VERSION {

using standard_rcu = detail::reclaim::region_home;

class rcu_access {
 public:
  static standard_rcu& home(rcu_domain& d) noexcept { return *static_cast<standard_rcu*>(d.home_); }

  static rcu_domain& default_domain() noexcept {
    static constinit made_once<standard_rcu> home;
    static constinit made_once<rcu_domain> it;
    return it.get([](void* place) { return ::new (place) rcu_domain(&home.get()); });
  }
};

rcu_domain::rcu_domain() : home_(new standard_rcu) {}
rcu_domain::~rcu_domain() { delete static_cast<standard_rcu*>(home_); }
void rcu_domain::lock() noexcept { rcu_access::home(*this).lock(); }
void rcu_domain::unlock() noexcept { rcu_access::home(*this).unlock(); }

rcu_domain& process_rcu_domain() noexcept { return rcu_access::default_domain(); }

void retire_by_rcu(place& where, rcu_domain& d, std::size_t bytes) noexcept {
  rcu_access::home(d).retire(where, bytes);
}

bool wait_for_rcu_readers(rcu_domain& d, const rcu_deadline* deadline) noexcept {
  return rcu_access::home(d).synchronize(
      [deadline] { return deadline != nullptr && std::chrono::steady_clock::now() >= *deadline; });
}

bool rcu_barrier_of(rcu_domain& d) noexcept { return rcu_access::home(d).barrier(); }
bool inside_rcu_region(rcu_domain& d) noexcept { return rcu_access::home(d).inside(); }
std::uint64_t rcu_garbage_of(rcu_domain& d) noexcept { return rcu_access::home(d).garbage(); }
std::uint64_t rcu_garbage_bytes_of(rcu_domain& d) noexcept {
  return rcu_access::home(d).garbage_bytes();
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

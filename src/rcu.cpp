// SPDX-License-Identifier: Apache-2.0
// rcu.cpp: domains of regions, and the process's own.
#include <spolia/rcu.hpp>

#include <cstdint>
#include <new>

#include <spolia/reclaim/homes.hpp>

namespace spolia::core {

using home_type = detail::region_home;

class rcu_access {
 public:
  static home_type& home(rcu_domain& d) noexcept { return *static_cast<home_type*>(d.home_); }

  /// Never destroyed: threads may end, and objects be retired, after static destructors.
  static rcu_domain& default_domain() noexcept {
    alignas(home_type) static unsigned char home_place[sizeof(home_type)];
    alignas(rcu_domain) static unsigned char place[sizeof(rcu_domain)];
    static rcu_domain& it = *new (place) rcu_domain(new (home_place) home_type);
    return it;
  }
};

rcu_domain::rcu_domain() : home_(new home_type) {}
rcu_domain::~rcu_domain() { delete static_cast<home_type*>(home_); }
void rcu_domain::lock() noexcept { rcu_access::home(*this).lock(); }
void rcu_domain::unlock() noexcept { rcu_access::home(*this).unlock(); }

rcu_domain& process_rcu_domain() noexcept { return rcu_access::default_domain(); }

void retire_by_rcu(place& where, rcu_domain& d) noexcept { rcu_access::home(d).retire(where); }

bool wait_for_rcu_readers(rcu_domain& d, const rcu_deadline* deadline) noexcept {
  return rcu_access::home(d).synchronize(
      [deadline] { return deadline != nullptr && std::chrono::steady_clock::now() >= *deadline; });
}

bool rcu_barrier_of(rcu_domain& d) noexcept { return rcu_access::home(d).barrier(); }
bool inside_rcu_region(rcu_domain& d) noexcept { return rcu_access::home(d).inside(); }
std::uint64_t rcu_garbage_of(rcu_domain& d) noexcept { return rcu_access::home(d).garbage(); }

}  // namespace spolia::core

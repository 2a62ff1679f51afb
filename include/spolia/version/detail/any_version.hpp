// SPDX-License-Identifier: Apache-2.0
// any_version.hpp: what a collector knows of a version of any value, and of an owner of versions.
#pragma once

#include <cstddef>

#include <spolia/base/config.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Domain>
class list_owner;

namespace detail::version {

/// A version of a value of some type, or a list_owner (owner.hpp).
template <class Domain>
struct any_version : Domain::header, tracked {
  /// Retires the version, or ends one that no thread can see.
  virtual void retire_by(typename Domain::guard& g) noexcept = 0;
  virtual void destroy_in(Domain& nodes) noexcept = 0;
  /// What it takes, for accounting; 0: it does not say.
  [[nodiscard]] virtual std::size_t bytes() const noexcept { return 0; }
  /// The owner whose field has this version; null if there is none. An owner names itself.
  [[nodiscard]] virtual list_owner<Domain>* owner() noexcept { return nullptr; }

 protected:
  ~any_version() = default;
};

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR

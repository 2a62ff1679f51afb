// SPDX-License-Identifier: Apache-2.0
// field_owner.hpp: where it is kept to which node (owner.hpp) the versions of a field belong: in
// each of them; or in the field, if the collector's versions know their list.
#pragma once

#include <concepts>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/owner.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

template <class Collector>
concept versions_know_lists = requires(const typename Collector::version& v) {
  { Collector::list::list_of(v) } noexcept -> std::same_as<typename Collector::list&>;
};

template <version_collector Collector>
struct field_owner {
  using type = list_owner<typename Collector::domain_type>;

  struct list : Collector::list {
    list(type&, typename Collector::version* first) noexcept : Collector::list(first) {}
  };
#pragma GCC diagnostic push
// See list_ssl.hpp: a domain ends each version by the type that it was made with.
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
  struct version : Collector::version {
    explicit version(type& of) noexcept : of_(of) {}
    [[nodiscard]] type* owner() noexcept final { return &of_; }

   protected:
    ~version() = default;

   private:
    type& of_;
  };
#pragma GCC diagnostic pop
};

template <version_collector Collector>
  requires versions_know_lists<Collector>
struct field_owner<Collector> {
  using type = list_owner<typename Collector::domain_type>;

  struct list : Collector::list {
    list(type& of, typename Collector::version* first) noexcept
        : Collector::list(first), at_(static_cast<std::int32_t>(address(this) - address(&of))) {}
    [[nodiscard]] type& owner() noexcept { return *reinterpret_cast<type*>(address(this) - at_); }

   private:
    static std::intptr_t address(const void* p) noexcept {
      return reinterpret_cast<std::intptr_t>(p);
    }
    std::int32_t
        at_;  // how far from the owner's begin, in which it lies: half a word, for space is short
  };
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
  struct version : Collector::version {
    explicit version(type&) noexcept {}
    /// The version has a hold on the owner, in which the list is.
    [[nodiscard]] type* owner() noexcept final {
      return &static_cast<list&>(Collector::list::list_of(*this)).owner();
    }

   protected:
    ~version() = default;
  };
#pragma GCC diagnostic pop
};

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR

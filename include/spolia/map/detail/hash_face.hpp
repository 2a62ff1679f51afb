// SPDX-License-Identifier: Apache-2.0
// hash_face.hpp: what hash maps over guards show their users: map_face without what goes by an
// order. Keys may be moved from, which happens only if a node is made of them.
#pragma once

#include <concepts>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/face.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Core>
class hash_face : private map_face<Core> {
  using face = map_face<Core>;

 public:
  using typename face::domain_type;
  using typename face::key_type;
  using typename face::mapped_type;

  using face::clear;
  using face::compare_exchange;
  using face::contains;
  using face::domain;
  using face::empty_approx;
  using face::erase;
  using face::erase_if;
  using face::extract;
  using face::find;
  using face::for_each;
  using face::get_or_insert;
  using face::insert;
  using face::insert_or_assign;
  using face::size_approx;
  using face::update;
  using face::upsert;
  using face::visit;

  template <class V = mapped_type>
    requires std::constructible_from<mapped_type, V>
  bool insert(key_type&& key, V&& value) {
    return face::told(core().template put<false>(std::move(key), std::forward<V>(value)));
  }
  template <class V = mapped_type>
    requires std::constructible_from<mapped_type, V>
  bool insert_or_assign(key_type&& key, V&& value) {
    return face::template told<true>(
        core().template put<true>(std::move(key), std::forward<V>(value)));
  }

  /// How many buckets there are.
  [[nodiscard]] std::size_t bucket_count() const noexcept { return core().bucket_count(); }

 protected:
  using face::core;
  using face::face;
  ~hash_face() = default;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

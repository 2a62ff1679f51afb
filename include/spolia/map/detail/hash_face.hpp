// SPDX-License-Identifier: Apache-2.0
// hash_face.hpp: what hash maps show their users: map_face without what goes by an order. Those
// over guards, also keys that may be moved from, and how many buckets there are.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/face.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Core>
class unordered_face : private map_face<Core> {
  using face = map_face<Core>;

 public:
  using typename face::domain_type;
  using typename face::key_type;
  using typename face::mapped_type;

  using face::all;
  using face::at;
  using face::begin;
  using face::cbegin;
  using face::cend;
  using face::clear;
  using face::compare_exchange;
  using face::contains;
  using face::count;
  using face::domain;
  using face::emplace;
  using face::empty;
  using face::empty_approx;
  using face::end;
  using face::erase;
  using face::erase_if;
  using face::extract;
  using face::find;
  using face::for_each;
  using face::get_or_insert;
  using face::insert;
  using face::insert_or_assign;
  using face::operator[];
  using face::size;
  using face::size_approx;
  using face::try_emplace;
  using face::update;
  using face::upsert;
  using face::visit;

 protected:
  using face::core;
  using face::face;
  using face::told;
  ~unordered_face() = default;
};

template <class Core>
class hash_face : public unordered_face<Core> {
  using face = unordered_face<Core>;

 public:
  using typename face::key_type;
  using typename face::mapped_type;

  using face::insert;
  using face::insert_or_assign;

  /// The same with a key to move from, which happens only if a node is made of it.
  template <class V = mapped_type>
    requires std::constructible_from<mapped_type, V>
  bool insert(key_type&& key, V&& value) {
    return face::told(this->core().template put<false>(std::move(key), std::forward<V>(value)));
  }
  template <class V = mapped_type>
    requires std::constructible_from<mapped_type, V>
  bool insert_or_assign(key_type&& key, V&& value) {
    return face::template told<true>(
        this->core().template put<true>(std::move(key), std::forward<V>(value)));
  }

  /// How many buckets there are.
  [[nodiscard]] std::size_t bucket_count() const noexcept { return this->core().bucket_count(); }

 protected:
  using face::face;
  ~hash_face() = default;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

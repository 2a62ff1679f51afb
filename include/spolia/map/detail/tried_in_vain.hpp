// SPDX-License-Identifier: Apache-2.0
// tried_in_vain.hpp: what containers of the standard have and maps for several threads cannot give.
// Each is deleted, and the type that it would return says what to call: compilers show it. Some
// show the line alone, so the type stands there and is no template's argument. Deleted functions
// are no answer to a concept, so that none takes such a map for a range.
#pragma once

#include <cstddef>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

struct call_for_each_since_a_map_that_threads_change_has_no_iterators;
struct loop_over_all_of_a_snapshot_or_call_for_each;
struct call_find_to_read_and_insert_or_assign_to_write;
struct call_find_which_gives_a_copy_or_nothing;
struct call_insert_or_insert_or_assign_with_a_key_and_a_value;
struct call_size_approx_since_threads_change_the_map;
struct call_empty_approx_since_threads_change_the_map;
struct call_contains;
struct take_a_snapshot_and_give_it_to_all;

/// What no map has.
class tried_in_vain_with_any {
 public:
  template <class K>
  call_find_to_read_and_insert_or_assign_to_write operator[](const K&) const = delete;
  template <class K>
  call_find_which_gives_a_copy_or_nothing at(const K&) const = delete;
  template <class... Arguments>
  call_insert_or_insert_or_assign_with_a_key_and_a_value emplace(Arguments&&...) = delete;
  template <class... Arguments>
  call_insert_or_insert_or_assign_with_a_key_and_a_value try_emplace(Arguments&&...) = delete;
  call_size_approx_since_threads_change_the_map size() const = delete;
  call_empty_approx_since_threads_change_the_map empty() const = delete;
  template <class K>
  call_contains count(const K&) const = delete;

 protected:
  tried_in_vain_with_any() = default;
  ~tried_in_vain_with_any() = default;
};

/// A public base of each map without snapshots.
class tried_in_vain : public tried_in_vain_with_any {
 public:
  call_for_each_since_a_map_that_threads_change_has_no_iterators begin() const = delete;
  call_for_each_since_a_map_that_threads_change_has_no_iterators end() const = delete;
  call_for_each_since_a_map_that_threads_change_has_no_iterators cbegin() const = delete;
  call_for_each_since_a_map_that_threads_change_has_no_iterators cend() const = delete;
  call_for_each_since_a_map_that_threads_change_has_no_iterators all() const = delete;

 protected:
  tried_in_vain() = default;
  ~tried_in_vain() = default;
};

/// And of each map with them.
class tried_in_vain_without_snapshot : public tried_in_vain_with_any {
 public:
  loop_over_all_of_a_snapshot_or_call_for_each begin() const = delete;
  loop_over_all_of_a_snapshot_or_call_for_each end() const = delete;
  loop_over_all_of_a_snapshot_or_call_for_each cbegin() const = delete;
  loop_over_all_of_a_snapshot_or_call_for_each cend() const = delete;

 protected:
  tried_in_vain_without_snapshot() = default;
  ~tried_in_vain_without_snapshot() = default;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where a range of keys begins and ends, for the ordered maps:
///
///     ages.range(lo, hi, f)                                  // from lo on and before hi
///     ages.range(spolia::after(lo), spolia::upto(hi), f)     // after lo, and up to hi itself
///     ages.range(lo, spolia::no_limit, f)                    // from lo to the last key
///     ages.range_down(spolia::no_limit, hi, f)               // from the last one before hi down
///
/// Each of them names a key and holds nothing: the key has to live as long as the call. (A view of
/// a snapshot_tree's pairs keeps a copy.)
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/scan.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// A begin: what comes after the key.
template <class K>
struct after {
  constexpr explicit after(const K& k) noexcept : key(std::addressof(k)) {}
  const K* key;
};
template <class K>
after(const K&) -> after<K>;

/// An end: what comes before the key, and the key.
template <class K>
struct upto {
  constexpr explicit upto(const K& k) noexcept : key(std::addressof(k)) {}
  const K* key;
};
template <class K>
upto(const K&) -> upto<K>;

/// As a begin: from the first key on. As an end: to the last one.
struct no_limit_t {
  explicit no_limit_t() = default;
};
inline constexpr no_limit_t no_limit{};

namespace detail::map {

/// The key of one end of a range, as a map's walks take it: as it was given if the map takes it so
/// (other_keys.hpp), and else as a Key, which is made for the length of the call.
template <class Key, class Keys, class Given>
class end_key {
  static constexpr bool is_key = one_of_its_keys<Given, Key>;
  static constexpr bool is_taken = is_key || taken_key<Given, Key, Keys>;
  using kept = std::conditional_t<is_taken, const std::conditional_t<is_key, Key, Given>&, Key>;

 public:
  using type = std::conditional_t<is_taken && !is_key, Given, Key>;
  constexpr explicit end_key(const Given& given) : key_(static_cast<kept>(given)) {}
  [[nodiscard]] constexpr const type* get() const noexcept { return std::addressof(key_); }

 private:
  const kept key_;
};
template <class Key, class Keys>
class end_key<Key, Keys, no_limit_t> {
 public:
  using type = Key;
  constexpr explicit end_key(no_limit_t) noexcept {}
  [[nodiscard]] static constexpr const Key* get() noexcept { return nullptr; }
};

/// What an argument says of its end: which key it names, and whether that is within.
template <class Given>
struct begin_of {
  using key = Given;
  static constexpr bool is_within = true;
  static const key& named(const Given& given) noexcept { return given; }
};
template <class K>
struct begin_of<after<K>> {
  using key = K;
  static constexpr bool is_within = false;
  static const key& named(const after<K>& given) noexcept { return *given.key; }
};
template <class Given>
struct end_of {
  using key = Given;
  static constexpr bool is_within = false;
  static const key& named(const Given& given) noexcept { return given; }
};
template <class K>
struct end_of<upto<K>> {
  using key = K;
  static constexpr bool is_within = true;
  static const key& named(const upto<K>& given) noexcept { return *given.key; }
};

template <class Given, class Key, class Keys>
concept names_an_end = std::same_as<Given, no_limit_t> || taken_key<Given, Key, Keys> ||
                       std::convertible_to<const Given&, Key>;
/// To be made into a key by the call itself.
template <class Given, class Key, class Keys>
concept just_a_key = std::convertible_to<const Given&, Key> && !taken_key<Given, Key, Keys>;

/// Whether these are the ends of a range of keys, and at least one of them is more than a key.
template <class Lo, class Hi, class Key, class Keys>
concept ends_of = names_an_end<typename begin_of<Lo>::key, Key, Keys> &&
                  names_an_end<typename end_of<Hi>::key, Key, Keys> &&
                  !(just_a_key<Lo, Key, Keys> && just_a_key<Hi, Key, Keys>);

/// Calls f(interval).
template <class Key, class Keys, class Lo, class Hi, class F>
decltype(auto) between(const Lo& lo, const Hi& hi, F&& f) {
  const end_key<Key, Keys, typename begin_of<Lo>::key> from(begin_of<Lo>::named(lo));
  const end_key<Key, Keys, typename end_of<Hi>::key> to(end_of<Hi>::named(hi));
  using within =
      interval<typename decltype(from)::type, typename decltype(to)::type, end_of<Hi>::is_within>;
  return f(within{from.get(), begin_of<Lo>::is_within, to.get()});
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

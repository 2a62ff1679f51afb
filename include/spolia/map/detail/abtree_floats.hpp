// SPDX-License-Identifier: Apache-2.0
// abtree_floats.hpp: an abtree whose keys are floating-point numbers, which it holds as integers.
//
// Each key is turned into its rank (map/keys.hpp) once, at the beginning of an operation, and the
// tree is one of ranks. So a search counts integers, which needs neither a comparison of numbers
// that -ffast-math may take for another, nor the turning of each key that it meets. A rank that is
// shown is turned back: NaN comes with the canonical bits, -0 as 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Others (long double) are searched for by their order.
template <class Key>
inline constexpr bool ranks_lie_in_nodes = [] {
  if constexpr (float_layout<Key>::known) return float_layout<Key>::plain && sizeof(Key) <= 8;
  return false;
}();

/// The core of an abtree (map/detail/face.hpp), on top of `Ranks`, that of a tree of ranks.
template <class Key, class Ranks>
class abtree_of_floats {
  using rank = typename Ranks::key_type;

 public:
  using key_type = Key;
  using mapped_type = typename Ranks::mapped_type;
  using domain_type = typename Ranks::domain_type;
  using key_compare = float_order<Key>;
  using seen = typename Ranks::seen;

  abtree_of_floats(domain_type& home, key_compare) : ranks_(home, typename Ranks::key_compare()) {}

  domain_type& home() const noexcept { return ranks_.home(); }

  template <bool Assign, class V, class... Seen>
  SPOLIA_ALWAYS_INLINE bool put(const Key& key, V&& value, const Seen&... was) {
    return ranks_.template put<Assign>(float_rank(key), std::forward<V>(value), was...);
  }
  template <class... Seen>
  SPOLIA_ALWAYS_INLINE bool erase(const Key& key, const Seen&... was) {
    return ranks_.erase(float_rank(key), was...);
  }
  bool look(const Key& key, seen& to) const { return ranks_.look(float_rank(key), to); }
  SPOLIA_ALWAYS_INLINE bool contains(const Key& key) const {
    return ranks_.contains(float_rank(key));
  }
  template <class F>
  SPOLIA_ALWAYS_INLINE bool visit(const Key& key, F&& f) const {
    return ranks_.visit(float_rank(key), std::forward<F>(f));
  }

  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    const bounds<Within> of(within);
    const auto shown = shows(f);
    ranks_.template scan<Down>(of.ranks(), shown);
  }
  template <bool Down, class Within>
  auto outermost(const Within& within) const {
    const bounds<Within> of(within);
    std::optional<std::pair<Key, mapped_type>> found;
    if (auto pair = ranks_.template outermost<Down>(of.ranks())) {
      found.emplace(key_of(pair->first), std::move(pair->second));
    }
    return found;
  }

  template <class Next>
  void fill(std::size_t n, const Next& next) {
    ranks_.fill(n, [&](const auto& to) {
      next([&](const Key& key, const mapped_type& value) { to(float_rank(key), value); });
    });
  }

  std::size_t size_approx() const noexcept { return ranks_.size_approx(); }
  std::uint64_t bytes_approx() const noexcept { return ranks_.bytes_approx(); }
  auto audit() const { return ranks_.audit(); }

 private:
  /// The ranks of the keys that bound a scan.
  template <class Within>
  class bounds {
   public:
    explicit bounds(const Within& of)
        : of_(of),
          from_(of.from != nullptr ? float_rank(*of.from) : rank{}),
          to_(of.to != nullptr ? float_rank(*of.to) : rank{}) {}
    [[nodiscard]] interval<rank, rank, Within::has_to> ranks() const noexcept {
      return {of_.from != nullptr ? &from_ : nullptr, of_.with_from,
              of_.to != nullptr ? &to_ : nullptr};
    }

   private:
    const Within& of_;
    rank from_;
    rank to_;
  };

  static Key key_of(rank of_key) noexcept {
    Key key;
    float_of_rank(of_key, key);
    return key;
  }
  /// Shows f runs of keys in the place of runs of ranks.
  template <class F>
  struct runs_of_keys {
    static constexpr bool takes_runs = true;
    F& f;
    template <class Run>
    bool operator()(const Run& ranks) const {
      pairs<Key, mapped_type> keys;
      keys.reserve(ranks.size());
      for (const auto& [of_key, value] : ranks) keys.emplace_back(key_of(of_key), value);
      return f(std::span(std::as_const(keys)));
    }
  };
  template <class F>
  static auto shows(const in_runs<F>& all) {
    return runs_of_keys<F>{all.f};
  }
  template <class F>
  static auto shows(F& f) {
    return [&f](rank of_key, const mapped_type& value) -> decltype(auto) {
      const Key key = key_of(of_key);
      return f(key, value);
    };
  }

  Ranks ranks_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

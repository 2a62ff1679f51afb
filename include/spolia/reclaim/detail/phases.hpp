// SPDX-License-Identifier: Apache-2.0
// phases.hpp: what guard.read(f) hands to f, and how protections leave f.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/slot_owners.hpp>
#include <spolia/reclaim/protected_ptr.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// One thing comes as itself, several as a tuple.
template <class... T>
auto one_or_all(std::tuple<T...> all) noexcept {
  if constexpr (sizeof...(T) == 1) {
    return std::get<0>(std::move(all));
  } else {
    return all;
  }
}

/// Of schemes whose reads do not start over: the guard by another name.
template <class Guard>
class plain_phase {
 public:
  explicit plain_phase(Guard& g) noexcept : guard_(g) {}

  template <class Pointer>
  using protected_ptr = typename Guard::template protected_ptr<Pointer>;

  template <class Source>
  [[nodiscard]] auto protect(const Source& source) noexcept(
      noexcept(std::declval<Guard&>().protect(source))) {
    return guard_.protect(source);
  }
  template <class Source, std::predicate Linked>
  [[nodiscard]] bool step(const Source& source, protected_ptr<source_value<Source>>& to,
                          Linked&& linked) {
    return guard_.step(source, to, std::forward<Linked>(linked));
  }
  template <class... T>
  [[nodiscard]] auto keep(T... what) noexcept {
    return one_or_all(std::tuple<T...>(std::move(what)...));
  }

 private:
  Guard& guard_;
};

/// What leaves a restartable f: values without destructors, some of them named in slots.
template <class... T>
struct kept_parts {
  static constexpr std::size_t named = 0;
};
template <class First, class... Rest>
struct kept_parts<First, Rest...> {
  static constexpr std::size_t named = kept_parts<Rest...>::named;
  First first;
  kept_parts<Rest...> rest;
};
template <class Pointer, class... Rest>
struct kept_parts<protected_ptr<Pointer, no_slot>, Rest...> {
  static constexpr std::size_t named = 1 + kept_parts<Rest...>::named;
  Pointer first;
  kept_parts<Rest...> rest;
};

template <class T>
struct is_kept : std::false_type {};
template <class... T>
struct is_kept<kept_parts<T...>> : std::true_type {};

/// The protections, in slots of their own, and the other values.
inline std::tuple<> given(const kept_parts<>&, owned_slot*) noexcept { return {}; }
template <class First, class... Rest>
auto given(const kept_parts<First, Rest...>& parts, owned_slot* all_slots) noexcept {
  if constexpr (kept_parts<First, Rest...>::named == kept_parts<Rest...>::named) {
    return std::tuple_cat(std::tuple<First>(parts.first), given(parts.rest, all_slots));
  } else {
    auto made = protecting::in(std::move(*all_slots), parts.first);
    return std::tuple_cat(std::tuple<decltype(made)>(std::move(made)),
                          given(parts.rest, all_slots + 1));
  }
}

/// Of schemes whose reads may start over: the whole phase protects what is reached in it.
template <class Scheme>
class restartable_phase {
 public:
  restartable_phase(Scheme& scheme, typename Scheme::local& local,
                    typename Scheme::hold& hold) noexcept
      : scheme_(scheme), local_(local), hold_(hold) {}

  template <class Pointer>
  using protected_ptr = spolia::protected_ptr<Pointer, no_slot>;

  template <class Source>
  [[nodiscard]] protected_ptr<source_value<Source>> protect(const Source& source) noexcept {
    return protecting::without_slot(scheme_.protect(local_, hold_, 0, source));
  }
  template <class Source, std::predicate Linked>
  [[nodiscard]] bool step(const Source& source, protected_ptr<source_value<Source>>& to,
                          Linked&&) noexcept {
    to = protect(source);
    return true;
  }
  template <class... T>
  [[nodiscard]] kept_parts<T...> keep(T... what) noexcept {
    return keep_from(0, what...);
  }

  template <class F>
  auto run(F& f) {
    using result = std::invoke_result_t<F&, restartable_phase&>;
    static_assert(std::is_void_v<result> || std::is_trivially_copyable_v<result>,
                  "read() may start over: protections leave it by `return phase.keep(...)`, and "
                  "besides only values without destructors");
    const auto search = [&] { return f(*this); };
    if constexpr (is_kept<result>::value) {
      // The slots are taken before: what f does may be undone.
      std::array<owned_slot, result::named> all_slots;
      for (std::size_t i = 0; i < all_slots.size(); ++i) {
        all_slots[i] = owned_slot(Scheme::owners(hold_));
        slots_[i] = all_slots[i].number();
      }
      return one_or_all(given(scheme_.read(local_, hold_, search), all_slots.data()));
    } else {
      return scheme_.read(local_, hold_, search);
    }
  }

 private:
  kept_parts<> keep_from(std::size_t) noexcept { return {}; }
  template <class First, class... Rest>
  kept_parts<First, Rest...> keep_from(std::size_t named, First& first, Rest&... rest) noexcept {
    if constexpr (kept_parts<First, Rest...>::named == kept_parts<Rest...>::named) {
      return {first, keep_from(named, rest...)};
    } else {
      scheme_.keep(local_, hold_, slots_[named], first.get());
      return {first.get(), keep_from(named + 1, rest...)};
    }
  }

  Scheme& scheme_;
  typename Scheme::local& local_;
  typename Scheme::hold& hold_;
  std::array<unsigned, guard_slots> slots_{};
};

template <class Guard, class Scheme>
using phase_of =
    std::conditional_t<protects_by_restart<Scheme>, restartable_phase<Scheme>, plain_phase<Guard>>;

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
// rlu_list.hpp: an ordered map as one sorted list over read-log-update: reads see one instant of
// it, and several operations, on several containers, can be one.
//
// Source:      the list of Kim et al.: MV-RLU, ASPLOS 2019, section 6.2.
//
//     spolia::rlu::domain home;
//     spolia::rlu_list<int, std::string> waiting(home), done(home);
//     home.update([&](auto& in) {                     // no reader sees it in neither or in both
//       if (auto job = waiting.find(7)) { waiting.erase(7); done.insert(7, *job); }
//     });
//
// Operations:  see map/detail/face.hpp. Each is a section of its own, or a part of the one that the
//              calling thread is in; then what an update returns means nothing if that is doomed,
//              and what was moved into the map is gone if that starts over: copy instead. for_each
//              and range show one instant; they copy it first, so their f may do what it likes.
// Cost:        linear in the number of smaller keys.
// Progress:    reads never wait. Of updates that change the same links one succeeds.
// Errors:      std::bad_alloc, rlu::log_full, and whatever the user's copies, moves and comparisons
//              throw: then the map is as it was before.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/face.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/rlu_chain.hpp>
#include <spolia/map/detail/rlu_scan.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/rlu/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value, class Domain, class Compare>
class rlu_list_core {
  using chain = rlu_chain<Key, Value, Domain, Compare>;
  using reader = typename Domain::reader;
  using writer = typename Domain::writer;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using key_compare = Compare;
  using seen = seen_value<Value>;

  rlu_list_core(Domain& home, Compare less)
      : home_(home), less_(std::move(less)), roots_(home, 1), root_(roots_[0]) {}
  rlu_list_core(const rlu_list_core&) = delete;
  rlu_list_core& operator=(const rlu_list_core&) = delete;
  ~rlu_list_core() { chain::discard(home_, root_); }

  Domain& home() const noexcept { return home_; }

  template <bool Assign, class K, class V, class... Seen>
  bool put(K&& key, V&& value, const Seen&... was) {
    return home_.update([&](writer& in) {
      const auto done =
          chain::template put<Assign>(in, root_, std::forward<K>(key), std::forward<V>(value),
                                      next_stamp<Value>(size_), less_, was...);
      return is_done(in, done, wanted_by<Seen...>, size_);
    });
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    return home_.update([&](writer& in) {
      return is_done(in, chain::erase(in, root_, key, less_, was...), rlu_change::removed, size_);
    });
  }

  template <class K>
  bool contains(const K& key) const {
    return home_.read([&](reader& in) SPOLIA_INLINE_LAMBDA {
      return chain::locate(in, root_, key, less_).found;
    });
  }

  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    return home_.read([&](reader& in) SPOLIA_INLINE_LAMBDA {
      const auto p = chain::locate(in, root_, key, less_);
      if (p.found) f(in.fixed(p.at).value);
      return p.found;
    });
  }

  template <class K>
  bool look(const K& key, seen& to) const {
    return home_.read([&](reader& in) {
      const auto p = chain::locate(in, root_, key, less_);
      if (p.found) to.look(in.fixed(p.at).value, in.fixed(p.at).stamp);
      return p.found;
    });
  }

  template <bool, class Within, class F>
  void scan(const Within& within, F& f) const {
    show_copies<Key, Value>(f, [&](auto& copies) {
      home_.read([&](reader& in) {
        auto n = in.read(within.from == nullptr ? in.read(root_)->next
                                                : chain::locate(in, root_, *within.from, less_).at);
        if (n && within.is_after(n.fixed().key, less_)) n = in.read(n->next);
        for (; n && !within.is_over_at(n.fixed().key, less_); n = in.read(n->next)) {
          copies.push_back({n.fixed().key, n.fixed().value});
        }
      });
    });
  }
  static constexpr bool is_linear = true;
  /// Of all, the first.
  template <bool>
  auto outermost(const interval<Key>&) const {
    return home_.read([&](reader& in) {
      std::optional<std::pair<Key, Value>> found;
      if (const auto n = in.read(in.read(root_)->next)) {
        found.emplace(n.fixed().key, n.fixed().value);
      }
      return found;
    });
  }

  std::size_t size_approx() const noexcept { return size_.approx(); }

 private:
  Domain& home_;
  [[no_unique_address]] Compare less_;
  detail::map::size_counter size_;
  typename chain::roots roots_;
  const typename chain::start root_;  // the only one
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = rlu::domain, class Compare = default_order<Key>>
class rlu_list
    : private detail::map::kinds_of_logs_by_order<Key, Domain, Compare>,
      public detail::map::map_face<detail::map::rlu_list_core<Key, Value, Domain, Compare>> {
  using face = detail::map::map_face<detail::map::rlu_list_core<Key, Value, Domain, Compare>>;

 public:
  using face::face;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

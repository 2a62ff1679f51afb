// SPDX-License-Identifier: Apache-2.0
// rlu_cache.hpp: an in-memory cache of strings: a table of buckets, with a search tree in each. It
// has the shape of caches in which each look-up locks a slot. Here no reader waits, several keys
// can be read at one instant, and several can be set at once.
#pragma once

#include <spolia/rlu.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace example {

namespace rlu = spolia::rlu;

/// The cache, over any domain of read-log-update.
template <class Domain>
class basic_cache {
 public:
  /// A bucket that has more than `most` records loses one. The domain must live longer.
  basic_cache(Domain& home, std::size_t buckets, std::uint32_t most)
      : home_(home), most_(most), buckets_(home_, buckets) {}
  basic_cache(const basic_cache&) = delete;
  basic_cache& operator=(const basic_cache&) = delete;
  ~basic_cache() {
    std::vector<rlu::ptr<record>> rest;
    for (std::size_t i = 0; i < buckets_.size(); ++i) rest.push_back(home_.alone(buckets_[i]).top);
    while (!rest.empty()) {
      const rlu::ptr<record> r = rest.back();
      rest.pop_back();
      if (!r) continue;
      const record last = home_.alone(r);
      rest.insert(rest.end(), {last.left, last.right});
      home_.discard(last.value);
      home_.discard(r);
    }
  }

  std::optional<std::string> get(const std::string& key) {
    return home_.read([&](auto& in) { return value_of(in, key); });
  }
  using pair = std::pair<std::optional<std::string>, std::optional<std::string>>;
  /// Both values as they were at one instant.
  pair get_both(const std::string& one, const std::string& two) {
    return home_.read([&](auto& in) { return pair(value_of(in, one), value_of(in, two)); });
  }

  /// True if the key is new.
  bool set(const std::string& key, const std::string& value) {
    return home_.update([&](writer& in) { return set(in, key, value); });
  }
  /// Sets both; no section sees one of them without the other.
  void set_both(const std::string& one, const std::string& two, const std::string& value) {
    home_.update([&](writer& in) {
      set(in, one, value);
      set(in, two, value);
    });
  }

  bool erase(const std::string& key) {
    return home_.update([&](writer& in) {
      const place p = locate(in, key);
      const auto b = p.at ? in.try_lock(p.in) : rlu::copy<bucket>();
      if (!b) return false;
      take_out(in, b, p);
      return true;
    });
  }

  std::size_t size() {
    return home_.read([&](auto& in) {
      std::size_t sum = 0;
      for (std::size_t i = 0; i < buckets_.size(); ++i) sum += in.read(buckets_[i])->records;
      return sum;
    });
  }

 private:
  using reader = typename Domain::reader;
  using writer = typename Domain::writer;

  // A value never changes: another one takes its place. So its string is the fixed part.
  struct text {
    using fixed = std::string;
    char nothing = 0;
  };
  struct record {
    using fixed = std::string;  // the key
    rlu::ptr<text> value;
    rlu::ptr<record> left;
    rlu::ptr<record> right;
  };
  struct bucket : rlu::element {
    rlu::ptr<record> top;
    std::uint32_t records = 0;
  };

  /// Where a key is or would be.
  struct place {
    rlu::ptr<bucket> in;
    rlu::ptr<record> above;  // null: the top
    bool left = false;       // of `above`
    rlu::view<record> at;    // empty: the key is absent
  };

  place locate(reader& in, std::string_view key) {
    place p;
    p.in = buckets_[std::hash<std::string_view>()(key) % buckets_.size()];
    p.at = in.read(in.read(p.in)->top);
    while (p.at && p.at.fixed() != key) {
      p.above = p.at;
      p.left = key < p.at.fixed();
      p.at = in.read(p.left ? p.at->left : p.at->right);
    }
    return p;
  }

  std::optional<std::string> value_of(reader& in, const std::string& key) {
    const auto r = locate(in, key).at;
    if (!r) return std::nullopt;
    return in.read(r->value).fixed();
  }

  /// The link at a position, to be changed; null if it could not be locked.
  static rlu::ptr<record>* link(writer& in, rlu::copy<bucket> b, const place& p) {
    if (!p.above) return &b->top;
    const auto above = in.try_lock(p.above);
    if (!above) return nullptr;
    return p.left ? &above->left : &above->right;
  }

  // An object that cannot be locked dooms the section: we return, and it is called again.
  bool set(writer& in, const std::string& key, const std::string& value) {
    const place p = locate(in, key);
    if (p.at) {
      const auto r = in.try_lock(p.at.self());
      if (r && in.free(r->value)) r->value = in.template make<text>(value, {});
      return false;
    }
    const auto b = in.try_lock(p.in);
    rlu::ptr<record>* const to = b ? link(in, b, p) : nullptr;
    if (to == nullptr) return false;
    *to = in.template make<record>(key, {in.template make<text>(value, {}), {}, {}});
    // The top is the oldest, more or less.
    if (++b->records > most_) take_out(in, b, {p.in, {}, false, in.read(b->top)});
    return true;
  }

  /// The right subtree of the record that goes is moved below the last record of its left one.
  static void take_out(writer& in, rlu::copy<bucket> b, const place& p) {
    rlu::ptr<record>* const from = link(in, b, p);
    const auto goes = in.try_lock(p.at.self());
    if (from == nullptr || !goes) return;
    if (!goes->left) {
      *from = goes->right;
    } else {
      auto last = in.read(goes->left);
      while (last->right) last = in.read(last->right);
      const auto end = in.try_lock(last.self());
      if (!end) return;
      end->right = goes->right;
      *from = goes->left;
    }
    if (in.free(goes->value) && in.free(goes.self())) --b->records;
  }

  Domain& home_;
  const std::uint32_t most_;
  rlu::array<bucket, Domain> buckets_;
};

using cache = basic_cache<rlu::domain>;

}  // namespace example

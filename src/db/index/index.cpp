// SPDX-License-Identifier: Apache-2.0
// index.cpp: ordered indexes: (a,b)-trees over keys of a few widths; secondary hash indexes.

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <new>

#include <spolia/base/short_lock.hpp>
#include <spolia/map/abtree.hpp>

#include "db/index/cuckoo_index.hpp"
#include "db/index/hash_secondary.hpp"
#include "db/index/index.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

template <std::uint32_t Words>
struct tree_key {
  std::array<std::uint64_t, Words> words;

  friend bool operator<(const tree_key& a, const tree_key& b) noexcept {
    std::uint32_t i = 0;
    while (i + 1 < Words && a.words[i] == b.words[i]) ++i;
    return a.words[i] < b.words[i];
  }
};

}  // namespace
}  // namespace db

namespace detail::map {

// In the leaves, although they are long: to copy a few of them costs less than to allocate a place
// for each, and a search does not go from place to place to compare them.
template <std::uint32_t Words>
inline constexpr bool lies_in_nodes<db::tree_key<Words>> = true;

}  // namespace detail::map

namespace db {
namespace {

/// Nodes of long keys or values have fewer of them, so that allocators have a quick way for their
/// size.
template <std::uint32_t Words, class What>
using tree_of = abtree<tree_key<Words>, What, domain<>, std::less<tree_key<Words>>,
                       (Words > 6 || sizeof(What) > 8 ? 10 : abtree_degree)>;

template <std::uint32_t Words>
tree_key<Words> cut(const key_words& key) noexcept {
  tree_key<Words> k{};
  std::copy_n(key.begin(), std::min<std::size_t>(Words, key.size()), k.words.begin());
  return k;
}

template <std::uint32_t Words>
class ordered_primary final : public primary_index {
 public:
  explicit ordered_primary(domain<>& nodes) : tree_(nodes) {}

  [[nodiscard]] std::uint64_t find(const key_words& key) const override {
    std::uint64_t slot = no_slot;
    tree_.visit(cut<Words>(key), [&](const std::uint64_t& s) { slot = s; });
    return slot;
  }
  std::uint64_t claim(const key_words& key, std::uint64_t slot) override {
    for (;;) {
      if (tree_.insert(cut<Words>(key), slot)) return slot;
      const std::uint64_t there = find(key);
      if (there != no_slot) return there;
    }
  }
  // One slot at a time has the key, and who removes it holds its row.
  bool remove(const key_words& key, std::uint64_t) noexcept override {
    try {
      tree_.erase(cut<Words>(key));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  [[nodiscard]] bool ordered() const noexcept override { return true; }
  void scan(const key_words& lo, const key_words& hi, slot_visitor f) const override {
    bool more = true;
    const auto show = [&](const tree_key<Words>& key, const std::uint64_t& slot) {
      return more = f(slot, key.words.data());
    };
    tree_.range(cut<Words>(lo), cut<Words>(hi), show);
    if (!more) return;
    const std::uint64_t last = find(hi);
    if (last != no_slot && !(cut<Words>(hi) < cut<Words>(lo))) f(last, hi.data());
  }
  void scan_down(const key_words& lo, const key_words& hi, slot_visitor f) const override {
    const std::uint64_t first = find(hi);
    if (first != no_slot && !(cut<Words>(hi) < cut<Words>(lo)) && !f(first, hi.data())) return;
    const auto show = [&](const tree_key<Words>& key, const std::uint64_t& slot) {
      return f(slot, key.words.data());
    };
    tree_.range_down(cut<Words>(lo), cut<Words>(hi), show);
  }

 private:
  tree_of<Words, std::uint64_t> tree_;
};

/// Keys with the slot behind them.
template <std::uint32_t Words>
class ordered_secondary final : public secondary_index {
 public:
  explicit ordered_secondary(domain<>& nodes) : tree_(nodes) {}

  std::uint64_t add(const key_words& key, std::uint64_t slot, index_entry e) override {
    const std::lock_guard hold(lock_of(slot));
    if (tree_.insert(with(key, slot), e)) return e.birth;
    e.birth = entry_in(key, slot).birth;
    tree_.insert_or_assign(with(key, slot), e);
    return e.birth;
  }
  std::uint64_t add_once(const key_words& key, std::uint64_t slot, index_entry e) override {
    const std::lock_guard hold(lock_of(slot));
    return tree_.insert(with(key, slot), e) ? e.claim : entry_in(key, slot).claim;
  }
  // With the lock: a thread that builds the index, and adds an entry after that, sees that the row
  // is locked.
  [[nodiscard]] index_entry entry_of(const key_words& key, std::uint64_t slot) const override {
    const std::lock_guard hold(lock_of(slot));
    return entry_in(key, slot);
  }
  bool remove(const key_words& key, std::uint64_t slot, std::uint64_t claim) noexcept override {
    try {
      const std::lock_guard hold(lock_of(slot));
      if (entry_in(key, slot).claim == claim) tree_.erase(with(key, slot));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  void scan(const key_words& lo, const key_words& hi, slot_visitor f) const override {
    const auto show = [&](const tree_key<Words>& key, const index_entry&) {
      return f(key.words.back(), key.words.data());
    };
    tree_.range(with(lo, 0), with(hi, no_slot), show);
  }
  void scan_down(const key_words& lo, const key_words& hi, slot_visitor f) const override {
    const auto show = [&](const tree_key<Words>& key, const index_entry&) {
      return f(key.words.back(), key.words.data());
    };
    tree_.range_down(with(lo, 0), with(hi, no_slot), show);
  }

 private:
  static constexpr std::size_t locks = 16;

  static tree_key<Words> with(const key_words& key, std::uint64_t slot) noexcept {
    tree_key<Words> k{};
    std::copy_n(key.begin(), Words - 1, k.words.begin());
    k.words.back() = slot;
    return k;
  }
  [[nodiscard]] index_entry entry_in(const key_words& key, std::uint64_t slot) const {
    index_entry found{};
    tree_.visit(with(key, slot), [&](const index_entry& e) { found = e; });
    return found;
  }
  spolia::detail::short_lock& lock_of(std::uint64_t slot) const noexcept {
    return locks_[slot % locks];
  }

  tree_of<Words, index_entry> tree_;
  mutable std::array<spolia::detail::short_lock, locks> locks_;
};

}  // namespace

std::unique_ptr<primary_index> make_ordered_primary(std::uint32_t words, domain<>& nodes) {
  if (words <= 2) return std::make_unique<ordered_primary<2>>(nodes);
  if (words <= 4) return std::make_unique<ordered_primary<4>>(nodes);
  return std::make_unique<ordered_primary<most_key_words>>(nodes);
}

std::unique_ptr<secondary_index> make_ordered_secondary(std::uint32_t words, domain<>& nodes) {
  if (words <= 1) return std::make_unique<ordered_secondary<2>>(nodes);
  if (words <= 4) return std::make_unique<ordered_secondary<5>>(nodes);
  return std::make_unique<ordered_secondary<most_key_words + 1>>(nodes);
}

std::unique_ptr<secondary_index> make_hash_secondary(std::uint32_t words, region_domain& nodes,
                                                     hash_kind kind) {
  if (kind == hash_kind::cuckoo) {
    return std::make_unique<hash_secondary<region_domain, cuckoo_index>>(nodes, words);
  }
  return std::make_unique<hash_secondary<>>(nodes, words);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

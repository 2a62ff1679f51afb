// SPDX-License-Identifier: Apache-2.0
// table_list.hpp: the tables of a database, by name and by number, and what is left of dropped
// ones. Internal.
//
// Idea:        a table and its indexes stay at their addresses until the database is closed, since
//              programs keep references to them. So they are in blocks that are never moved. Their
//              large parts are elsewhere (table::parts), and are freed when no reader can use them.
// Dropped:     the cleaner, which must not wait for a lock, frees rows and indexes, and puts the
//              table into a list. A later change of the catalogue, or a count of the tables, takes
//              the list and frees the parts.
// Memory:      of a table that was dropped, 112 bytes, its name if that has more than 15 bytes, and
//              40 for each index that it ever had. Beside that, layouts.hpp.
// Cost:        constant, but for tables by number: logarithmic.
// Threads:     make() and unmake() take a short lock, has_gone() takes none. The rest is for a
//              caller that has engine::catalog_lock, or opens the database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/schema.hpp>
#include <spolia/db/table.hpp>

#include "db/catalog/slot_chunks.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Objects that stay at their addresses, in blocks. Each block has room for as many as all those
/// before it together, and four more.
template <class T>
class fixed_objects {
 public:
  fixed_objects() = default;
  fixed_objects(const fixed_objects&) = delete;
  fixed_objects& operator=(const fixed_objects&) = delete;
  ~fixed_objects() { clear(); }

  /// Throws std::bad_alloc, and what the constructor throws.
  template <class... Args>
  T& make(Args&&... args) {
    const auto [number, to] = take();
    try {
      return *::new (to) T(std::forward<Args>(args)...);
    } catch (...) {
      give(number);
      throw;
    }
  }
  /// Ends the object, to which no caller has a reference any more.
  void unmake(T& t) noexcept {
    t.~T();
    give(number_of(&t));
  }
  /// Ends all of them.
  void clear() noexcept {
    for (std::uint32_t n = 0; n < made_; ++n) {
      if (!free_.has(n)) at(n)->~T();
    }
    blocks_.clear();
    free_ = {};
    made_ = 0;
  }

 private:
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  static constexpr std::uint32_t least = 4;

  static unsigned block_of(std::uint32_t n) noexcept { return bit_length(n / least + 1) - 1; }
  static std::uint32_t size_of(unsigned block) noexcept { return least << block; }
  static std::uint32_t first_of(unsigned block) noexcept { return size_of(block) - least; }

  struct place {
    std::uint32_t number;
    void* memory;
  };
  [[nodiscard]] T* at(std::uint32_t n) const noexcept {
    const unsigned b = block_of(n);
    return reinterpret_cast<T*>(blocks_[b].get() + std::size_t{n - first_of(b)} * sizeof(T));
  }
  place take() {
    const std::lock_guard hold(lock_);
    std::uint32_t n = free_.lowest();
    if (n == number_set::none) {
      n = made_;
      free_.make_room(n + 1);  // so that give() needs no memory
      const unsigned b = block_of(n);
      if (b == blocks_.size()) {
        blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size_of(b) * sizeof(T)));
      }
      ++made_;
    } else {
      free_.remove(n);
    }
    return {n, at(n)};
  }
  void give(std::uint32_t n) noexcept {
    const std::lock_guard hold(lock_);
    free_.add(n);
  }
  std::uint32_t number_of(const T* t) noexcept {
    const std::lock_guard hold(lock_);
    unsigned b = 0;
    const auto is_in = [&] {
      const T* const first = at(first_of(b));
      return std::less_equal<>()(first, t) && std::less<>()(t, first + size_of(b));
    };
    while (!is_in()) ++b;
    return first_of(b) + static_cast<std::uint32_t>(t - at(first_of(b)));
  }

  spolia::detail::short_lock lock_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::uint32_t made_ = 0;  // how many positions were ever taken
  number_set free_;         // those of them that are free now
};

/// Allows lookup of a name that is no std::string.
struct hash_of_text : std::hash<std::string_view> {
  using is_transparent = void;
};

class table_list {
 public:
  table_list() = default;
  table_list(const table_list&) = delete;
  table_list& operator=(const table_list&) = delete;
  ~table_list() { clear(); }

  // Make and end objects that are not listed. make() and make_index() throw std::bad_alloc, and
  // what the constructors throw.
  table& make(const table_spec& spec, engine& of) { return tables_.make(spec, of); }
  void unmake(table& t) noexcept { tables_.unmake(t); }
  secondary& make_index(table& of) { return indexes_.make(of); }
  void unmake(secondary& i) noexcept { indexes_.unmake(i); }

  /// The table that has the name now, or is to have it; null: none has.
  [[nodiscard]] table* named(std::string_view name) const noexcept {
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : found->second;
  }
  /// The tables whose parts were not freed, by number.
  [[nodiscard]] const std::map<std::uint32_t, table*>& by_number() const noexcept {
    return numbers_;
  }
  /// Lists the table. No listed table has its name or its number. Throws std::bad_alloc; nothing
  /// has changed then.
  void add(table& t) {
    const auto at = numbers_.emplace_hint(numbers_.end(), t.number_, &t);
    try {
      names_.emplace(t.name(), &t);
    } catch (...) {
      numbers_.erase(at);
      throw;
    }
  }
  /// Makes the table found by this name, too, which no other has. Throws std::bad_alloc.
  void add_name(const std::string& name, table& t) { names_.emplace(name, &t); }
  /// Makes no table found by this name any more.
  void take_name(std::string_view name) noexcept {
    const auto found = names_.find(name);
    if (found != names_.end()) names_.erase(found);
  }
  /// Takes the table's name away from it: another table may get it.
  void give_name_up(const table& t) noexcept {
    const auto found = names_.find(std::string_view(t.name_));
    if (found != names_.end() && found->second == &t) names_.erase(found);
  }
  /// Ends a listed table without a trace: no caller has a reference to it.
  void erase(table& t) noexcept {
    give_name_up(t);
    numbers_.erase(t.number_);
    unmake(t);
  }
  /// Sets whether dropped tables that no snapshot sees stay listed.
  void keep_gone(bool on) noexcept { keeps_gone_ = on; }
  [[nodiscard]] bool keeps_gone() const noexcept { return keeps_gone_; }
  void clear() noexcept {
    names_.clear();
    numbers_.clear();
    gone_.store_relaxed(nullptr);
    tables_.clear();  // which unmake indexes
    indexes_.clear();
  }

  /// To be called when no snapshot sees the table, and its rows and indexes were freed.
  void has_gone(table& t) noexcept {
    t.parts_->next_gone = gone_.load_relaxed();
    // release → the acquire in strip_gone(): what was freed, and the next one.
    while (!gone_.cas_weak_release(t.parts_->next_gone, &t)) {
    }
  }
  /// Frees the parts of these tables, unless they stay listed.
  void strip_gone() noexcept {
    if (keeps_gone_ || gone_.load_relaxed() == nullptr) return;
    for (table* t = gone_.exchange_acquire(nullptr); t != nullptr;) {
      table& now = *std::exchange(t, t->parts_->next_gone);
      if (now.strip()) {
        numbers_.erase(now.number_);
      } else {
        has_gone(now);
      }
    }
  }

 private:
  fixed_objects<secondary> indexes_;  // these two with those of dropped tables
  fixed_objects<table> tables_;
  std::unordered_map<std::string, table*, hash_of_text, std::equal_to<>> names_;
  std::map<std::uint32_t, table*> numbers_;
  atomic<table*> gone_{nullptr};
  bool keeps_gone_ = false;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

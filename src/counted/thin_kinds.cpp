// SPDX-License-Identifier: Apache-2.0
// thin_kinds.cpp: the numbers of the types that thin pointers are for.
//
// A type has one in each shared object that makes such objects. When a plugin is unloaded, its
// numbers are given out again: numbers in use are looked through whenever they have doubled since
// the last time, so a type costs a constant number of looks on average, and the table holds at most
// twice as many as types are loaded, or 1024.
#include <spolia/counted/home.hpp>

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>

#if __has_include(<link.h>)
#include <link.h>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

constinit const void* thin_kinds[65536] = {};

namespace {

/// All of it while the caller is the only one that makes something.
class kind_numbers {
 public:
  std::uint32_t of(const void* ops) {
    if (taken_ >= look_at_) give_back();
    std::uint32_t free = used_;
    for (std::uint32_t i = 0; i < used_; ++i) {
      const void* const there = thin_kinds[number(i)];
      // Several shared objects may ask for one kind; and a plugin that is loaded again often comes
      // to the same place.
      if (there == ops) return number(i);
      if (there == nullptr && free == used_) free = i;
    }
    if (free == most) throw std::length_error("too many kinds of thin objects");
    if (free == used_) ++used_;
    ++taken_;
    in_object_[free] = is_loaded(ops);
    // A plain store: a thread that sees an object of the kind sees the entry, too.
    thin_kinds[number(free)] = ops;
    return number(free);
  }

 private:
  /// Whether the program or a shared object that is loaded has this address. (What a compiler makes
  /// while the program runs lies in none.) Takes no lock that the loader holds while it runs
  /// functions of shared objects.
  static bool is_loaded(const void* at) noexcept {
#if __has_include(<link.h>)
    const auto has = [](dl_phdr_info* object, std::size_t, void* asked) {
      const auto address = reinterpret_cast<std::uintptr_t>(asked);
      for (int i = 0; i < object->dlpi_phnum; ++i) {
        const auto& part = object->dlpi_phdr[i];
        const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && address - begin < part.p_memsz) return 1;
      }
      return 0;
    };
    return dl_iterate_phdr(has, const_cast<void*>(at)) != 0;
#else
    static_cast<void>(at);
    return false;
#endif
  }

  /// The first number is where this copy of the library lies, so that two copies seldom give out
  /// one number, and objects of the other one are found out.
  static std::uint32_t number(std::uint32_t i) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(thin_kinds) >> 12U;
    return (static_cast<std::uint32_t>(first) + i) % most;
  }

  /// Empties the entries of shared objects that are gone. There is no object of such a kind: its
  /// end would be code that is gone, too.
  void give_back() noexcept {
    for (std::uint32_t i = 0; i < used_; ++i) {
      const void*& kind = thin_kinds[number(i)];
      if (kind == nullptr || !in_object_[i] || is_loaded(kind)) continue;
      kind = nullptr;
      --taken_;
    }
    look_at_ = std::clamp(2 * taken_, seldom, most);
  }

  static constexpr std::uint32_t most = std::size(thin_kinds);
  static constexpr std::uint32_t seldom = 1024;

  std::bitset<most> in_object_;  ///< whether is_loaded() was true of it
  std::uint32_t used_ = 0;       ///< entries before this one are a kind, or empty again
  std::uint32_t taken_ = 0;      ///< and so many are a kind
  std::uint32_t look_at_ = seldom;
};

constinit kind_numbers numbers_of_kinds;

}  // namespace

std::uint32_t add_thin_kind(const void* ops) {
  const threads::making alone;  // no other thread adds a kind meanwhile
  return numbers_of_kinds.of(ops);
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

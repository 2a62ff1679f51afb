// SPDX-License-Identifier: Apache-2.0
// array.hpp: objects side by side that live as long as the array, such as the buckets of a table.
// They need no block each, and a section finds one without following a pointer.
//
//     struct bucket : spolia::rlu::element { spolia::rlu::ptr<node> first; };
//     spolia::rlu::array<bucket> buckets(home, 1024);
//     home.read([&](auto& in) { return in.read(buckets[7])->first; });
//
// Sections read and lock an element as they do any object. To make or free one does not compile.
// Errors:      std::bad_alloc.
// Teardown:    no section may see an element any more, as for domain::discard.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/rlu/domain.hpp>
#include <spolia/rlu/object.hpp>
#include <spolia/rlu/pointers.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

template <class T, class Domain = domain>
class array {
  static_assert(
      requires { typename Domain::writer; },
      "rlu: the second argument of an array is its domain, such as spolia::rlu::domain");
  using whole = detail::whole<T>;
  static_assert(detail::is_element<T>, "rlu: what lives in an array derives from rlu::element");
  static_assert(std::is_same_v<detail::fixed_of<T>, no_fixed_part>,
                "rlu: elements of an array have no fixed part");

 public:
  /// `home` must outlive the array. \throws std::bad_alloc
  array(Domain& home, std::size_t size, const T& first = T())
      : domain_(home), size_(size), objects_(allocate(size)) {
    for (std::size_t i = 0; i < size; ++i) {
      ::new (objects_ + i) whole(detail::word::since(0), no_fixed_part(), first);
    }
  }
  array(const array&) = delete;
  array& operator=(const array&) = delete;
  ~array() {
    for (std::size_t i = 0; i < size_; ++i) domain_.write_back(objects_[i]);
    domain_.wait_for_collectors();
    for (std::size_t i = 0; i < size_; ++i) objects_[i].~whole();
    memory::deallocate(objects_, size_ * sizeof(whole), alignof(whole));
  }

  ptr<T> operator[](std::size_t i) const noexcept {
    return detail::access::pointer<T>(objects_ + i);
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static whole* allocate(std::size_t size) {
    if (size > (std::numeric_limits<std::size_t>::max)() / sizeof(whole)) {
      throw std::bad_array_new_length();
    }
    return static_cast<whole*>(memory::allocate(size * sizeof(whole), alignof(whole)));
  }

  Domain& domain_;
  const std::size_t size_;
  whole* const objects_;
};

}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR

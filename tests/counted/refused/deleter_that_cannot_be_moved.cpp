// SPDX-License-Identifier: Apache-2.0
// A deleter goes along with the object: one that cannot be moved can be referred to.
#include <spolia/memory.hpp>

#include <memory>
#include <utility>

struct deleter {
  deleter() = default;
  deleter(const deleter&) = delete;
  void operator()(int* p) const { delete p; }
};

int main() {
#if defined(REFUSED)
  std::unique_ptr<int, deleter> owner(new int);
#else
  deleter of_all;
  std::unique_ptr<int, deleter&> owner(new int, of_all);
#endif
  const spolia::shared_ptr<int> p = std::move(owner);
}

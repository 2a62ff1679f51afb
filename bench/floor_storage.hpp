// SPDX-License-Identifier: Apache-2.0
// floor_storage.hpp: a version storage that costs nothing but the writing of versions: the ceiling
// of what another storage may reach.
//
// Each commit writes its versions into the same buffer of its thread's, which stays in the second
// cache, over those of the commit before. Nothing is registered, counted, linked or freed. So no
// old version can be read: who needs one has a conflict, and begins anew at a later snapshot.
#pragma once

#include <spolia/base/cells.hpp>
#include <spolia/db.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace bench {

class floor_storage final : public spolia::db::delta {
 public:
  using version = spolia::db::version;
  using ask = spolia::db::ask;

  bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t /*most*/) override {
    buffer& mine = buffers_.of(writer);
    std::size_t need = 0;
    for (const ask& a : asks) need += version::bytes(a.words);
    if (need > mine.size) {
      mine.memory = std::make_unique_for_overwrite<std::byte[]>(need);
      mine.size = need;
    }
    std::byte* next = mine.memory.get();
    for (ask& a : asks) {
      a.place = version::make(next);
      a.handle = std::bit_cast<std::uintptr_t>(a.place);
      next += version::bytes(a.words);
    }
    return true;
  }
  void published(std::uint32_t, std::uint64_t) noexcept override {}
  void cancel(std::uint32_t) noexcept override {}
  [[nodiscard]] const version* find(const spolia::atomic<std::uint64_t>&, std::uint64_t,
                                    std::uint64_t, const spolia::db::taking_back*) const override {
    throw spolia::db::no_result(spolia::db::outcome::conflict);
  }
  void collect() noexcept override {}

 private:
  [[nodiscard]] spolia::db::delta_stats figures() const noexcept override { return {}; }

  struct alignas(spolia::cache_line) buffer {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size = 0;
  };
  spolia::cells<buffer> buffers_;
};

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// loading_indexes.cpp: the indexes of rows that were loaded, by several threads.
#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include <spolia/base/joined_threads.hpp>
#include <spolia/base/unwind.hpp>

#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint64_t worth_threads = 8000;  // rows

}  // namespace

bool loader::settle(table& t, unsigned part, unsigned parts) {
  const schema& s = t.form();
  std::vector<std::uint64_t> image(s.words());
  return t.primary_->settle(part, parts, [&](std::uint64_t slot) {
    t.at(slot).load(s.whole().runs, image.data());
    return s.key_of(s.key(), image.data());
  });
}

void loader::index(table& t, std::uint64_t first, std::uint64_t end) {
  const schema& s = t.form();
  image_.resize(s.words());
  for (std::uint64_t slot = first; slot < end; ++slot) {
    const row_place place = t.at(slot);
    if ((place.head->shape.load_relaxed() & row_exists) == 0) continue;
    place.load(s.whole().runs, image_.data());
    for (const secondary* const i : t.indexes().all) {
      const key_words key = s.key_of(i->parts_->columns, image_.data());
      i->entries_->add(key, slot, {engine_.next_claim(), born_before_all});
      if (i->parts_->unique) must_be_alone(t, *i, key, slot);
    }
  }
}

/// False: a key comes twice.
bool recovery::settle() {
  std::atomic<bool> good{true};
  for (const auto& [number, table_of] : engine_.tables.by_number()) {
    table* const t = table_of;  // lambdas may have it
    const std::size_t parts = t->row_slots() > worth_threads ? pool_.size() : 1;
    in_parts(parts, [&](std::size_t part) {
      if (!loader::settle(*t, static_cast<unsigned>(part), static_cast<unsigned>(parts))) {
        good.store(false, std::memory_order_relaxed);
      }
    });
  }
  return good.load(std::memory_order_relaxed);  // the threads have been joined
}

void recovery::fill_indexes() {
  std::uint64_t done = 0;
  for (const auto& [number, table_of] : engine_.tables.by_number()) {
    table* const t = table_of;  // lambdas may have it
    tell("indexes", done++, engine_.tables.by_number().size());
    if (!loader::indexed(*t)) continue;
    try {
      const std::uint64_t slots = t->row_slots();
      const std::uint64_t share = slots / pool_.size() + 1;
      in_parts(pool_.size(), [&](std::size_t i) {
        loader(engine_).index(*t, std::min(slots, i * share), std::min(slots, (i + 1) * share));
      });
    } catch (const malformed& e) {
      // Each record made sense alone: no place in one file is the wrong one.
      refuse(folder_.path(), storage_error::nowhere, e.what());
    }
  }
  tell("indexes", done, engine_.tables.by_number().size());
}

/// Calls it for each part, each in a thread of its own if there can be as many.
void recovery::in_parts(std::size_t parts, const std::function<void(std::size_t)>& f) const {
  std::vector<std::exception_ptr> failed(parts);
  const auto make = [&](std::size_t part) {
    try {
      f(part);
    } catch (...) {
      let_unwinding_pass();
      failed[part] = std::current_exception();
    }
  };
  {
    detail::joined_threads threads;
    std::size_t begun = 1;
    while (begun < parts && threads.start([&make, begun] { make(begun); })) ++begun;
    make(0);
    for (; begun < parts; ++begun) make(begun);
  }
  for (const std::exception_ptr& e : failed) {
    if (e) std::rethrow_exception(e);
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

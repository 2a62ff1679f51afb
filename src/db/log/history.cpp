// SPDX-License-Identifier: Apache-2.0
#include "db/log/history.hpp"

#include "base/entropy.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

std::uint64_t history::new_origin() {
  std::uint64_t made = 0;
  while (made == 0) made = core::random_bits();
  return made;
}

void history::reach(std::uint64_t last, std::uint64_t origin) {
  if (last <= this->last()) return;
  if (!parts_.empty() && parts_.back().origin == origin) {
    parts_.back().last = last;
    return;
  }
  if (parts_.size() == most_parts) parts_.erase(parts_.begin());
  parts_.push_back({last, origin});
}

bool history::has(std::uint64_t sequence, std::uint64_t origin) const noexcept {
  if (origin == 0) return false;
  const auto before = [](const part& p, std::uint64_t s) { return p.last < s; };
  const auto at = std::lower_bound(parts_.begin(), parts_.end(), sequence, before);
  return at != parts_.end() && at->origin == origin;
}

void history::put(byte_buffer& to) const {
  for (const part& p : parts_) {
    put_number(to, p.last);
    put_number(to, p.origin);
  }
}

history history::read(bytes_view from, std::uint64_t last) {
  history read;
  for (decoder d(from); !d.done();) {
    const auto end = d.number<std::uint64_t>();
    const auto origin = d.number<std::uint64_t>();
    if (end <= read.last() || read.parts_.size() == most_parts) {
      throw malformed("the history at the end of a checkpoint makes no sense");
    }
    read.parts_.push_back({end, origin});
  }
  if (from.empty()) {
    read.reach(last, 0);
  } else if (read.last() != last) {
    throw malformed("the history at the end of a checkpoint is that of another one");
  }
  return read;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

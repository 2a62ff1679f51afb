// SPDX-License-Identifier: Apache-2.0
// file_stream.cpp: reading files from the beginning to the end.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

read_buffers::handle read_buffers::take(std::size_t room) {
  std::unique_ptr<buffer> found;
  {
    const std::lock_guard hold(lock_);
    const auto fits = std::find_if(waiting_.rbegin(), waiting_.rend(),
                                   [&](const auto& b) { return b->room >= room; });
    if (fits != waiting_.rend()) {
      found = std::move(*fits);
      std::swap(*fits, waiting_.back());
      waiting_.pop_back();
    }
  }
  if (found == nullptr) {
    found = std::make_unique<buffer>();
    found->data = std::make_unique_for_overwrite<std::byte[]>(room + decoder::spare);
    found->room = room;
  }
  found->size = 0;
  return {found.release(), [this](buffer* b) { give(b); }};
}

void read_buffers::give(buffer* b) noexcept {
  std::unique_ptr<buffer> done(b);
  if (b->room > longest_kept) return;
  const std::lock_guard hold(lock_);
  if (waiting_.size() < most_waiting) waiting_.push_back(std::move(done));
}

void change_batch::read_block(read_buffers& buffers) {
  // Blocks are of about one length: buffers of one length do for all.
  constexpr std::size_t step = 128U << 10U;
  bytes = buffers.take((size + step - 1) / step * step);
  bytes->size = from->read(at, {bytes->data.get(), size});
  if (bytes->size != size) throw damage_at(file, at, "the file ends within a block");
}

bytes_view file_stream::look(std::size_t bytes) {
  bytes = std::min<std::uint64_t>(bytes, left());
  const bytes_view rest = now_ != nullptr ? now_->view().subspan(used_) : bytes_view();
  if (rest.size() >= bytes) return rest;
  const read_buffers::handle next = buffers_.take(std::max(bytes, part));
  std::copy(rest.begin(), rest.end(), next->data.get());
  ahead_.reach(at());
  const std::size_t more = std::min<std::uint64_t>(next->room, left()) - rest.size();
  const std::size_t got = file_.read(at() + rest.size(), {next->data.get() + rest.size(), more});
  next->size = rest.size() + got;
  std::fill_n(next->data.get() + next->size, decoder::spare, std::byte{0});
  begin_ = at();
  used_ = 0;
  now_ = next;
  // Another program has made the file shorter meanwhile.
  if (got < more) size_ = begin_ + next->size;
  return now_->view();
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

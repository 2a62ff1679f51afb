// SPDX-License-Identifier: Apache-2.0
// salvage_checkpoint.cpp: the blocks that are whole of a checkpoint that may be damaged.
#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "db/log/history.hpp"
#include "db/log/salvage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::size_t scan_window = 1U << 20U;
constexpr std::uint32_t every_table = std::numeric_limits<std::uint32_t>::max();

}  // namespace

/// Descriptions come in the order of their numbers, then rows in that order, then the end.
bool salvaged_checkpoint::run::may_come_before(const run& y) const noexcept {
  const whole_block& a = blocks.back();
  const whole_block& b = y.blocks.front();
  if (a.end > b.begin || a.kind > b.kind || a.kind == block_kind::end) return false;
  if (a.kind != b.kind) return true;
  return a.kind == block_kind::table ? a.table < b.table : a.table <= b.table;
}

salvaged_checkpoint::salvaged_checkpoint(folder& in, std::uint64_t named,
                                         const std::function<void(std::uint64_t)>& tell)
    : name_(file_name(file_kind::checkpoint, named)),
      file_(in.open(name_, file_mode::read)),
      size_(file_->size()),
      sequence_(named) {
  std::array<std::byte, file_header::bytes> bytes{};
  const std::size_t got = read_what_can_be(*file_, 0, bytes, unreadable_);
  file_header h;
  wrong_header_ = read_header(file_kind::checkpoint, bytes_view(bytes).first(got), h);
  header_crc_ = header_checksum(bytes);
  if (wrong_header_ == nullptr) header_ = h;
  std::uint64_t told = 0;
  for (std::uint64_t at = file_header::bytes; at < size_;) {
    block_header b;
    if (whole_at(at, b)) {
      take(at, b);
      at = runs_.back().end();
    } else {
      at = next_after(at);
    }
    tell(at - told);
    told = at;
  }
  // The first block names the checksum of the header: so it proves a header of which that is lost.
  const bool first = !runs_.empty() && runs_.front().begin() == file_header::bytes;
  const bool proven = first && runs_.front().chain == header_crc_;
  std::array<std::byte, file_header::bytes> mended{};
  const std::uint32_t other_sum = first ? runs_.front().chain : ~header_crc_;
  if (!header_ &&
      mend_header(file_kind::checkpoint, bytes_view(bytes).first(got), other_sum, mended)) {
    if (read_header(file_kind::checkpoint, mended, h) != nullptr) {
      throw unknown_format(in.path_of(name_), h.format);
    }
    header_ = h;
  }
  if (header_) sequence_ = header_->sequence;
  choose(proven);
  find_gaps();
  const auto missing = missing_rows();
  whole_ = header_ && wrong_header_ == nullptr && proven && gaps_.empty() && missing == 0;
  runs_.clear();
}

bool salvaged_checkpoint::whole_at(std::uint64_t at, block_header& out) {
  std::array<std::byte, block_header::bytes> head{};
  const std::size_t got = read_what_can_be(*file_, at, head, unreadable_);
  if (read_block_header(bytes_view(head).first(got), out) != nullptr) return false;
  if (out.kind < block_kind::table || out.kind > block_kind::end) return false;
  if (size_ - at - head.size() < out.length) return false;
  const byte_block all = read({.begin = at, .end = at + head.size() + out.length});
  return block_whole(all, out) &&
         (out.kind != block_kind::end || has_history(bytes_view(all).subspan(head.size())));
}

/// Whether an opening takes the list at the end for that of this checkpoint.
bool salvaged_checkpoint::has_history(bytes_view body) const {
  try {
    static_cast<void>(history::read(body, header_ ? header_->sequence : sequence_));
    return true;
  } catch (const malformed&) {
    return false;
  }
}

byte_block salvaged_checkpoint::read(const whole_block& b) {
  byte_block all(static_cast<std::size_t>(b.end - b.begin));
  const std::size_t got = read_what_can_be(*file_, b.begin, all, unreadable_);
  std::fill(all.begin() + got, all.end(), std::byte{0});
  return all;
}

/// Notes each place from here on where a whole block begins.
void salvaged_checkpoint::find_all(std::uint64_t from) {
  std::vector<linked_places::link> all;
  byte_block part(scan_window + block_header::bytes);
  while (from + block_header::bytes <= size_) {
    const std::size_t got = read_what_can_be(*file_, from, part, unreadable_);
    if (got < block_header::bytes) break;
    for (std::size_t i = 0; i + block_header::bytes <= got; ++i) {
      const bytes_view rest = bytes_view(part).subspan(i, block_header::bytes);
      if (rest[0] != std::byte{block_header::magic & 0xffU}) continue;
      block_header h;
      if (read_block_header(rest, h) != nullptr || !whole_at(from + i, h)) continue;
      all.push_back({.sequence = 0, .chain = h.chain, .at = from + i});
    }
    from += got - block_header::bytes + 1;
  }
  places_.reserve(all.size());
  for (const linked_places::link& l : all) places_.push_back(l.at);
  links_.emplace(std::move(all));
}

/// As segment_scan::next_after(): where the broken one ends as its header says; one that names its
/// checksum; any.
std::uint64_t salvaged_checkpoint::next_after(std::uint64_t hole) {
  std::array<std::byte, block_header::bytes> head{};
  const std::size_t got = read_what_can_be(*file_, hole, head, unreadable_);
  if (got < head.size()) return size_;
  const auto length = from_little<std::uint32_t>(head.data() + 8);
  const auto crc = from_little<std::uint32_t>(head.data() + 4);
  const auto chain = from_little<std::uint32_t>(head.data() + 12);
  const std::uint64_t end = hole + head.size() + length;
  block_header h;
  const bool before = !runs_.empty() && runs_.back().end() == hole;
  const bool placed = before ? runs_.back().crc == chain
                             : hole == file_header::bytes && header_ && chain == header_crc_;
  if (end < size_ && whole_at(end, h) && (placed || h.chain == crc)) return end;
  if (!links_) find_all(hole + 1);  // holes come in ascending order
  if (placed) {
    const auto linked = links_->find({.sequence = 0, .chain = crc, .at = hole + 1});
    if (linked) return *linked;
  }
  const auto next = std::upper_bound(places_.begin(), places_.end(), hole);
  return next == places_.end() ? size_ : *next;
}

void salvaged_checkpoint::take(std::uint64_t at, const block_header& h) {
  const bool goes_on = !runs_.empty() && runs_.back().end() == at && runs_.back().crc == h.chain;
  if (!goes_on) runs_.push_back({.blocks = {}, .chain = h.chain, .crc = h.crc});
  run& r = runs_.back();
  r.crc = h.crc;
  r.blocks.push_back({.kind = h.kind,
                      .table = h.table,
                      .rows = h.rows,
                      .begin = at,
                      .end = at + block_header::bytes + h.length});
}

/// Which of the runs are used. One that begins where the header says so, or ends where the file
/// does, is no bytes of a row that look like blocks.
void salvaged_checkpoint::choose(bool header_fits) {
  const auto anchored = [&](std::size_t i) {
    return (i == 0 && header_fits) || (runs_[i].end() == size_ && runs_[i].is_end());
  };
  const auto weight = [&](std::size_t i) {
    return runs_[i].end() - runs_[i].begin() + (anchored(i) ? size_ : 0);
  };
  const auto chosen = heaviest_chain(runs_.size(), weight, [&](std::size_t x, std::size_t y) {
    return runs_[x].may_come_before(runs_[y]);
  });
  const auto use = [&](bool all) {
    blocks_.clear();
    for (const std::size_t i : chosen) {
      if (!all && !anchored(i)) continue;
      blocks_.insert(blocks_.end(), runs_[i].blocks.begin(), runs_[i].blocks.end());
    }
  };
  use(true);
  if (has_end() && rows_in_blocks() > blocks_.back().rows) use(false);  // some were never its own
  for (const whole_block& b : blocks_) bytes_ += b.end - b.begin;
}

void salvaged_checkpoint::find_gaps() {
  const whole_block* before = nullptr;
  std::uint64_t at = std::min<std::uint64_t>(file_header::bytes, size_);
  for (const whole_block& b : blocks_) {
    if (b.begin != at) add_gap(before, &b, {at, b.begin});
    before = &b;
    at = b.end;
  }
  if (at != size_ || before == nullptr || before->kind != block_kind::end) {
    add_gap(before, nullptr, {at, size_});
  }
}

void salvaged_checkpoint::add_gap(const whole_block* before, const whole_block* after,
                                  extent where) {
  gap g{.where = where};
  const block_kind from = before != nullptr ? before->kind : block_kind::table;
  const block_kind to = after != nullptr ? after->kind : block_kind::end;
  if (from == block_kind::end) {  // something follows the end
    gaps_.push_back(g);
    return;
  }
  g.tables = from == block_kind::table;
  g.rows = to != block_kind::table;
  g.first = from == block_kind::rows ? before->table : 0;
  g.last = to == block_kind::rows ? after->table : every_table;
  gaps_.push_back(g);
}

bool salvaged_checkpoint::may_miss_rows(std::uint32_t table) const noexcept {
  if (missing_rows() == 0) return false;
  return std::any_of(gaps_.begin(), gaps_.end(),
                     [&](const gap& g) { return g.rows && g.first <= table && table <= g.last; });
}

std::uint64_t salvaged_checkpoint::rows_in_blocks() const noexcept {
  std::uint64_t rows = 0;
  for (const whole_block& b : blocks_) {
    if (b.kind == block_kind::rows) rows += b.rows;
  }
  return rows;
}

std::optional<std::uint64_t> salvaged_checkpoint::missing_rows() const noexcept {
  if (!has_end() || rows_in_blocks() > blocks_.back().rows) return std::nullopt;
  return blocks_.back().rows - rows_in_blocks();
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

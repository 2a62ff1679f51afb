// SPDX-License-Identifier: Apache-2.0
// salvage_scan.cpp: whole records among damaged ones.
#include "db/log/salvage_scan.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::size_t bytes_of_a_read = 1U << 20U;
constexpr std::size_t disk_page = 4096;

bool is_record_kind(record_kind k) noexcept {
  return k >= record_kind::transaction && k <= record_kind::rename_table;
}

}  // namespace

std::size_t read_what_can_be(storage_file& from, std::uint64_t offset, std::span<std::byte> to,
                             std::vector<extent>& unreadable) {
  std::size_t done = 0;
  while (done < to.size()) {
    const std::uint64_t at = offset + done;
    std::span<std::byte> part = to.subspan(done, std::min(bytes_of_a_read, to.size() - done));
    std::size_t got = 0;
    try {
      got = from.read(at, part);
    } catch (const storage_error& e) {
      if (means_denied(e)) throw;
      // Somewhere in it: disk_page by disk_page, as disks fail in no less.
      if (part.size() > disk_page - at % disk_page) {
        std::size_t pages = 0;
        while (pages < part.size()) {
          const std::uint64_t here = at + pages;
          const std::size_t most =
              std::min<std::size_t>(disk_page - here % disk_page, part.size() - pages);
          const std::size_t some =
              read_what_can_be(from, here, part.subspan(pages, most), unreadable);
          pages += some;
          if (some < most) return done + pages;
        }
        done += pages;
        continue;
      }
      std::fill(part.begin(), part.end(), std::byte{0});
      got = part.size();
      if (!unreadable.empty() && unreadable.back().end == at) {
        unreadable.back().end = at + got;
      } else {
        unreadable.push_back({at, at + got});
      }
    }
    done += got;
    if (got < part.size()) break;
  }
  return done;
}

bool segment_scan::whole_at(std::size_t at, record_header& out) const noexcept {
  const char* const why = sums_ ? read_record(all_, at, *sums_, out)  // it may be one of many
                                : read_record(all_.subspan(at), out);
  if (why != nullptr) return false;
  if (!is_record_kind(out.kind) || out.sequence == 0 || out.durable >= out.sequence) return false;
  return header_ == nullptr || (out.epoch == header_->epoch && out.sequence >= header_->sequence);
}

std::optional<segment_scan::broken> segment_scan::header_at(std::size_t at) const noexcept {
  if (all_.size() - at < record_header::bytes) return std::nullopt;
  broken b{.says = parse_record(all_.subspan(at))};
  const log_piece* const before = open();
  b.placed = before != nullptr && before->linked && before->end == at &&
             b.says.sequence == before->last + 1 && b.says.chain == before->crc &&
             b.says.epoch == before->epoch;
  return b;
}

/// Whether the number fits: it is none from before the file, nor far behind it. Bytes between may
/// be missing, too. Which of several that exclude each other are true is decided later.
bool segment_scan::can_be(std::size_t at, const record_header& h) const {
  if (open() == nullptr) return true;
  const log_piece& first = to_[begin_];
  return h.sequence >= first.first && h.sequence - first.first <= at;
}

/// The damaged record there does not make a table: its header says so, and it is not that alone
/// which is damaged.
bool segment_scan::no_table(std::size_t at, std::size_t end) const {
  const record_header says = parse_record(all_.subspan(at));
  if (!is_record_kind(says.kind) || says.kind == record_kind::create_table) return false;
  std::vector<std::byte> copy(all_.begin() + static_cast<std::ptrdiff_t>(at),
                              all_.begin() + static_cast<std::ptrdiff_t>(end));
  constexpr std::size_t kind_at = 36;
  to_little(copy.data() + kind_at, static_cast<std::uint32_t>(record_kind::create_table));
  return crc32c(std::span(copy).subspan(8)) != says.crc;
}

template <class Wanted>
std::size_t segment_scan::find(std::size_t from, Wanted&& wanted) const {
  constexpr int first_byte = record_header::magic & 0xffU;
  while (from + record_header::bytes <= all_.size()) {
    const std::size_t most = all_.size() - record_header::bytes + 1 - from;
    const void* const found = std::memchr(all_.data() + from, first_byte, most);
    if (found == nullptr) break;
    from = static_cast<std::size_t>(static_cast<const std::byte*>(found) - all_.data());
    // Its checksum is looked at last: rows may be full of what looks like records.
    record_header h;
    if (from_little<std::uint32_t>(all_.data() + from) == record_header::magic &&
        wanted(from, parse_record(all_.subspan(from))) && whole_at(from, h)) {
      return from;
    }
    ++from;
  }
  return all_.size();
}

std::size_t segment_scan::find_linked(const linked_places::link& wanted) {
  if (!links_) {
    std::vector<linked_places::link> all;
    const auto any = [](std::size_t, const record_header&) { return true; };
    for (std::size_t at = find(0, any); at != all_.size(); at = find(at + 1, any)) {
      const record_header h = parse_record(all_.subspan(at));
      all.push_back({h.sequence, h.chain, at});
    }
    links_.emplace(std::move(all));
  }
  return static_cast<std::size_t>(links_->find(wanted).value_or(all_.size()));
}

std::size_t segment_scan::next_after(std::size_t hole) {
  if (!sums_) sums_.emplace(all_);
  const log_piece* const before = open();
  const std::uint64_t after_next = before != nullptr ? before->last + 2 : 0;
  const auto b = header_at(hole);
  const auto any = [&](std::size_t at, const record_header& h) { return can_be(at, h); };
  if (!b) return find(hole + 1, any);
  const std::uint64_t end = hole + record_header::bytes + std::uint64_t{b->says.length};
  const bool inside = end + record_header::bytes <= all_.size();
  record_header h;
  if (inside && whole_at(end, h) &&
      ((before != nullptr && h.sequence == after_next) || h.chain == b->says.crc)) {
    no_table_lost_ = b->placed && h.sequence == after_next && no_table(hole, end);
    return end;
  }
  if (b->placed) {  // then it is the length that is wrong, or the next one is damaged, too
    const std::size_t linked = find_linked({after_next, b->says.crc, hole + 1});
    if (linked != all_.size()) return linked;
  }
  if (b->placed && inside) {
    const record_header next = parse_record(all_.subspan(end));
    const bool begins = from_little<std::uint32_t>(all_.data() + end) == record_header::magic;
    const bool follows = next.sequence == after_next && next.epoch == before->epoch;
    if (begins && (follows || next.chain == b->says.crc)) return find(end, any);
  }
  return find(hole + 1, any);
}

void segment_scan::take(std::size_t at, const record_header& h) {
  const std::size_t end = at + record_header::bytes + h.length;
  const log_piece* const before = open();
  const bool goes_on = before != nullptr && before->end == at && h.sequence == before->last + 1 &&
                       h.chain == before->crc && h.epoch == before->epoch;
  if (!goes_on) {
    to_.push_back({.first = h.sequence,
                   .last = h.sequence - 1,
                   .chain = h.chain,
                   .crc = h.chain,
                   .epoch = h.epoch,
                   .file = file_,
                   .begin = at,
                   .records_at = at,
                   .end = at,
                   .no_table_lost = std::exchange(no_table_lost_, false)});
  }
  log_piece& piece = to_.back();
  piece.last = h.sequence;
  piece.crc = h.crc;
  piece.weight += end - at;
  piece.end = end;
}

void segment_scan::run() {
  if (header_ != nullptr) {
    to_.push_back({.first = header_->sequence,
                   .last = header_->sequence - 1,
                   .chain = header_->chain,
                   .crc = header_->chain,
                   .epoch = header_->epoch,
                   .file = file_,
                   .begin = 0,
                   .records_at = file_header::bytes,
                   .end = file_header::bytes,
                   .weight = file_header::bytes});
  }
  // Without a header, bytes of it may be missing.
  std::size_t at = header_ != nullptr ? file_header::bytes : 0;
  while (at < all_.size()) {
    record_header h;
    if (!whole_at(at, h)) {
      at = next_after(at);
      continue;
    }
    take(at, h);
    at = static_cast<std::size_t>(to_.back().end);
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

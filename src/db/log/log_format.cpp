// SPDX-License-Identifier: Apache-2.0
// log_format.cpp: headers of files, records and blocks.
#include "db/log/log_format.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "db/log/checksum.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::string_view log_magic = "SPOLIALG";
constexpr std::string_view checkpoint_magic = "SPOLIACP";

constexpr std::string_view magic_of(file_kind kind) noexcept {
  return kind == file_kind::log ? log_magic : checkpoint_magic;
}
constexpr std::string_view prefix_of(file_kind kind) noexcept {
  return kind == file_kind::log ? "log-" : "checkpoint-";
}
constexpr std::string_view suffix = ".spl";
constexpr std::size_t sequence_digits = 16;
constexpr const char* wrong_checksum = "the checksum of a record is wrong";

/// The header of a record that has its place, whatever its checksum.
const char* read_head(bytes_view from, record_header& out) noexcept {
  if (from.size() < record_header::bytes) return "the file ends within the header of a record";
  if (from_little<std::uint32_t>(from.data()) != record_header::magic) {
    return "here should be a record";
  }
  out = parse_record(from);
  if (from.size() - record_header::bytes < out.length) return "the file ends within a record";
  return nullptr;
}

}  // namespace

std::uint32_t seal_record(std::span<std::byte> record, record_header h) noexcept {
  std::byte* const to = record.data();
  to_little(to, record_header::magic);
  to_little(to + 8, static_cast<std::uint32_t>(record.size() - record_header::bytes));
  to_little(to + 12, h.chain);
  to_little(to + 16, h.sequence);
  to_little(to + 24, h.durable);
  to_little(to + 32, h.epoch);
  to_little(to + 36, static_cast<std::uint32_t>(h.kind));
  const std::uint32_t crc = crc32c(record.subspan(8));
  to_little(to + 4, crc);
  return crc;
}

record_header parse_record(bytes_view from) noexcept {
  const std::byte* const at = from.data();
  return {.length = from_little<std::uint32_t>(at + 8),
          .crc = from_little<std::uint32_t>(at + 4),
          .chain = from_little<std::uint32_t>(at + 12),
          .sequence = from_little<std::uint64_t>(at + 16),
          .durable = from_little<std::uint64_t>(at + 24),
          .epoch = from_little<std::uint32_t>(at + 32),
          .kind = static_cast<record_kind>(from_little<std::uint32_t>(at + 36))};
}

const char* read_record(bytes_view from, record_header& out) noexcept {
  if (const char* const why = read_head(from, out)) return why;
  const bytes_view summed = from.subspan(8, record_header::bytes - 8 + out.length);
  return crc32c(summed) == out.crc ? nullptr : wrong_checksum;
}

const char* read_record(bytes_view all, std::size_t at, const part_checksums& sums,
                        record_header& out) noexcept {
  constexpr std::size_t quickly_read = 4096;
  const bytes_view from = all.subspan(at);
  if (const char* const why = read_head(from, out)) return why;
  if (out.length <= quickly_read) return read_record(from, out);
  const std::size_t end = at + record_header::bytes + out.length;
  return sums.of(at + 8, end) == out.crc ? nullptr : wrong_checksum;
}

bool only_zeros(bytes_view from) noexcept {
  if (from.empty()) return true;
  // The first is one, and each is as the one before: many are compared at once.
  return from[0] == std::byte{0} && std::memcmp(from.data(), from.data() + 1, from.size() - 1) == 0;
}

std::array<std::byte, file_header::bytes> write_header(file_kind kind, const file_header& h) {
  std::array<std::byte, file_header::bytes> made{};
  std::memcpy(made.data(), magic_of(kind).data(), 8);
  to_little(made.data() + 12, h.format);
  std::copy(h.id.begin(), h.id.end(), made.begin() + 16);
  to_little(made.data() + 32, h.sequence);
  to_little(made.data() + 40, h.epoch);
  to_little(made.data() + 44, h.chain);
  to_little(made.data() + 48, h.tables);
  to_little(made.data() + 52, std::uint32_t{h.log_follows ? 1U : 0U});
  to_little(made.data() + 56, h.origin);
  to_little(made.data() + 8, header_checksum(made));
  return made;
}

bool mend_header(file_kind kind, bytes_view from, std::uint32_t other_sum,
                 std::array<std::byte, file_header::bytes>& out) noexcept {
  if (from.size() < file_header::bytes) return false;
  const std::uint32_t sum = header_checksum(from);
  if (sum != from_little<std::uint32_t>(from.data() + 8) && sum != other_sum) return false;
  std::copy_n(from.begin(), out.size(), out.begin());
  std::memcpy(out.data(), magic_of(kind).data(), 8);
  to_little(out.data() + 8, sum);
  return true;
}

std::uint32_t header_checksum(bytes_view header) noexcept {
  return crc32c(header.subspan(12, file_header::bytes - 12));
}

const char* const unknown_header_format = "it has a format that this version does not know";

const char* read_header(file_kind kind, bytes_view from, file_header& out) noexcept {
  if (from.size() < file_header::bytes) return "the file ends within its header";
  const std::byte* const at = from.data();
  if (std::memcmp(at, magic_of(kind).data(), 8) != 0) return "it is a file of another kind";
  if (from_little<std::uint32_t>(at + 8) != header_checksum(from)) {
    return "the checksum of the header is wrong";
  }
  out.format = from_little<std::uint32_t>(at + 12);
  if (out.format < oldest_format || out.format > storage_format) return unknown_header_format;
  std::copy_n(from.begin() + 16, out.id.size(), out.id.begin());
  out.sequence = from_little<std::uint64_t>(at + 32);
  out.epoch = from_little<std::uint32_t>(at + 40);
  out.chain = from_little<std::uint32_t>(at + 44);
  out.tables = from_little<std::uint32_t>(at + 48);
  out.log_follows = from_little<std::uint32_t>(at + 52) != 0;
  out.origin = from_little<std::uint64_t>(at + 56);
  return nullptr;
}

std::string file_name(file_kind kind, std::uint64_t sequence) {
  std::array<char, sequence_digits + 1> number{};
  std::snprintf(number.data(), number.size(), "%016llx", static_cast<unsigned long long>(sequence));
  return std::string(prefix_of(kind)) + number.data() + std::string(suffix);
}

bool parse_name(std::string_view name, file_kind kind, std::uint64_t& sequence) noexcept {
  const std::string_view prefix = prefix_of(kind);
  if (name.size() != prefix.size() + sequence_digits + suffix.size() || !name.starts_with(prefix) ||
      !name.ends_with(suffix)) {
    return false;
  }
  sequence = 0;
  for (const char c : name.substr(prefix.size(), sequence_digits)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return false;
    sequence = sequence << 4U | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return true;
}

std::uint32_t seal_block(std::span<std::byte> block, block_header h) noexcept {
  std::byte* const to = block.data();
  to_little(to, block_header::magic);
  to_little(to + 8, static_cast<std::uint32_t>(block.size() - block_header::bytes));
  to_little(to + 12, h.chain);
  to_little(to + 16, static_cast<std::uint32_t>(h.kind));
  to_little(to + 20, h.table);
  to_little(to + 24, h.rows);
  const std::uint32_t crc = crc32c(block.subspan(8));
  to_little(to + 4, crc);
  return crc;
}

const char* read_block_header(bytes_view from, block_header& out) noexcept {
  if (from.size() < block_header::bytes) return "the file ends within the header of a block";
  const std::byte* const at = from.data();
  if (from_little<std::uint32_t>(at) != block_header::magic) return "here should be a block";
  out.crc = from_little<std::uint32_t>(at + 4);
  out.length = from_little<std::uint32_t>(at + 8);
  out.chain = from_little<std::uint32_t>(at + 12);
  out.kind = static_cast<block_kind>(from_little<std::uint32_t>(at + 16));
  out.table = from_little<std::uint32_t>(at + 20);
  out.rows = from_little<std::uint64_t>(at + 24);
  return nullptr;
}

bool block_whole(bytes_view block, const block_header& h) noexcept {
  return block.size() == block_header::bytes + h.length && crc32c(block.subspan(8)) == h.crc;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

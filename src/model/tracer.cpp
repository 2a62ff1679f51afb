// SPDX-License-Identifier: Apache-2.0
#include "tracer.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace spolia::model {
namespace {

std::string hexadecimal(std::uint64_t bits) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "0x%" PRIx64, bits);
  return buffer;
}

std::string with_offset(std::string base, std::size_t offset) {
  if (offset != 0) base += "+" + std::to_string(offset);
  return base;
}

}  // namespace

const char* print(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    default:
      return "seq_cst";
  }
}

void tracer::begin(bool on) {
  on_ = on;
  lines_ = 0;
  names_.clear();
  strangers_.clear();
  text_.clear();
}

void tracer::name(const void* address, std::size_t bytes, std::string text) {
  if (!on_) return;
  names_.push_back({reinterpret_cast<std::uintptr_t>(address), bytes, std::move(text)});
}

void tracer::line(const std::string& who, const std::string& what) {
  char head[64];
  std::snprintf(head, sizeof head, "%4u  %-8s", ++lines_, who.c_str());
  text_ += head + what + "\n";
}

// The smallest range wins: a member's name says more than its object's.
const tracer::range* tracer::find(std::uintptr_t address) const {
  const range* best = nullptr;
  for (const range& each : names_) {
    if (address - each.start >= each.bytes) continue;
    if (best == nullptr || each.bytes < best->bytes) best = &each;
  }
  return best;
}

// Addresses outside the heap differ from run to run; the order of their first mention does not.
std::size_t tracer::ordinal(std::uintptr_t address) {
  const auto found = std::find(strangers_.begin(), strangers_.end(), address);
  const auto index = static_cast<std::size_t>(found - strangers_.begin());
  if (found == strangers_.end()) strangers_.push_back(address);
  return index;
}

std::string tracer::place(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  if (const range* named = find(number)) return with_offset(named->text, number - named->start);
  if (!blocks_.owns(address)) return "object" + std::to_string(ordinal(number));
  const block* around = blocks_.find(address);
  if (around == nullptr) return "between blocks " + hexadecimal(number);
  return with_offset("block" + std::to_string(blocks_.number(*around)),
                     number - blocks_.address(*around));
}

std::string tracer::value(std::uint64_t bits) {
  const auto* pointer = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(bits));
  if (blocks_.owns(pointer) || find(static_cast<std::uintptr_t>(bits)) != nullptr) {
    return "&" + place(pointer);
  }
  return bits < 100000 ? std::to_string(bits) : hexadecimal(bits);
}

}  // namespace spolia::model

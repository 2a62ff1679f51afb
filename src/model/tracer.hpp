// SPDX-License-Identifier: Apache-2.0
// Writes down what the threads do, one line per operation, for the replay of a failed execution.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "heap.hpp"

namespace spolia::model {

class tracer {
 public:
  explicit tracer(heap& blocks) : blocks_(blocks) {}

  void begin(bool on);
  bool on() const { return on_; }
  void name(const void* address, std::size_t bytes, std::string text);

  // `who` is a thread's number or one of the stages' names.
  void line(const std::string& who, const std::string& what);

  // An address as a reader knows it: a name, or a place in a numbered block.
  std::string place(const void* address);
  // A value: a pointer into the heap as a place, small numbers as numbers.
  std::string value(std::uint64_t bits);

  std::string take_text() { return std::move(text_); }

 private:
  struct range {
    std::uintptr_t start;
    std::size_t bytes;
    std::string text;
  };
  const range* find(std::uintptr_t address) const;
  std::size_t ordinal(std::uintptr_t address);

  heap& blocks_;
  bool on_ = false;
  std::uint32_t lines_ = 0;
  std::vector<range> names_;
  std::vector<std::uintptr_t> strangers_;  // objects outside the heap and without a name
  std::string text_;
};

const char* print(std::memory_order order);

}  // namespace spolia::model

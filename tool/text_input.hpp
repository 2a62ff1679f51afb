// SPDX-License-Identifier: Apache-2.0
// text_input.hpp: characters of a file, with the place that an error names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "errors.hpp"

namespace tool {

class text_input {
 public:
  static constexpr int end = -1;
  /// More than a row with four of the longest values makes, however they are written.
  static constexpr std::size_t longest = std::size_t{512} << 20U;

  text_input(byte_source& from, std::string name)
      : from_(from), name_(std::move(name)), buffer_(std::size_t{1} << 16U) {}

  [[nodiscard]] int peek() {
    if (at_ == filled_ && !fill()) return end;
    return static_cast<unsigned char>(buffer_[at_]);
  }
  int next() {
    const int c = peek();
    if (c == end) return end;
    ++at_;
    ++bytes_;
    ++column_;
    if (c == '\n') {
      ++line_;
      column_ = 1;
    }
    return c;
  }
  /// Passes over this, if it comes next; nothing may have been read before.
  bool skip(std::string_view wanted) {
    while (filled_ - at_ < wanted.size()) {
      const std::size_t got = from_.read(buffer_.data() + filled_, buffer_.size() - filled_);
      if (got == 0) return false;
      filled_ += got;
    }
    if (std::string_view(buffer_.data() + at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    bytes_ += wanted.size();
    return true;
  }
  /// The next line without its end; false: there is none.
  bool next_line(std::string& to) {
    to.clear();
    if (peek() == end) return false;
    for (int c = next(); c != end && c != '\n'; c = next()) {
      if (to.size() == longest) fail(longer_than_allowed("line"));
      to += static_cast<char>(c);
    }
    if (to.ends_with('\r')) to.pop_back();
    return true;
  }

  /// Of the next character, from 1. Columns are bytes.
  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }
  [[nodiscard]] std::uint64_t column() const noexcept { return column_; }
  /// Read so far.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// What is wrong with a line or a field of more bytes than the longest.
  [[nodiscard]] static std::string longer_than_allowed(std::string_view what) {
    return "the " + std::string(what) + " has more than " + std::to_string(longest) + " bytes";
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw bad_input(name_, line_, column_, what);
  }

 private:
  bool fill() {
    at_ = 0;
    filled_ = from_.read(buffer_.data(), buffer_.size());
    return filled_ != 0;
  }

  byte_source& from_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t column_ = 1;
  std::uint64_t bytes_ = 0;
};

}  // namespace tool

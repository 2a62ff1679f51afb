// SPDX-License-Identifier: Apache-2.0
#include "choices.hpp"

#include <stdexcept>
#include <utility>

namespace spolia::model {

choices::choices(const options& how) : depth_first_(how.how == options::mode::exhaustive) {}

void choices::begin(std::uint64_t seed) {
  next_ = 0;
  diverged_ = false;
  if (!depth_first_ && !following_) path_.clear();
  state_ = seed;
}

bool choices::advance() {
  while (!path_.empty()) {
    decision& last = path_.back();
    if (++last.chosen < last.options) return true;
    path_.pop_back();
  }
  return false;
}

void choices::follow(std::vector<decision> path) {
  path_ = std::move(path);
  following_ = true;
}

std::uint64_t choices::draw() {
  // SplitMix64: neighbouring seeds give unrelated sequences.
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::uint32_t choices::follow_step(std::uint32_t count) {
  decision& recorded = path_[next_++];
  if (recorded.options == 0) recorded.options = static_cast<std::uint8_t>(count);
  if (recorded.options != count || recorded.chosen >= count) {
    diverged_ = true;
    return 0;
  }
  return recorded.chosen;
}

std::uint32_t choices::choose(std::uint32_t count) {
  if (count == 1) return 0;
  if (next_ < path_.size()) return follow_step(count);
  const bool first = depth_first_ || following_;
  return settle(count, first ? 0 : static_cast<std::uint32_t>(draw() % count));
}

std::uint32_t choices::settle(std::uint32_t count, std::uint32_t wish) {
  if (count == 1) return 0;
  if (next_ < path_.size()) return follow_step(count);
  path_.push_back({static_cast<std::uint8_t>(count), static_cast<std::uint8_t>(wish)});
  ++next_;
  return wish;
}

namespace {

constexpr const char* digits = "0123456789abcdefghijklmnopqrstuvwxyz";

std::uint32_t parse_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (c >= 'a' && c <= 'z') return static_cast<std::uint32_t>(c - 'a') + 10;
  throw std::invalid_argument("a replay string has digits, small letters and parentheses only");
}

}  // namespace

std::string print_path(const std::vector<decision>& path) {
  std::size_t length = path.size();
  while (length > 0 && path[length - 1].chosen == 0) --length;
  std::string text;
  for (std::size_t i = 0; i < length; ++i) {
    const std::uint32_t chosen = path[i].chosen;
    if (chosen < 36) {
      text += digits[chosen];
    } else {
      text += '(' + std::to_string(chosen) + ')';
    }
  }
  return text;
}

std::vector<decision> parse_path(const std::string& text) {
  std::vector<decision> path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint32_t chosen = 0;
    if (text[i] != '(') {
      chosen = parse_digit(text[i]);
    } else {
      const std::size_t close = text.find(')', i);
      if (close == std::string::npos) throw std::invalid_argument("a replay string lacks a ')'");
      chosen = static_cast<std::uint32_t>(std::stoul(text.substr(i + 1, close - i - 1)));
      i = close;
    }
    if (chosen >= max_options)
      throw std::invalid_argument("a replay string has too large a number");
    path.push_back({0, static_cast<std::uint8_t>(chosen)});
  }
  return path;
}

}  // namespace spolia::model

// SPDX-License-Identifier: Apache-2.0
// Every decision of an execution (which thread runs next, which store a load returns, whether a
// signal is delivered) passes through here, so that one list of small numbers describes the
// execution.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <spolia/model/engine.hpp>

namespace spolia::model {

struct decision {
  std::uint8_t options = 0;
  std::uint8_t chosen = 0;

  bool operator==(const decision&) const = default;
};

inline constexpr std::uint32_t max_options = 255;

class choices {
 public:
  explicit choices(const options& how);

  // Depth first: the decisions so far are a prefix to follow, and what comes after takes option 0.
  // The other modes draw.
  void begin(std::uint64_t seed);
  // Turns to the next unexplored path; false when there is none.
  bool advance();
  // Follows these decisions in the next execution instead of the mode's own.
  void follow(std::vector<decision> path);

  // Returns a number below `count`, which is at least 1.
  std::uint32_t choose(std::uint32_t count);
  // The same for a decision that was made elsewhere (by priorities): records `wish`.
  std::uint32_t settle(std::uint32_t count, std::uint32_t wish);

  // True if an execution did not offer the options that it had offered the first time.
  bool diverged() const { return diverged_; }
  // False after an execution that ended before the decisions that it was to follow.
  bool used_up() const { return next_ >= path_.size(); }
  bool following() const { return following_; }
  std::uint64_t draw();

  const std::vector<decision>& path() const { return path_; }

 private:
  std::uint32_t follow_step(std::uint32_t count);

  bool depth_first_;
  bool following_ = false;
  bool diverged_ = false;
  std::size_t next_ = 0;
  std::uint64_t state_ = 1;
  std::vector<decision> path_;
};

// "012(40)1": one base-36 digit per decision, larger numbers in parentheses, trailing zeros left
// out. parse_path throws std::invalid_argument; its decisions have options == 0, not known.
std::string print_path(const std::vector<decision>& path);
std::vector<decision> parse_path(const std::string& text);

}  // namespace spolia::model

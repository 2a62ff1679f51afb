// SPDX-License-Identifier: Apache-2.0
// scope.hpp: a section's beginning and end, as objects on the stack of the thread that is in it.
//
// There is a class for sections that read and one for sections that write. Most sections only read,
// and the end of these has no commit to check for: the type says so, and not a flag.
#pragma once

#include <exception>
#include <stdexcept>

#include <spolia/base/config.hpp>
#include <spolia/rlu/detail/session.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// A section that only reads and is no part of another.
template <class Domain, class Session>
class reading {
 public:
  SPOLIA_ALWAYS_INLINE reading(Domain& d, Session& s, const char* label) noexcept
      : domain_(d), of_(s) {
    of_.begin(d.clock_, label);
    if (of_.is_to_ask()) [[unlikely]]
      d.come_online(of_, label);
    of_.depth = 1;
  }
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;
  SPOLIA_ALWAYS_INLINE ~reading() {
    of_.depth = 0;
    of_.leave();
    if (domain_.is_due(of_)) [[unlikely]]
      domain_.tend(of_);
  }

 private:
  Domain& domain_;
  Session& of_;
};

/// The same of a section that may write.
template <class Domain, class Session>
class writing {
 public:
  writing(Domain& d, Session& s) noexcept : domain_(d), of_(s) {
    of_.begin_writing(d.clock_);
    if (of_.is_to_ask()) [[unlikely]]
      d.come_online(of_, nullptr);
    of_.depth = 1;
  }
  writing(const writing&) = delete;
  writing& operator=(const writing&) = delete;
  ~writing() {
    if (open_) [[unlikely]]
      domain_.give_up(of_);  // the user's function has thrown
  }

  /// Commits the section, if it is not doomed.
  template <class Writer>
  outcome ended(Writer& in) {
    in.lock_what_was_read();
    const outcome how = of_.state;
    open_ = false;
    domain_.end(of_, how == outcome::committed);
    return how;
  }

 private:
  Domain& domain_;
  Session& of_;
  bool open_ = true;
};

/// A section inside another one: a part of that.
template <class Session>
class part {
 public:
  part(Session& s, bool writing) : of_(s), thrown_(std::uncaught_exceptions()) {
    if (writing && !of_.writes) {
      throw std::logic_error("rlu: an update inside a section that only reads");
    }
    ++of_.depth;
  }
  part(const part&) = delete;
  part& operator=(const part&) = delete;
  ~part() {
    --of_.depth;
    // The inner part's function has thrown: the outer parts must not commit without it.
    if (of_.writes && std::uncaught_exceptions() > thrown_) of_.doom(outcome::cancelled);
  }

 private:
  Session& of_;
  const int thrown_;
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR

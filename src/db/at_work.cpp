// SPDX-License-Identifier: Apache-2.0
// at_work.cpp: calls that would wait for themselves.
#include "db/at_work.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>

#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// By what the program was called.
const char* name_of(at_work::doing what) noexcept {
  switch (what) {
    case at_work::copying:
      return "the sink, or the layer of files (options::files),";
    case at_work::asking:
      return "options::on_slow_reader";
    case at_work::writing:
    case at_work::lengthening:
    case at_work::background:
      break;
  }
  return "the layer of files (options::files)";
}

}  // namespace

at_work::at_work(const engine& of, doing what, const char* call) noexcept
    : of_(&of), what_(what), call_(call), outer_(std::exchange(innermost, this)) {}

at_work::at_work(const engine& of, const gate* asks, const char* call) noexcept
    : of_(&of), what_(asking), call_(call), asks_(asks), outer_(std::exchange(innermost, this)) {}

at_work::at_work(const at_work* caller) noexcept
    : of_(nullptr),
      what_{},
      call_(nullptr),
      caller_(caller),
      outer_(std::exchange(innermost, this)) {}

at_work::~at_work() { innermost = outer_; }

thread_local constinit const at_work* at_work::innermost = nullptr;

const at_work* at_work::find(const at_work* from, const engine& of, unsigned any_of) noexcept {
  for (const at_work* w = from; w != nullptr; w = w->outer_) {
    if (w->of_ == &of && (w->what_ & any_of) != 0) return w;
    if (const at_work* const by = find(w->caller_, of, any_of)) return by;
  }
  return nullptr;
}

bool at_work::asked_by(const at_work* from, const gate& of) noexcept {
  for (const at_work* w = from; w != nullptr; w = w->outer_) {
    if (w->asks_ == &of || asked_by(w->caller_, of)) return true;
  }
  return false;
}

/// What has begun first of all that `of` does.
const at_work* at_work::outermost(const at_work* from, const engine& of) noexcept {
  const at_work* first = nullptr;
  for (const at_work* w = from; w != nullptr; w = w->outer_) {
    if (w->of_ == &of) first = w;
    if (const at_work* const by = outermost(w->caller_, of)) first = by;
  }
  return first;
}

bool at_work::within(const engine& of, unsigned any_of) noexcept {
  return find(innermost, of, any_of) != nullptr;
}

void at_work::refuse_within(const engine& of, unsigned any_of, const char* call) {
  const at_work* const w = find(innermost, of, any_of);
  if (w == nullptr) return;
  throw std::invalid_argument(std::string("spolia::db: ") + call + " was called by " +
                              name_of(w->what_) + " within " + w->call_ +
                              " of the same database, and would wait for that without an end: call "
                              "it when that has returned, or in a thread that is not waited for "
                              "there");
}

void at_work::close(std::unique_ptr<engine> e) noexcept {
  if (e == nullptr) return;
  const at_work* const first = outermost(innermost, *e);
  if (first == nullptr) return;
  if (first->what_ == copying) {
    first->closed_ = std::move(e);
    return;
  }
  misuse::report("a database is closed by a function that it has called", threads::number());
  static_cast<void>(e.release());  // others use it yet
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

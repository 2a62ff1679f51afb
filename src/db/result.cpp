// SPDX-License-Identifier: Apache-2.0
// result.cpp: outcomes with a reason.
#include <spolia/db/result.hpp>

#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>

#include <spolia/base/atomic.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Lies before the bytes of its reason.
struct status::told {
  told(outcome o, std::size_t bytes) noexcept : code(o), size(bytes) {}

  [[nodiscard]] char* text() noexcept { return reinterpret_cast<char*>(this + 1); }

  atomic<std::uint32_t> owners{1};
  const outcome code;
  const std::size_t size;
};

status::status(outcome o, std::string_view reason) : status(o) {
  if (reason.empty()) return;
  void* const room = ::operator new(sizeof(told) + reason.size());
  told* const made = new (room) told(o, reason.size());
  std::memcpy(made->text(), reason.data(), reason.size());
  word_ = reinterpret_cast<std::uintptr_t>(made);
}

status::told& status::there() const noexcept { return *reinterpret_cast<told*>(word_); }
outcome status::code_with_reason() const noexcept { return there().code; }
std::string_view status::text() const noexcept { return {there().text(), there().size}; }

// relaxed: the thread that copies has an owner already, which keeps it.
void status::share() const noexcept { there().owners.fetch_add_relaxed(1); }

void status::give_back() const noexcept {
  // release: what this owner has read, before the free below on another thread.
  // acquire ← the releases of all other owners.
  if (there().owners.fetch_sub_acq_rel(1) != 1) return;
  told* const last = &there();
  last->~told();
  ::operator delete(last);
}

void refuse_ok_without_value() {
  throw std::invalid_argument(
      "spolia::db: a result is made of the outcome ok: a result that is ok has a value, so return "
      "that");
}

namespace {

std::string in_words(const status& why) {
  std::string words = "spolia::db: ";
  words += why.message();
  if (const std::string_view reason = why.reason(); !reason.empty()) (words += ": ") += reason;
  return words;
}

}  // namespace

no_result::no_result(const status& why) : std::runtime_error(in_words(why)), why_(why) {}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

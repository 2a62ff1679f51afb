// SPDX-License-Identifier: Apache-2.0
// apart.cpp: what a transaction does about values that lie apart from their rows.
//
// A value gets its block when it is set, and the transaction keeps all its blocks to the end: what
// it has shown stays, and savepoints lead back to them. A commit leaves those in the rows that
// these refer to then, and gives those that they have referred to before to value_blocks.
#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

void arena::shrink() noexcept {
  std::erase_if(blocks_, [](const block& b) { return b.size > most_kept; });
  if (blocks_.size() > 4) blocks_.resize(4);
  large_ = false;
}

/// Puts the value that the words refer to into a block. Throws std::bad_alloc and
/// row_budget::exceeded; the words are as before then.
void transaction::make_apart(std::uint64_t* words) {
  if (!lies_apart(words)) return;
  const std::uint64_t beside = engine_.rows.limited() ? engine_.old->stats().bytes : 0;
  value_block* const b = engine_.values.make(apart_in(words), beside);
  words[1] = b->address();
  session_->made.add(b);
}

/// The commit takes the row's values of these columns away.
void transaction::replace_apart(const pending_write& w, std::uint64_t columns) noexcept {
  each_column(columns & w.of->schema_.apart(), [&](std::uint32_t c) {
    std::array<std::uint64_t, apart_words> words;
    w.place.load(w.of->schema_.span_of(c), words.data());
    if (lies_apart(words.data())) session_->replaced.add(value_block::of(words[1]));
  });
}

/// The transaction has ended, at this time, or 0: with nothing. Its rows are locked yet. Those that
/// it has replaced go later, when they are not.
void transaction::settle_apart(std::uint64_t commit) noexcept {
  session& s = *session_;
  for (const pending_write& w : s.writes) {
    if (commit == 0 || !w.changed || (w.shape & row_exists) == 0) continue;
    each_column(w.sets & w.of->schema_.apart(), [&](std::uint32_t c) {
      const std::uint64_t* const words = w.image + w.of->schema_.span_of(c).first;
      if (lies_apart(words)) value_block::of(words[1])->since.write(commit);
    });
  }
  while (s.made.first != nullptr) {
    value_block* const b = s.made.take();
    if (b->since.read() == 0) engine_.values.free(b);
  }
}

/// Frees the blocks that came after this one.
void transaction::drop_apart(const value_block* down_to) noexcept {
  while (session_->made.first != down_to) engine_.values.free(session_->made.take());
}

/// Those of a row that nobody uses any more.
void value_blocks::free_row(const schema& s, const row_place& place,
                            std::uint64_t columns) noexcept {
  each_column(s.apart() & columns, [&](std::uint32_t c) {
    std::array<std::uint64_t, apart_words> words;
    place.load(s.span_of(c), words.data());
    if (lies_apart(words.data())) free(value_block::of(words[1]));
  });
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

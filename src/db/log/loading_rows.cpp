// SPDX-License-Identifier: Apache-2.0
// loading_rows.cpp: putting the rows of a checkpoint into tables that no transaction uses yet.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

static constexpr std::size_t keys_at_once = 256;

// What indexes take notes of: most keys are one number.
static void take_key(const schema& s, const std::uint64_t* image, std::uint64_t& key) noexcept {
  key = number_in_key(image[s.span_of(s.key().front()).first]);
}
static void take_key(const schema& s, const std::uint64_t* image, key_words& key) noexcept {
  key = s.key_of(s.key(), image);
}
static bool note_keys(const primary_index& in, std::span<const std::uint64_t> keys,
                      const std::uint64_t* slots, key_note* to) {
  return in.note_words(keys, slots, to);
}
static bool note_keys(const primary_index& in, std::span<const key_words> keys,
                      const std::uint64_t* slots, key_note* to) {
  return in.note_all(keys, slots, to);
}
static key_words in_full(std::uint64_t key) noexcept { return {key}; }
static const key_words& in_full(const key_words& key) noexcept { return key; }

/// Rows that lie in the file as their images do, as many as a block of the table has: column by
/// column, constructed as what they are, so that memory is written once. False: they do not, or
/// there is no whole block for them.
template <class Key>
bool loader::put_block(table& t, decoder& from, Key* keys, std::uint64_t* slots) {
  const schema& s = t.form();
  if (!s.words_only()) return false;
  range& mine = range_of(t);
  if (mine.next == mine.end) take_slots(t, mine);
  if (mine.next % rows_per_block != 0) return false;  // the range ends with a block
  const bytes_view rows = take_as_they_are(from, s, rows_per_block);
  if (rows.empty()) return false;
  using word = atomic<std::uint64_t>;
  const row_place first = t.at(mine.next);
  const std::size_t length = rows.size() / rows_per_block;
  const std::size_t keyed = s.key().size();
  // Others see it all by loading_pool::finish().
  for (std::size_t i = 0; i < rows_per_block; ++i) {
    ::new (first.head + i)
        row_head{word(born_before_all), word(stamp_of_loaded), word(0), word(row_exists)};
  }
  for (std::size_t w = 0; w < s.words(); ++w) {
    const std::byte* const column = rows.data() + (w < keyed ? w : w + 1) * sizeof(w);
    word* const to = first.block + w * rows_per_block;
    for (std::size_t i = 0; i < rows_per_block; ++i) {
      ::new (to + i) word(from_little<std::uint64_t>(column + i * length));
    }
  }
  for (std::size_t i = 0; i < rows_per_block; ++i) {
    std::memcpy(image_.data(), rows.data() + i * length, keyed * sizeof(keyed));
    take_key(s, image_.data(), keys[i]);
    slots[i] = mine.next++;
  }
  return true;
}

template <class Key>
void loader::put_some(table& t, decoder& from, std::span<Key> keys, std::uint64_t* slots) {
  const schema& s = t.form();
  for (std::size_t i = 0; i < keys.size();) {
    if (keys.size() - i >= rows_per_block && put_block(t, from, &keys[i], slots + i)) {
      i += rows_per_block;
      continue;
    }
    const std::uint64_t shape = read_row_image(from, s, false, image_.data());
    slots[i] = slot_for(t);
    make_apart(t);
    write_row(t, t.at(slots[i]), shape);
    take_key(s, image_.data(), keys[i++]);
  }
}

template <class Key>
void loader::put_keyed(table& t, decoder& from, std::uint64_t rows, bool claim_each) {
  std::array<Key, keys_at_once> room;
  std::array<std::uint64_t, keys_at_once> slots;
  std::size_t noted = 0;
  while (rows != 0) {
    const auto keys = std::span(room).first(std::min<std::uint64_t>(keys_at_once, rows));
    put_some(t, from, keys, slots.data());
    rows -= keys.size();
    if (claim_each || !note_keys(*t.primary_, keys, slots.data(), notes_.data() + noted)) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (t.primary_->claim(in_full(keys[i]), slots[i]) != slots[i]) {
          throw malformed("a key comes twice");
        }
      }
      continue;
    }
    noted += keys.size();
    if (rows != 0 && noted + keys_at_once <= most_notes) continue;
    t.primary_->keep(std::span(notes_).first(std::exchange(noted, 0)));
  }
}

void loader::put_all(table& t, decoder& from, std::uint64_t rows, bool claim_each) {
  image_.resize(t.form().words());
  notes_.resize(most_notes);
  if (t.form().one_number()) return put_keyed<std::uint64_t>(t, from, rows, claim_each);
  put_keyed<key_words>(t, from, rows, claim_each);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

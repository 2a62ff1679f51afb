// SPDX-License-Identifier: Apache-2.0
// table.cpp: slots and segments.
#include <spolia/db/table.hpp>

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>

#include "db/engine.hpp"
#include "db/index/cuckoo_index.hpp"
#include "db/index/hash_index.hpp"
#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Slots are constructed so many at a time: the thread that needs one more waits for no more than
/// this, and a table takes no more memory than this beyond what its rows need.
constexpr std::size_t bytes_at_once = std::size_t{64} << 10U;

/// Another number would be written to the log, and no opening could read it.
void look_at_kind(index_kind k, const std::string& whose) {
  if (k <= index_kind::ordered) return;
  throw std::invalid_argument("spolia::db: " + whose + " has the kind " +
                              std::to_string(static_cast<unsigned>(k)) +
                              ", which there is not: use index_kind::hash or index_kind::ordered");
}

}  // namespace

secondary::secondary() = default;
secondary::~secondary() = default;

table::table(const table_spec& spec, engine& of)
    : engine_(of),
      schema_(spec),
      block_bytes_(rows_per_block *
                   (sizeof(row_head) + schema_.words() * sizeof(atomic<std::uint64_t>))),
      ready_at_once_(std::max(bytes_at_once / block_bytes_, std::size_t{1}) * rows_per_block),
      id_(core::next_serial()),
      primary_kind_(spec.primary) {
  look_at_kind(spec.primary, "the primary key of table " + name());
  const std::uint32_t length = schema_.key_length(schema_.key());
  if (spec.primary == index_kind::ordered) {
    primary_ = make_ordered_primary(length, of.nodes);
  } else {
    const auto same = [this](std::uint64_t slot, const key_words& k) { return key_is(slot, k); };
    if (of.settings.hash_indexes == hash_kind::cuckoo) {
      primary_ = std::make_unique<cuckoo_index<decltype(same)>>(of.arrays, length, same);
    } else {
      primary_ = std::make_unique<hash_index<decltype(same)>>(of.arrays, length, same);
    }
  }
  auto made = std::make_unique<index_set>();
  std::set<std::string_view> names;
  for (const index_spec& i : spec.indexes) {
    if (!names.insert(i.name).second) {
      throw std::invalid_argument("spolia::db: indexes of table " + name() +
                                  " need different names: two are called " + i.name);
    }
    secondaries_.push_back(make_index(i));
    made->all.push_back(secondaries_.back().get());
    made->columns |= secondaries_.back()->mask_;
  }
  show(std::move(made));
}

std::unique_ptr<secondary> table::make_index(const index_spec& i) {
  look_at_index_name(i.name, name());
  look_at_kind(i.kind, "index " + i.name + " of table " + name());
  auto made = std::make_unique<secondary>();
  made->name_ = i.name;
  made->of_ = this;
  made->unique_ = i.unique;
  made->kind_ = i.kind;
  made->columns_ = schema_.key_columns(i.name, i.columns);
  for (const std::uint32_t c : made->columns_) made->mask_ |= std::uint64_t{1} << c;
  const std::uint32_t words = made->key_length_ = schema_.key_length(made->columns_);
  made->entries_ =
      i.kind == index_kind::hash
          ? make_hash_secondary(words, engine_.arrays, engine_.nodes, engine_.settings.hash_indexes)
          : make_ordered_secondary(words, engine_.nodes);
  return made;
}

void table::refuse_stranger() const {
  throw std::invalid_argument("spolia::db: table " + name() +
                              " is another database's: take that of this one, by find_table()");
}

void table::show(std::unique_ptr<const index_set> next) {
  index_sets_.push_back(std::move(next));
  indexes_.store_release(index_sets_.back().get());  // → the acquire in indexes()
}

table::~table() { free_rows(); }

void table::free_rows() noexcept {
  if (primary_ == nullptr) return;
  for (std::uint64_t slot = 0; schema_.apart() != 0 && slot < row_slots(); ++slot) {
    const row_place place = at(slot);
    if ((place.head->shape.load_relaxed() & row_exists) != 0) {
      engine_.values.free_row(schema_, place, every_column);
    }
  }
  for (unsigned k = 0; k < most_segments; ++k) {
    std::byte* const s = segments_[k].load_relaxed();
    if (s == nullptr) continue;
    memory::deallocate(s, bytes_of(k), large_align(bytes_of(k)));
    segments_[k].store_relaxed(nullptr);
  }
  engine_.rows.give(bytes_.exchange_relaxed(0));
  say_indexes_take(0);
  primary_.reset();
  for (const auto& i : secondaries_) i->entries_.reset();
}

index_spec secondary::spec() const {
  index_spec s{.name = name_, .columns = {}, .unique = unique_, .kind = kind_};
  for (const std::uint32_t n : columns_) s.columns.push_back(of_->layout().columns()[n].name);
  return s;
}

void table::count_indexes() noexcept {
  if (!enter()) return;
  std::uint64_t sum = primary_ == nullptr ? 0 : primary_->bytes();
  for (const secondary* const i : indexes().all) {
    if (i->entries_ != nullptr) sum += i->entries_->bytes();
  }
  leave();
  say_indexes_take(sum);
}

void table::say_indexes_take(std::uint64_t bytes) noexcept {
  const std::uint64_t before = index_bytes_.exchange_relaxed(bytes);
  engine_.index_bytes.fetch_add_relaxed(bytes - before);
}

table_spec table::bare_spec() const {
  table_spec s{.name = name(), .columns = {}};
  s.primary = primary_kind_;
  for (const column_layout& c : schema_.columns()) s.columns.push_back({c.name, c.type, c.role});
  return s;
}

table_spec table::spec() const {
  table_spec s = bare_spec();
  for (const secondary* const i : indexes().all) {
    if (i->when_.open()) s.indexes.push_back(i->spec());
  }
  return s;
}

table_spec table::spec_after(std::uint64_t last) const {
  table_spec s = bare_spec();
  for (const auto& i : secondaries_) {
    if (i->logged_.covers(last)) s.indexes.push_back(i->spec());
  }
  return s;
}

std::string table::names_of_indexes() const {
  constexpr std::size_t most_shown = 500;
  std::string names;
  for (const secondary* const i : indexes().all) {
    if (!i->when_.open() || names.size() > most_shown) continue;
    names += (names.empty() ? "" : ", ") + i->name();
  }
  return names.empty() ? "none" : names;
}

const secondary& table::index(std::string_view wanted) const {
  for (const secondary* const i : indexes().all) {
    if (i->name() == wanted && i->when_.open()) return *i;
  }
  throw std::invalid_argument("spolia::db: table " + name() + " has no index " +
                              std::string(wanted) + ". It has " + names_of_indexes());
}

std::uint64_t table::take_slot(std::uint64_t lock) {
  const std::uint64_t freed = take_free(lock);
  return freed != no_slot ? freed : take_fresh(1, lock);
}

std::uint64_t table::take_free(std::uint64_t lock) noexcept {
  if (free_.load_relaxed() == 0) return no_slot;  // who has just come too late is not missed
  const std::lock_guard hold(free_lock_);
  const std::uint64_t first = free_.load_relaxed();
  if (first == 0) return no_slot;
  const std::uint64_t slot = first - 1;
  row_head& head = *at(slot).head;
  free_.store_relaxed(head.shape.load_relaxed());
  // No other thread takes the lock of a slot without a row.
  head.lock.store_relaxed(lock);
  head.shape.store_relaxed(0);
  return slot;
}

std::uint64_t table::take_fresh(std::uint64_t count, std::uint64_t lock) {
  std::uint64_t first = next_.load_relaxed();
  do {
    // acquire ← the release in make_ready(): heads and words are constructed.
    if (ready_.load_acquire() < first + count) make_ready(first + count);
    // release → the acquire in row_slots(): who knows a slot's number sees it constructed.
  } while (!next_.cas_weak_release(first, first + count));
  for (std::uint64_t n = 0; n < count; ++n) at(first + n).head->lock.store_relaxed(lock);
  return first;
}

void table::make_ready(std::uint64_t end) {
  const std::lock_guard hold(ready_lock_);
  for (std::uint64_t from = ready_.load_relaxed(); from < end;) {
    from = construct(from, from + ready_at_once_);
    // release → the acquire in take_fresh().
    ready_.store_release(from);
  }
}

void table::give_slot(std::uint64_t slot) noexcept {
  row_head& head = *at(slot).head;
  const std::lock_guard hold(free_lock_);
  head.shape.store_relaxed(free_.load_relaxed());
  free_.store_relaxed(slot + 1);
  head.lock.store_relaxed(free_slot);
}

void table::make_segment(unsigned k) {
  // acquire ← the release below.
  if (segments_[k].load_acquire() != nullptr) return;
  const std::size_t bytes = bytes_of(k);
  auto* const made = static_cast<std::byte*>(large_memory(bytes));
  std::byte* there = nullptr;
  // release → the acquires here and in at(): the memory is there.
  if (!segments_[k].cas_strong_acq_rel(there, made)) {
    memory::deallocate(made, bytes, large_align(bytes));
  }
}

std::uint64_t table::construct(std::uint64_t from, std::uint64_t end) {
  end = take_room(from, end);
  for (; from != end; from += rows_per_block) construct_block(from);
  return end;
}

std::uint64_t table::take_room(std::uint64_t from, std::uint64_t end) {
  const unsigned k = segment_of(from);
  make_segment(k);
  const std::uint64_t count = std::min(end, start_of(k) + size_of(k)) - from;
  const std::uint64_t blocks = (count + rows_per_block - 1) / rows_per_block;
  const std::size_t bytes = blocks * block_bytes_;
  row_budget& budget = engine_.rows;
  if (budget.limited()) count_indexes();
  budget.take(bytes, budget.limited() ? engine_.beside_rows() : 0);
  bytes_.fetch_add_relaxed(bytes);
  return from + blocks * rows_per_block;
}

std::uint64_t table::take_bare(std::uint64_t& count) {
  const std::lock_guard hold(ready_lock_);
  const std::uint64_t first = next_.load_relaxed();
  const std::uint64_t end = take_room(first, first + count);
  ready_.store_relaxed(end);
  next_.store_relaxed(end);
  count = end - first;
  return first;
}

void table::construct_block(std::uint64_t slot) const noexcept {
  auto* const block = reinterpret_cast<std::byte*>(at(slot).head);
  for (std::uint32_t i = 0; i < rows_per_block; ++i) {
    ::new (block + i * sizeof(row_head)) row_head;
  }
  auto* const words = block + rows_per_block * sizeof(row_head);
  for (std::uint64_t i = 0; i < std::uint64_t{rows_per_block} * schema_.words(); ++i) {
    ::new (words + i * sizeof(atomic<std::uint64_t>)) atomic<std::uint64_t>;
  }
}

key_words secondary::key_at(const row_place& row) const noexcept {
  return of_->key_at(row, columns_);
}

note* secondary::note_of(std::uint64_t slot, const key_words& key) {
  return note::of_entry(*this, slot, key, key_length_);
}

key_words table::key_at(const row_place& row,
                        const std::vector<std::uint32_t>& columns) const noexcept {
  key_words key{};
  std::uint32_t at = 0;
  for (const std::uint32_t number : columns) {
    const column_layout& c = schema_.columns()[number];
    std::array<std::uint64_t, most_key_words> raw;
    row.load(column_span{c.first, c.words}, raw.data());
    c.encode_key(raw.data(), key.data() + at);
    at += c.words;
  }
  return key;
}

bool table::key_is(std::uint64_t slot, const key_words& key) const noexcept {
  const row_place row = at(slot);
  if (schema_.one_number()) {  // mostly
    const column_span c = schema_.span_of(schema_.key().front());
    return number_in_key(row.column(c.first, 1)->load_relaxed()) == key[0];
  }
  std::uint32_t done = 0;
  for (const std::uint32_t n : schema_.key()) {
    const column_layout& c = schema_.columns()[n];
    std::array<std::uint64_t, most_key_words> raw;
    std::array<std::uint64_t, most_key_words> words;
    row.load(column_span{c.first, c.words}, raw.data());
    c.encode_key(raw.data(), words.data());
    // One word, mostly: std::equal would call a function for it.
    for (std::uint32_t i = 0; i < c.words; ++i) {
      if (words[i] != key[done + i]) return false;
    }
    done += c.words;
  }
  return true;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

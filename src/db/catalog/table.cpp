// SPDX-License-Identifier: Apache-2.0
// table.cpp: slots, their memory, and segments.
//
// Why the memory of free slots may be given back while readers look at them, by an index entry of
// long ago or in a scan: clear_slots() stores 0 into every word, as any thread may store into an
// atomic, and the pages that the system shows from then on have the same zeros. So
// give_pages_back() changes nothing but how much memory is used, and what was constructed there is
// used again as it is. The stores are relaxed: whichever of them a reader finds, it finds no row.
// No snapshot sees the row that was there, whose stamp says when it ended and whose shape says that
// there is none; and a stamp of 0 means no row, whatever the reader finds beside it (row.hpp). A
// thread that would lock the row finds the word 0, and looks up its key again (row_lock.hpp).
#include <spolia/db/table.hpp>

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>

#include "db/catalog/slot_chunks.hpp"
#include "db/engine.hpp"
#include "db/index/cuckoo_index.hpp"
#include "db/index/hash_index.hpp"
#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Slots are constructed at most so many at a time, and at most as many as the table has: a thread
/// that needs one more waits for no more than this, and beyond what its rows need a table takes no
/// more memory than this, and no more than they do.
constexpr std::size_t bytes_at_once = std::size_t{64} << 10U;
/// What a chunk has at most, so that it is made of whole pages, if that can be.
constexpr std::size_t most_chunk_bytes = std::size_t{256} << 10U;

std::size_t bytes_of_block(const schema& s) {
  return rows_per_block * (sizeof(row_head) + s.words() * sizeof(atomic<std::uint64_t>));
}

/// How many slots a chunk has whose blocks have so many bytes.
std::uint32_t slots_of_chunk(std::size_t block_bytes) {
  std::size_t blocks = std::bit_floor(std::max<std::size_t>(bytes_at_once / block_bytes, 1));
  while (blocks * block_bytes % page_bytes() != 0 && blocks * block_bytes * 2 <= most_chunk_bytes) {
    blocks *= 2;
  }
  return static_cast<std::uint32_t>(blocks * rows_per_block);
}

/// Another number would be written to the log, and no opening could read it.
void look_at_kind(index_kind k, const std::string& whose) {
  if (k <= index_kind::ordered) return;
  throw std::invalid_argument("spolia::db: " + whose + " has the kind " +
                              std::to_string(static_cast<unsigned>(k)) +
                              ", which there is not: use index_kind::hash or index_kind::ordered");
}

}  // namespace

secondary::secondary(table& of) : of_(&of), parts_(std::make_unique<parts>()) {}
secondary::~secondary() = default;

const std::string& secondary::name() const {
  if (of_->described_.closed()) of_->refuse_dropped();
  return parts_->name;
}
bool secondary::unique() const {
  const table::visit here(*of_);
  return parts_->unique;
}
index_kind secondary::kind() const {
  const table::visit here(*of_);
  return parts_->kind;
}

table::parts::parts(const table_spec& spec, atomic<std::uint64_t>& slots_end)
    : layout(spec),
      id(core::next_serial()),
      primary_kind(spec.primary),
      chunks(std::make_unique<slot_chunks>(slots_of_chunk(bytes_of_block(layout)), slots_end)) {}
table::parts::~parts() = default;

table::table(const table_spec& spec, engine& of)
    : engine_(of),
      parts_(std::make_unique<parts>(spec, slots_end_)),
      name_(spec.name),
      block_bytes_(static_cast<std::uint32_t>(bytes_of_block(form()))) {
  look_at_kind(spec.primary, "the primary key of table " + name());
  const std::uint32_t length = form().key_length(form().key());
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
  try {
    make_indexes(spec.indexes);
  } catch (...) {
    unmake_indexes();
    throw;
  }
}

void table::make_indexes(const std::vector<index_spec>& all) {
  auto made = std::make_unique<index_set>();
  std::set<std::string_view> names;
  parts_->secondaries.reserve(all.size());
  for (const index_spec& i : all) {
    if (!names.insert(i.name).second) {
      throw std::invalid_argument("spolia::db: indexes of table " + name() +
                                  " need different names: two are called " + i.name);
    }
    parts_->secondaries.push_back(&make_index(i));
    made->all.push_back(parts_->secondaries.back());
    made->columns |= made->all.back()->parts_->mask;
  }
  show(std::move(made));
}

void table::unmake_indexes() noexcept {
  for (secondary* const i : std::exchange(parts_->secondaries, {})) engine_.tables.unmake(*i);
}

secondary& table::make_index(const index_spec& i) {
  look_at_index_name(i.name, name());
  look_at_kind(i.kind, in_words(i.name));
  std::vector<std::uint32_t> columns = form().key_columns(i.name, i.columns);
  const std::uint32_t words = form().key_length(columns);
  auto entries =
      i.kind == index_kind::hash
          ? make_hash_secondary(words, engine_.arrays, engine_.nodes, engine_.settings.hash_indexes)
          : make_ordered_secondary(words, engine_.nodes);
  std::string index_name = i.name;
  secondary& made = engine_.tables.make_index(*this);
  secondary::parts& all = *made.parts_;
  for (const std::uint32_t c : columns) all.mask |= std::uint64_t{1} << c;
  all.name = std::move(index_name);
  all.columns = std::move(columns);
  all.key_length = words;
  all.unique = i.unique;
  all.kind = i.kind;
  made.entries_ = std::move(entries);
  return made;
}

void table::refuse_dropped() const {
  throw no_result({outcome::dropped, "table " + name() +
                                         " was dropped, and no snapshot sees it any more: look it "
                                         "up again, by database::find_table()"});
}

void table::refuse_stranger() const {
  throw std::invalid_argument("spolia::db: table " + name() +
                              " is another database's: take that of this one, by find_table()");
}

void table::show(std::unique_ptr<const index_set> next) {
  parts_->index_sets.push_back(std::move(next));
  indexes_.store_release(parts_->index_sets.back().get());  // → the acquire in indexes()
}

void table::close() noexcept {
  // release → the acquire in known_indexes(): the indexes. It finds this one, since it has found
  // the next one.
  parts_->closed.store_release(&indexes());
  indexes_.store_release(&engine_.no_changes);  // → the acquire in indexes()
}

const index_set& table::known_indexes() const noexcept {
  const index_set& now = indexes();
  return now.closed ? *parts_->closed.load_acquire() : now;  // ← the release in close()
}

table::~table() {
  if (parts_ == nullptr) return;
  free_rows();
  unmake_indexes();
}

bool table::strip() noexcept {
  if (!described_.enter_alone()) return false;
  for (secondary* const i : parts_->secondaries) i->parts_.reset();
  parts_.reset();
  return true;
}

std::uint64_t table::bytes() const noexcept {
  if (!described_.enter()) return 0;
  const std::uint64_t sum = parts_->bytes.load_relaxed();
  described_.leave();
  return sum;
}
std::uint64_t table::index_bytes() const noexcept {
  if (!described_.enter()) return 0;
  const std::uint64_t sum = parts_->index_bytes.load_relaxed();
  described_.leave();
  return sum;
}

void table::let_versions_go() noexcept {
  const slot_chunks& slots = *parts_->chunks;
  const std::uint64_t end = slots.end();
  for (std::uint64_t slot = slots.next_shown(0, end, 0); slot < end;
       slot = slots.step(slot, end, 0)) {
    row_head& head = *at(slot).head;
    engine_.old->row_gone(head.older, head.stamp.load_relaxed());
  }
}

void table::free_rows() noexcept {
  if (primary_ == nullptr) return;
  const slot_chunks& slots = *parts_->chunks;
  const std::uint64_t end = form().apart() != 0 ? row_slots() : 0;
  for (std::uint64_t slot = slots.next_shown(0, end, not_yet); slot < end;
       slot = slots.step(slot, end, not_yet)) {
    const row_place place = at(slot);
    if ((place.head->shape.load_relaxed() & row_exists) != 0) {
      engine_.values.free_row(form(), place, every_column);
    }
  }
  for (unsigned k = 0; k < most_segments; ++k) {
    std::byte* const s = parts_->segments[k].load_relaxed();
    if (s == nullptr) continue;
    memory::deallocate(s, bytes_of(k), align_of(k));
    parts_->segments[k].store_relaxed(nullptr);
  }
  engine_.rows.give(parts_->bytes.exchange_relaxed(0));
  parts_->dropped_index_bytes.store_relaxed(0);
  say_indexes_take(0);
  primary_.reset();
  parts_->chunks.reset();
  for (secondary* const i : parts_->secondaries) i->entries_.reset();
}

index_spec secondary::spec() const {
  index_spec s{.name = parts_->name, .columns = {}, .unique = parts_->unique, .kind = parts_->kind};
  for (const std::uint32_t n : parts_->columns) s.columns.push_back(of_->form().columns()[n].name);
  return s;
}

void table::count_indexes() noexcept {
  if (!cleaning_.enter()) return;
  std::uint64_t sum = primary_ == nullptr ? 0 : primary_->bytes();
  for (const secondary* const i : known_indexes().all) {
    if (i->entries_ != nullptr) sum += i->entries_->bytes();
  }
  sum += parts_->dropped_index_bytes.load_relaxed();
  cleaning_.leave();
  say_indexes_take(sum);
}

void table::say_indexes_take(std::uint64_t bytes) noexcept {
  const std::uint64_t before = parts_->index_bytes.exchange_relaxed(bytes);
  engine_.index_bytes.fetch_add_relaxed(bytes - before);
}

void table::show_name(std::string next) noexcept {
  form().names()->show();
  // A checkpoint that is being begun may describe the table by a former name.
  if (!engine_.tables.keeps_gone()) form().names()->forget_former();
  const std::lock_guard hold(name_lock_);
  name_.swap(next);
  renames_.store_relaxed(renames_.load_relaxed() + 1);
}

table_spec table::bare_spec(const std::string& name) const {
  table_spec s{.name = name, .columns = {}};
  s.primary = parts_->primary_kind;
  for (const column_layout& c : form().columns()) s.columns.push_back({c.name, c.type, c.role});
  return s;
}

table_spec table::spec() const {
  const visit here(*this);
  table_spec s = bare_spec(name());
  for (const secondary* const i : known_indexes().all) {
    if (i->when_.open()) s.indexes.push_back(i->spec());
  }
  return s;
}

table_spec table::spec_after(std::uint64_t last) const {
  table_spec s = bare_spec(form().names()->after(last));
  for (const secondary* const i : indexes_after(last)) s.indexes.push_back(i->spec());
  return s;
}

std::vector<const secondary*> table::indexes_after(std::uint64_t last) const {
  std::vector<const secondary*> all;
  for (const secondary* const i : parts_->secondaries) {
    if (i->parts_->logged.covers(last)) all.push_back(i);
  }
  return all;
}

std::string table::names_of_indexes() const {
  constexpr std::size_t most_shown = 500;
  std::string names;
  for (const secondary* const i : known_indexes().all) {
    if (!i->when_.open() || names.size() > most_shown) continue;
    names += (names.empty() ? "" : ", ") + i->parts_->name;
  }
  return names.empty() ? "none" : names;
}

const secondary* table::try_index(std::string_view wanted) const {
  const visit here(*this);
  for (const secondary* const i : known_indexes().all) {
    if (i->parts_->name == wanted && i->when_.open()) return i;
  }
  return nullptr;
}

const secondary& table::index(std::string_view wanted) const {
  const visit here(*this);
  if (const secondary* const i = try_index(wanted)) return *i;
  throw std::invalid_argument("spolia::db: table " + name() + " has no index " +
                              std::string(wanted) + ". It has " + names_of_indexes());
}

std::uint64_t table::take_slot(std::uint64_t lock) {
  const std::uint64_t slot = parts_->chunks->take(
      [this](std::uint64_t from, std::uint64_t end) { return construct(from, end); },
      [this](std::uint32_t chunk) {
        charge(chunk_bytes());
        count_without_memory(segment_of(parts_->chunks->first_of(chunk)), -1);
      });
  // No other thread takes the lock of a slot without a row.
  at(slot).head->lock.store_relaxed(lock);
  return slot;
}

std::uint64_t table::take_free(std::uint64_t lock) noexcept {
  const std::uint64_t slot = parts_->chunks->take_if_open(no_slot);
  if (slot != no_slot) at(slot).head->lock.store_relaxed(lock);  // as above
  return slot;
}

void table::give_slot(std::uint64_t slot) noexcept {
  at(slot).head->lock.store_relaxed(free_slot);
  const std::uint32_t empty = parts_->chunks->give(slot, slot_chunks::what::no_row);
  if (empty != slot_chunks::none) give_back(empty);
}

void table::give_ended(std::uint64_t slot, row_head& head) noexcept {
  head.lock.store_relaxed(free_slot);
  const std::uint32_t empty = parts_->chunks->give(slot, slot_chunks::what::ended_row);
  if (empty != slot_chunks::none) give_back(empty);
}

void table::give_back(std::uint32_t chunk) noexcept {
  const std::uint64_t from = parts_->chunks->first_of(chunk);
  const std::uint64_t end = parts_->chunks->first_of(chunk + 1);
  const unsigned k = segment_of(from);
  const bool whole = k == segment_of(end - 1);  // not the first one, where segments are small
  if (!gives_pages_back || !whole) return parts_->chunks->kept(chunk);
  clear_slots(from, end);
  if (!give_pages_back(reinterpret_cast<std::byte*>(at(from).head), chunk_bytes()))
    return parts_->chunks->kept(chunk);
  parts_->bytes.fetch_sub_relaxed(chunk_bytes());
  engine_.rows.give(chunk_bytes());
  count_without_memory(k, 1);
  parts_->chunks->gave_back(chunk);
}

void table::clear_slots(std::uint64_t from, std::uint64_t end) const noexcept {
  for (; from != end; from += rows_per_block) {
    const row_place first = at(from);
    for (std::uint32_t i = 0; i < rows_per_block; ++i) {
      first.head[i].stamp.store_relaxed(0);
      first.head[i].older.store_relaxed(0);
      first.head[i].shape.store_relaxed(0);
    }
    for (std::uint64_t i = 0; i < std::uint64_t{rows_per_block} * form().words(); ++i) {
      first.block[i].store_relaxed(0);
    }
  }
}

void table::count_without_memory(unsigned segment, std::int64_t more) noexcept {
  const std::size_t bytes = bytes_of(segment);
  if (bytes < huge_page) return;
  const auto all = static_cast<std::int64_t>(size_of(segment) / parts_->chunks->slots());
  const std::int64_t now = parts_->without_memory[segment].fetch_add_relaxed(more) + more;
  // Far from each other, so that it is seldom said. It is a hint: two may say it in either order.
  if (more > 0 && now == all / 2 + 1)
    ask_for_small_pages(parts_->segments[segment].load_relaxed(), bytes);
  if (more < 0 && now == all / 4)
    ask_for_huge_pages(parts_->segments[segment].load_relaxed(), bytes);
}

std::size_t table::align_of(unsigned k) const noexcept {
  const std::size_t bytes = bytes_of(k);
  return bytes < huge_page && bytes >= bytes_at_once ? page_bytes() : large_align(bytes);
}

void table::make_segment(unsigned k) {
  // acquire ← the release below.
  if (parts_->segments[k].load_acquire() != nullptr) return;
  const std::size_t bytes = bytes_of(k);
  auto* const made = static_cast<std::byte*>(large_memory(bytes, align_of(k)));
  std::byte* there = nullptr;
  // release → the acquires here and in at(): the memory is there.
  if (!parts_->segments[k].cas_strong_acq_rel(there, made)) {
    memory::deallocate(made, bytes, align_of(k));
  }
}

std::uint64_t table::construct(std::uint64_t from, std::uint64_t end) {
  const std::uint64_t blocks =
      std::min<std::uint64_t>(bytes_at_once / block_bytes_, from / rows_per_block);
  const std::uint64_t at_once = std::max(blocks, std::uint64_t{1}) * rows_per_block;
  end = take_room(from, std::min(end, from + at_once));
  for (; from != end; from += rows_per_block) construct_block(from);
  return end;
}

std::uint64_t table::take_room(std::uint64_t from, std::uint64_t end) {
  const unsigned k = segment_of(from);
  make_segment(k);
  const std::uint64_t count = std::min(end, start_of(k) + size_of(k)) - from;
  const std::uint64_t blocks = (count + rows_per_block - 1) / rows_per_block;
  charge(blocks * block_bytes_);
  return from + blocks * rows_per_block;
}

std::size_t table::chunk_bytes() const noexcept {
  return parts_->chunks->slots() / rows_per_block * block_bytes_;
}

void table::charge(std::size_t bytes) {
  row_budget& budget = engine_.rows;
  if (budget.limited()) count_indexes();
  budget.take(bytes, budget.limited() ? engine_.beside_rows() : 0);
  parts_->bytes.fetch_add_relaxed(bytes);
}

std::uint64_t table::take_bare(std::uint64_t& count) {
  return parts_->chunks->take_run(
      count, rows_per_block,
      [this](std::uint64_t from, std::uint64_t end) { return take_room(from, end); });
}

void table::construct_block(std::uint64_t slot) const noexcept {
  auto* const block = reinterpret_cast<std::byte*>(at(slot).head);
  for (std::uint32_t i = 0; i < rows_per_block; ++i) {
    ::new (block + i * sizeof(row_head)) row_head;
  }
  auto* const words = block + rows_per_block * sizeof(row_head);
  for (std::uint64_t i = 0; i < std::uint64_t{rows_per_block} * form().words(); ++i) {
    ::new (words + i * sizeof(atomic<std::uint64_t>)) atomic<std::uint64_t>;
  }
}

key_words secondary::key_at(const row_place& row) const noexcept {
  return of_->key_at(row, parts_->columns);
}

note* secondary::note_of(std::uint64_t slot, const key_words& key) {
  return note::of_entry(*this, slot, key, parts_->key_length);
}

key_words table::key_at(const row_place& row,
                        const std::vector<std::uint32_t>& columns) const noexcept {
  key_words key{};
  std::uint32_t at = 0;
  for (const std::uint32_t number : columns) {
    const column_layout& c = form().columns()[number];
    std::array<std::uint64_t, most_key_words> raw;
    row.load(column_span{c.first, c.words}, raw.data());
    c.encode_key(raw.data(), key.data() + at);
    at += c.words;
  }
  return key;
}

bool table::key_is(std::uint64_t slot, const key_words& key) const noexcept {
  const row_place row = at(slot);
  if (form().one_number()) {  // mostly
    const column_span c = form().span_of(form().key().front());
    return number_in_key(row.column(c.first, 1)->load_relaxed()) == key[0];
  }
  std::uint32_t done = 0;
  for (const std::uint32_t n : form().key()) {
    const column_layout& c = form().columns()[n];
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

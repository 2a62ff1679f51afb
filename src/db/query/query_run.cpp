// SPDX-License-Identifier: Apache-2.0
// query_run.cpp: morsels, and what is done with the rows of one.
#include "db/query/query_run.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <system_error>

#include <spolia/base/processors.hpp>
#include <spolia/base/unwind.hpp>

#include "db/catalog/slot_chunks.hpp"
#include "db/versions/block.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint32_t most_rows_at_once = 512;
constexpr std::uint32_t most_words_at_once = 16384;  // of a batch, unless its rows are wide
constexpr std::uint64_t rows_worth_a_thread = 65536;

/// Leaves those of the rows that are left for which holds(row) is true.
template <class F>
void keep_rows(query_batch& b, F&& holds) {
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < b.left; ++i) {
    const std::uint16_t row = b.rows[i];
    b.rows[kept] = row;
    kept += holds(row) ? 1U : 0U;
  }
  b.left = kept;
}

template <auto Key>
void keep_keys(query_batch& b, const query_filter& f) {
  const std::uint64_t* const words = b.column(f.input);
  const std::uint64_t width = f.hi - f.lo;
  const bool inside = f.what == query_filter::kind::within;
  keep_rows(b, [&](std::uint32_t row) { return (Key(words[row]) - f.lo <= width) == inside; });
}

void keep(query_batch& b, const query_filter& f, const query_input& in) {
  const std::uint64_t null = in.null_bit();
  const auto is_null = [&](std::uint32_t row) { return (b.shapes[row] & null) != 0; };
  if (f.what == query_filter::kind::null) return keep_rows(b, is_null);
  if (null != 0) keep_rows(b, [&](std::uint32_t row) { return !is_null(row); });
  const std::size_t width = in.column.words;
  const std::uint64_t* const words = b.column(f.input);
  switch (f.what) {
    case query_filter::kind::null:
    case query_filter::kind::not_null:
      return;
    case query_filter::kind::within:
    case query_filter::kind::outside:
      return in.order == word_order::real ? keep_keys<real_key>(b, f) : keep_keys<number_key>(b, f);
    case query_filter::kind::bytes:
      return keep_rows(b, [&](std::uint32_t row) {
        return holds_for_bytes(std::memcmp(words + row * width, f.words.data(), width * 8), f.how);
      });
    case query_filter::kind::program:
      return keep_rows(b, [&](std::uint32_t row) { return f.holds(words + row * width); });
  }
}

struct leaver {
  shared_steps& steps;
  ~leaver() { steps.leave(); }
};

}  // namespace

class query_run::worker {
 public:
  explicit worker(query_run& of);
  /// False: the reader was ended.
  bool take(std::uint64_t from, std::uint64_t end);

  query_groups groups;
  query_figures figures;

 private:
  bool copy(std::uint64_t from, std::uint64_t end);
  void copy_row(std::uint64_t slot, std::uint32_t row);
  bool keep_apart(std::uint64_t from, const query_filter& f, const query_input& in);
  std::uint64_t read_in_place(std::uint64_t slot, const column_set& wanted);
  void note_old_rows(const row_place& first, std::uint64_t slot, block_rows which);
  void copy_old_rows();
  [[nodiscard]] version_words words_read() const noexcept;
  [[nodiscard]] block_rows of_others(std::uint64_t first) const noexcept;
  [[nodiscard]] std::uint64_t rows_at_once() const noexcept { return batch_.shapes.size(); }

  query_run& of_;
  query_batch batch_;
  std::vector<column_copy> copies_;
  std::vector<std::uint64_t> image_;
  std::string apart_;  // the value that a condition is asked about
  // Rows of the batch whose newest version is after the snapshot, and where they go.
  std::vector<old_row> old_;
  std::vector<std::uint16_t> old_at_;
  std::size_t old_count_ = 0;
  std::vector<const version*> found_;
  std::vector<std::uint16_t> found_at_;
};

query_run::worker::worker(query_run& of) : groups(*of.plan_), of_(of) {
  std::uint32_t words = 1;
  for (const query_input& in : of.plan_->inputs) words += in.column.words;
  const std::uint32_t fit = most_words_at_once / words / rows_per_block * rows_per_block;
  const std::uint32_t rows = std::clamp(fit, rows_per_block, most_rows_at_once);
  batch_.shapes.resize(rows);
  batch_.rows.resize(rows);
  batch_.groups.resize(rows);
  batch_.words.resize(std::size_t{rows} * words);
  image_.resize(of.of_.form().words());
  old_.resize(rows);
  old_at_.resize(rows);
  found_.resize(rows);
  found_at_.resize(rows);
  std::uint32_t first = 0;
  for (const query_input& in : of.plan_->inputs) {
    batch_.inputs.push_back({first, in.column.words});
    copies_.push_back({{in.column.first, in.column.words}, batch_.words.data() + first});
    first += in.column.words * rows;
  }
}

bool query_run::worker::take(std::uint64_t from, std::uint64_t end) {
  const slot_chunks& slots = *of_.of_.parts_->chunks;
  for (;; from += rows_at_once()) {
    from = slots.next_shown(from, end, of_.at_.timestamp());
    if (from >= end) return !of_.at_.ended();  // then chunks may have been passed over that it saw
    if (of_.over()) return true;
    if (!copy(from, std::min(end, from + rows_at_once()))) return false;
    figures.looked_at += batch_.count;
    std::uint32_t& left = batch_.left = 0;
    for (std::uint32_t row = 0; row < batch_.count; ++row) {
      batch_.rows[left] = static_cast<std::uint16_t>(row);
      left += (batch_.shapes[row] & row_exists) != 0 ? 1U : 0U;
    }
    for (const query_filter& f : of_.plan_->filters) {
      const query_input& in = of_.plan_->inputs[f.input];
      if (f.what != query_filter::kind::program || in.order != word_order::unseen ||
          !of_.at_.gated_) {
        keep(batch_, f, in);
      } else if (!keep_apart(from, f, in)) {
        return false;
      }
    }
    figures.rows += left;
    groups.add(batch_);
  }
}

/// As keep(), of a reader that may be ended, for a condition of out-of-line values: they may go
/// when it has been. So each is copied in a step of its own, and the condition is asked after that.
/// False: the reader was ended.
bool query_run::worker::keep_apart(std::uint64_t from, const query_filter& f,
                                   const query_input& in) {
  const auto copied = [&](std::uint32_t row) {
    if (!of_.steps_.enter()) return false;
    const leaver at_the_end{of_.steps_};
    const std::uint64_t mask = std::uint64_t{1} << in.column.number;
    const std::vector<column_run> runs = of_.of_.form().runs_of(mask);
    const column_set wanted{mask, runs, of_.of_.form().whole().all};
    read_in_place(from + row, wanted);
    apart_ = apart_in(image_.data() + in.column.first);
    return true;
  };
  bool goes_on = true;
  keep_rows(batch_, [&](std::uint32_t row) {
    if ((batch_.shapes[row] & in.null_bit()) != 0) return false;
    goes_on = goes_on && copied(row);
    if (!goes_on) return false;
    std::array<std::uint64_t, apart_words> words{};
    put_apart(apart_, words.data());
    return f.holds(words.data());
  });
  return goes_on;
}

/// A row's words, or those that the transaction has for it, to image_. In a step: what is out of
/// line is not copied.
std::uint64_t query_run::worker::read_in_place(std::uint64_t slot, const column_set& wanted) {
  const reader& at = of_.at_;
  const row_place place = of_.of_.at(slot);
  if (at.own(*place.head) != nullptr) return at.read(of_.of_, slot, wanted, image_.data());
  return read_row(at.engine_.board, *at.engine_.old, place, at.timestamp(), wanted, image_.data());
}

/// A step: copies the rows from..end as the snapshot has them. Both are at the ends of blocks.
bool query_run::worker::copy(std::uint64_t from, std::uint64_t end) {
  if (!of_.steps_.enter()) return false;
  const leaver at_the_end{of_.steps_};
  const std::uint64_t time = of_.at_.timestamp();
  batch_.count = 0;
  for (std::uint64_t slot = from; slot < end; slot += rows_per_block) {
    const row_place place = of_.of_.at(slot);
    const std::uint32_t row = batch_.count;
    block_rows good =
        read_block(place.head, place.block, time, copies_, row, batch_.shapes.data() + row);
    if (of_.own_changes_) good &= of_others(slot);
    if (good != every_row) note_old_rows(place, slot, every_row & ~good);
    batch_.count += rows_per_block;
  }
  copy_old_rows();
  return true;
}

/// Rows of the block at `slot` that read_block() could not read. If one has been committed after
/// the snapshot, its version is looked for together with others: so what they have to fetch is
/// fetched at once.
void query_run::worker::note_old_rows(const row_place& first, std::uint64_t slot,
                                      block_rows which) {
  // A mark is negative.
  const auto time = of_.old_together_ ? static_cast<std::int64_t>(of_.at_.timestamp())
                                      : std::numeric_limits<std::int64_t>::max();
  const std::uint32_t row = batch_.count;
  std::size_t count = old_count_;
  old_row* const rows = old_.data();
  std::uint16_t* const at = old_at_.data();
  for (; which != 0; which &= which - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(which));
    const row_head& head = first.head[i];
    // acquire ← the releases in install() and restamp(): the chain.
    if (static_cast<std::int64_t>(head.stamp.load_acquire()) <= time) {
      copy_row(slot + i, row + i);
      continue;
    }
    rows[count] = {&head.older, first.id + i};
    at[count++] = static_cast<std::uint16_t>(row + i);
  }
  old_count_ = count;
}

void query_run::worker::copy_old_rows() {
  struct taker final : version_taker {
    explicit taker(worker& to) noexcept : version_taker(to.words_read()), of(to) {}
    void take(std::size_t first, std::span<const version* const> all) override {
      const std::uint16_t* const at = of.old_at_.data() + first;
      std::uint64_t* const shapes = of.batch_.shapes.data();
      const version** const there = of.found_.data();
      std::uint16_t* const there_at = of.found_at_.data();
      std::size_t count = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::uint64_t shape = all[i] == nullptr ? 0 : all[i]->shape.read();
        shapes[at[i]] = shape;
        there[count] = all[i];
        there_at[count] = at[i];
        count += (shape & row_exists) != 0 ? 1U : 0U;
      }
      for (const column_copy& c : of.copies_) {
        const std::uint32_t words = c.from.words;
        for (std::size_t i = 0; i < count; ++i) {
          const plain<std::uint64_t>* const from = there[i]->words() + c.from.first;
          std::uint64_t* const to = c.to + std::size_t{there_at[i]} * words;
          to[0] = from[0].read();
          for (std::uint32_t n = 1; n < words; ++n) to[n] = from[n].read();
        }
      }
    }
    worker& of;
  };
  if (old_count_ == 0) return;
  figures.old += old_count_;
  taker into(*this);
  const auto all = std::span(old_).first(std::exchange(old_count_, 0));
  of_.at_.engine_.old->visit(all, of_.at_.timestamp(), nullptr, into);
}

/// From the first word that the query reads to the last.
version_words query_run::worker::words_read() const noexcept {
  if (copies_.empty()) return {};
  version_words all = {~std::uint32_t{0}, 0};
  for (const column_copy& c : copies_) {
    all.first = std::min(all.first, c.from.first);
    all.end = std::max(all.end, c.from.first + c.from.words);
  }
  return all;
}

void query_run::worker::copy_row(std::uint64_t slot, std::uint32_t row) {
  const column_set wanted{of_.mask_, of_.runs_, of_.of_.form().whole().all};
  ++figures.old;
  batch_.shapes[row] = read_in_place(slot, wanted);
  for (const column_copy& c : copies_) {
    std::copy_n(image_.data() + c.from.first, c.from.words, c.to + std::size_t{row} * c.from.words);
  }
}

/// The rows of a block that the transaction has not changed.
block_rows query_run::worker::of_others(std::uint64_t first) const noexcept {
  block_rows rows = 0;
  for (std::uint32_t i = 0; i < rows_per_block; ++i) {
    rows |= block_rows{of_.at_.own(*of_.of_.at(first + i).head) == nullptr} << i;
  }
  return rows;
}

query_run::query_run(const reader& at, const table& of, std::shared_ptr<const query_plan> plan,
                     const query_options& o)
    : at_(at),
      of_(of),
      plan_(std::move(plan)),
      options_(o),
      slots_(of.row_slots()),
      own_changes_(at.session_ != nullptr && !at.session_->writes.empty()),
      steps_(at.gated_ && at.session_ != nullptr ? &at.session_->way : nullptr) {
  for (const query_input& in : plan_->inputs) mask_ |= std::uint64_t{1} << in.column.number;
}

query_run::~query_run() = default;

status query_run::run() {
  if (at_.session_ == nullptr) return at_.how_ended();
  if (!of_.when_.serves(at_.timestamp())) {
    if (const outcome there = at_.enter(of_); there != outcome::ok) return at_.said_of(of_, there);
  }
  // A reader that may be ended has out-of-line values copied: reader::read(). And versions must be
  // whole rows.
  old_together_ = !own_changes_ && !at_.engine_.old->changes_only() &&
                  !(at_.gated_ && (of_.form().apart() & mask_) != 0);
  runs_ = of_.form().runs_of(mask_);
  at_.session_->looked = true;
  const bool notes = at_.notes_reads_ && !at_.session_->reads.has_all(of_);
  running_note<table_read> noted(at_.session_, &read_set::tables);
  try {
    if (notes) noted.begin({&of_, 0});
  } catch (const no_result& e) {
    return e.why();
  }
  const asking now(at_);
  const std::uint32_t count = helpers();
  found_.reserve(count + 1);
  std::vector<std::thread> own;
  own.reserve(count);
  const auto end = [&]() noexcept {
    end_helpers(own);
    if (notes) noted.now().end = told();
  };
  try {
    call_helpers(count, own);
    help();
  } catch (...) {  // this thread ends
    end();
    throw;
  }
  end();
  if (failed_) std::rethrow_exception(failed_);
  if (why_ == outcome::ok) put_together();
  return why_;
}

void query_run::end_helpers(std::vector<std::thread>& own) noexcept {
  const uncancelled to_the_end;
  {
    std::unique_lock hold(lock_);
    closed_ = true;
    left_.wait(hold, [&] { return inside_ == 0; });
  }
  for (std::thread& t : own) t.join();
}

/// The program learns something of the rows in the slots below: all, by an answer. Without one,
/// only its own conditions have seen rows. When all threads have left.
std::uint64_t query_run::told() const noexcept {
  if (!failed_ && why_ == outcome::ok && next_.load_relaxed() >= slots_) return table_read::all;
  const auto& all = plan_->filters;
  const bool asked = std::any_of(all.begin(), all.end(), [](const query_filter& f) {
    return f.what == query_filter::kind::program;
  });
  return asked ? std::min(next_.load_relaxed(), slots_) : 0;
}

/// Threads other than the caller's.
std::uint32_t query_run::helpers() const noexcept {
  const std::uint64_t morsels = (slots_ + options_.morsel - 1) / options_.morsel;
  std::uint64_t threads = options_.threads;
  if (threads == 0) {
    const std::uint64_t rows = slots_ < rows_worth_a_thread ? slots_ : of_.parts_->chunks->taken();
    threads = std::min<std::uint64_t>(processors(), 1 + rows / rows_worth_a_thread);
  }
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(std::min(threads, morsels), 1) - 1);
}

void query_run::call_helpers(std::uint32_t count, std::vector<std::thread>& own) {
  try {
    for (; count > 0; --count) {
      if (options_.lend) {
        options_.lend([self = shared_from_this()] { self->help(); });
      } else {
        own.emplace_back([this] { help(); });
      }
    }
  } catch (...) {  // there are no more threads: the others do their work
    let_unwinding_pass();
  }
}

/// Works if the query is not over.
void query_run::help() {
  {
    const std::lock_guard hold(lock_);
    if (closed_) return;
    ++inside_;
  }
  struct leaving {
    query_run& of;
    ~leaving() {
      const std::lock_guard hold(of.lock_);
      if (--of.inside_ == 0) of.left_.notify_all();
    }
  };
  const leaving at_the_end{*this};
  const at_work now(caller_);
  work();
}

/// Passes on no exception, but the end of the thread, which what the query calls may ask for.
void query_run::work() {
  try {
    work_through();
  } catch (...) {
    enough_.store_relaxed(true);
    let_unwinding_pass();
    const std::lock_guard hold(lock_);
    if (!failed_) failed_ = std::current_exception();
  }
}

void query_run::work_through() {
  std::unique_ptr<worker> mine;
  const std::uint64_t morsel =
      (options_.morsel + rows_per_block - 1) / rows_per_block * std::uint64_t{rows_per_block};
  for (;;) {
    if (enough_.load_relaxed()) return;
    const std::uint64_t from = next_.fetch_add_relaxed(morsel);
    if (from >= slots_) break;
    if (mine == nullptr) mine = std::make_unique<worker>(*this);
    if (!mine->take(from, std::min(slots_, from + morsel))) fail(at_.session_->way.why());
    if (over()) {
      const bool wanted = options_.stop.stop_requested();
      fail({outcome::stopped, wanted ? cause::stop_wanted : cause::longest});
    }
  }
  const std::lock_guard hold(lock_);
  if (mine != nullptr) found_.push_back(std::move(mine));  // there is room
}

/// Whether the program wants no answer any more.
bool query_run::over() const noexcept {
  if (enough_.load_relaxed() || options_.stop.stop_requested()) return true;
  return options_.longest.count() > 0 &&
         std::chrono::steady_clock::now() - begin_ >= options_.longest;
}

void query_run::fail(status why) noexcept {
  const std::lock_guard hold(lock_);
  if (why_) why_ = std::move(why);
  enough_.store_relaxed(true);
}

void query_run::put_together() {
  figures_.threads = static_cast<std::uint32_t>(found_.size());
  for (const auto& w : found_) {
    figures_.looked_at += w->figures.looked_at;
    figures_.rows += w->figures.rows;
    figures_.old += w->figures.old;
  }
  // Into the largest one.
  std::sort(found_.begin(), found_.end(),
            [](const auto& x, const auto& y) { return x->groups.size() > y->groups.size(); });
  if (found_.empty()) {
    groups_ = std::make_unique<query_groups>(*plan_);
    return;
  }
  groups_ = std::make_unique<query_groups>(std::move(found_.front()->groups));
  for (std::size_t i = 1; i < found_.size(); ++i) {
    groups_->take_in(found_[i]->groups);
    found_[i].reset();
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

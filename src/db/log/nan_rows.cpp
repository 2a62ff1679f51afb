// SPDX-License-Identifier: Apache-2.0
// nan_rows.cpp: making one not-a-number of many.
#include "db/log/nan_rows.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <tuple>
#include <utility>

#include <spolia/db/json.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// What is done to one table.
class nan_rows::work {
 public:
  work(nan_rows& to, engine& of, table& t) : to_(to), engine_(of), table_(t), s_(t.form()) {
    identities_ = s_.doubles() & s_.keyed();
    for (const secondary* const i : t.indexes().all) {
      if (i->parts_->unique) identities_ |= s_.doubles() & i->parts_->mask;
    }
  }

  void run() {
    if (!replace_plain()) return;
    find_rows();
    leave_out(s_.key());
    for (const secondary* const i : table_.indexes().all) {
      if (i->parts_->unique && (i->parts_->mask & s_.doubles()) != 0) leave_out(i->parts_->columns);
    }
    // The key that one row is to get may be that of a row which goes.
    for (candidate& c : rows_) {
      if (c.out) erase(c);
    }
    for (candidate& c : rows_) {
      if (!c.out && c.moves) forget_key(c);
    }
    for (candidate& c : rows_) {
      if (!c.out) put(c);
    }
  }

 private:
  using image = std::vector<std::uint64_t>;
  struct candidate {
    std::uint64_t slot = 0;
    std::uint64_t shape = 0;
    image was;
    image is;
    bool moves = false;  // its primary key is another one now
    bool out = false;
  };

  template <class F>
  void each_row(F&& f) {
    for (std::uint64_t slot = 0, end = table_.row_slots(); slot < end; ++slot)
      f(table_.at(slot), slot);
  }
  static std::uint64_t shape_of(const row_place& at) noexcept {
    return at.head->shape.load_relaxed();
  }

  /// Replaces those that are in no key; true: there are some in keys.
  bool replace_plain() {
    bool in_keys = false;
    each_row([&](const row_place& at, std::uint64_t) {
      each_column(s_.doubles(), [&](std::uint32_t c) {
        atomic<std::uint64_t>& word = *at.column(s_.span_of(c).first, 1);
        const std::uint64_t was = word.load_relaxed();
        const std::uint64_t is = double_word(was);
        if (was == is || (shape_of(at) & row_exists) == 0) return;
        if ((identities_ >> c & 1U) != 0) {
          in_keys = true;
        } else {
          word.store_relaxed(is);
        }
      });
    });
    return in_keys;
  }

  /// All with a NaN in a key.
  void find_rows() {
    each_row([&](const row_place& at, std::uint64_t slot) {
      bool any = false;
      each_column(identities_, [&](std::uint32_t c) {
        any = any || is_nan_word(at.column(s_.span_of(c).first, 1)->load_relaxed());
      });
      const std::uint64_t shape = shape_of(at);
      if (!any || (shape & row_exists) == 0) return;
      candidate c{.slot = slot, .shape = shape, .was = image(s_.words()), .is = {}};
      at.load(s_.whole().runs, c.was.data());
      c.is = c.was;
      each_column(s_.doubles(), [&](std::uint32_t n) {
        std::uint64_t& word = c.is[s_.span_of(n).first];
        word = double_word(word);
      });
      c.moves = s_.key_of(s_.key(), c.was.data()) != s_.key_of(s_.key(), c.is.data());
      rows_.push_back(std::move(c));
    });
  }

  /// Of rows that have the same key over these columns now, the first stays.
  void leave_out(const std::vector<std::uint32_t>& columns) {
    std::vector<std::tuple<key_words, key_words, candidate*>> order;
    for (candidate& c : rows_) {
      if (c.out) continue;
      order.emplace_back(s_.key_of(columns, c.is.data()), s_.key_of(columns, c.was.data()), &c);
    }
    std::sort(order.begin(), order.end(), [](const auto& x, const auto& y) {
      return std::tie(std::get<0>(x), std::get<1>(x)) < std::tie(std::get<0>(y), std::get<1>(y));
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
      std::get<2>(order[i])->out = std::get<0>(order[i - 1]) == std::get<0>(order[i]);
    }
  }

  void erase(const candidate& c) {
    if (to_.out_.empty() || to_.out_.back().of != &table_) {
      to_.out_.push_back({.of = &table_, .number = table_.number_, .rows = 0, .lines = {}});
    }
    left_out& out = to_.out_.back();
    append_json_row(out.lines, s_, [&](const column_layout& column) {
      if ((c.shape >> column.number & 1U) != 0) return value();
      return column.decode(c.was.data() + column.first);
    });
    out.lines += '\n';
    ++out.rows;
    forget_key(c);
    engine_.values.free_row(s_, table_.at(c.slot), every_column);
    row_head& head = *table_.at(c.slot).head;
    head.stamp.store_relaxed(0);
    head.shape.store_relaxed(0);
    table_.give_slot(c.slot);
  }
  void forget_key(const candidate& c) {
    put_change(to_.changes_, table_.number_, s_, c.was.data(), 0);
    if (!table_.primary_->remove(s_.key_of(s_.key(), c.was.data()), c.slot)) throw std::bad_alloc();
  }
  void put(const candidate& c) {
    table_.at(c.slot).store(s_.whole().runs, c.is.data());
    if (!c.moves) return;
    table_.primary_->claim(s_.key_of(s_.key(), c.is.data()), c.slot);
    put_change(to_.changes_, table_.number_, s_, c.is.data(), c.shape);
  }

  nan_rows& to_;
  engine& engine_;
  table& table_;
  const schema& s_;
  std::uint64_t identities_ = 0;  // columns of doubles that tell rows from each other
  std::vector<candidate> rows_;
};

void nan_rows::unify(engine& of) {
  for (const auto& [number, t] : of.tables.by_number()) {
    // A table that was dropped has no rows any more.
    if (t->form().doubles() != 0 && t->primary_ != nullptr) work(*this, of, *t).run();
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

// SPDX-License-Identifier: Apache-2.0
#include "held_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace bench {

namespace db = spolia::db;

namespace {

/// The marks that rows go round, where they are in a hash index.
constexpr std::int64_t few_marks = 16;
/// The mark of each row of `report` when the run begins: not zero, so that a row that is missing
/// makes another sum.
constexpr std::int64_t first_mark = 1000;

}  // namespace

class queue_share final : public held_share {
 public:
  queue_share(held_table& of, std::uint32_t thread)
      : of_(of),
        thread_(thread),
        next_(first() + static_cast<std::int64_t>(of.shape_.share(thread))) {}

  db::status fill(db::transaction& tx, std::uint64_t place) override {
    return insert(tx, first() + static_cast<std::int64_t>(place));
  }
  db::status change(db::transaction& tx) override {
    std::int64_t head = -1;
    const auto take = [&](const db::row& r) {
      head = r.get(of_.number_);
      return false;
    };
    if (of_.by_mark_ != nullptr) {
      tx.scan(*of_.by_mark_, {thread_}, {thread_}, take);
    } else {
      tx.scan(of_.rows_, {first()}, {next_}, take);
    }
    if (head < 0) throw std::runtime_error("a thread's queue is empty, where rows have to be");
    if (const db::status s = tx.erase(of_.rows_, {head}); !s) return s;
    return insert(tx, next_);
  }
  void committed() noexcept override { ++next_; }

 private:
  [[nodiscard]] std::int64_t first() const noexcept { return held_table::first_of(thread_); }
  db::status insert(db::transaction& tx, std::int64_t number) {
    return tx.insert(of_.rows_, {number, thread_});
  }

  held_table& of_;
  const std::uint32_t thread_;
  std::int64_t next_;  // to be inserted
};

class touched_share final : public held_share {
 public:
  touched_share(held_table& of, std::uint32_t thread, std::uint64_t seed)
      : of_(of), thread_(thread), random_(seed) {}

  db::status fill(db::transaction& tx, std::uint64_t place) override {
    ++changes_;
    return tx.insert(of_.rows_,
                     {held_table::first_of(thread_) + static_cast<std::int64_t>(place),
                      of_.shape_.hashed() ? static_cast<std::int64_t>(place) % few_marks : now()});
  }
  db::status change(db::transaction& tx) override {
    const auto place = static_cast<std::int64_t>(random_.below(of_.shape_.share(thread_)));
    auto row = tx.edit(of_.rows_, {held_table::first_of(thread_) + place});
    if (!row) return row.why();
    return row->set(of_.mark_, of_.shape_.hashed() ? (row->get(of_.mark_) + 1) % few_marks : now());
  }
  void committed() noexcept override { ++changes_; }

 private:
  /// No other row has had it, and no other thread gives it.
  [[nodiscard]] std::int64_t now() const noexcept {
    return changes_ * of_.shape_.threads + thread_;
  }

  held_table& of_;
  const std::uint32_t thread_;
  random_source random_;
  std::int64_t changes_ = 0;
};

class churn_share final : public held_share {
 public:
  churn_share(held_table& of, std::uint32_t thread, std::uint64_t seed)
      : of_(of), random_(seed), keys_(2 * of.shape_.share(thread)) {
    std::int64_t next = held_table::first_of(thread);
    for (std::int64_t& key : keys_) key = next++;
  }

  db::status fill(db::transaction& tx, std::uint64_t place) override {
    return tx.insert(of_.rows_, {keys_[place], 0});
  }
  db::status change(db::transaction& tx) override {
    const std::uint64_t half = keys_.size() / 2;
    gone_ = random_.below(half);
    come_ = half + random_.below(half);
    if (const db::status s = tx.erase(of_.rows_, {keys_[gone_]}); !s) return s;
    return tx.insert(of_.rows_, {keys_[come_], ++marks_});
  }
  void committed() noexcept override { std::swap(keys_[gone_], keys_[come_]); }

 private:
  held_table& of_;
  random_source random_;
  std::vector<std::int64_t> keys_;  // those of rows that are there come first
  std::uint64_t gone_ = 0;
  std::uint64_t come_ = 0;
  std::int64_t marks_ = 0;
};

class report_share final : public held_share {
 public:
  report_share(held_table& of, std::uint32_t thread, std::uint64_t seed)
      : of_(of), thread_(thread), random_(seed) {}

  db::status fill(db::transaction& tx, std::uint64_t place) override {
    const auto at = static_cast<std::int64_t>(place);
    return tx.insert(of_.rows_, {held_table::first_of(thread_) + at, first_mark, at});
  }
  db::status change(db::transaction& tx) override {
    if (const db::status s = add(tx, 1); !s) return s;
    return add(tx, -1);
  }
  void committed() noexcept override {}

 private:
  db::status add(db::transaction& tx, std::int64_t marks) {
    const auto place = static_cast<std::int64_t>(random_.below(of_.shape_.share(thread_)));
    auto row = tx.edit(of_.rows_, {held_table::first_of(thread_) + place});
    if (!row) return row.why();
    return row->set(of_.mark_, row->get(of_.mark_) + marks);
  }

  held_table& of_;
  const std::uint32_t thread_;
  random_source random_;
};

held_table::held_table(db::database& in, const held_shape& shape)
    : shape_(shape),
      rows_(in.create_table(spec(shape))),
      by_mark_(shape.by_mark() ? &rows_.index("by_mark") : nullptr) {}

std::int64_t held_table::marks() const noexcept {
  return shape_.workload == "touched" ? few_marks : shape_.threads;
}

db::table_spec held_table::spec(const held_shape& shape) {
  const auto measured = shape.hashed() ? db::index_kind::hash : db::index_kind::ordered;
  db::table_spec made{.name = shape.workload,
                      .columns = {{"number", db::int64, db::primary_key}, {"mark", db::int64}},
                      .primary = measured};
  if (shape.reports()) made.columns.push_back({"place", db::int64});
  if (!shape.by_mark()) return made;
  made.primary = db::index_kind::hash;
  made.indexes.push_back({.name = "by_mark", .columns = {"mark"}, .kind = measured});
  return made;
}

std::unique_ptr<held_share> held_table::share(std::uint32_t thread, std::uint64_t seed) {
  if (shape_.workload == "queue") return std::make_unique<queue_share>(*this, thread);
  if (shape_.workload == "touched") return std::make_unique<touched_share>(*this, thread, seed);
  if (shape_.reports()) return std::make_unique<report_share>(*this, thread, seed);
  return std::make_unique<churn_share>(*this, thread, seed);
}

void held_table::each(const db::reader& at, const visitor& f) const {
  at.for_each(rows_, [&](const db::row& r) { f(r.get(number_), r.get(mark_)); });
}

void held_table::by_index(const db::reader& at, const visitor& f) const {
  const auto show = [&](const db::row& r) { f(r.get(number_), r.get(mark_)); };
  if (!shape_.hashed()) {
    if (by_mark_ != nullptr) {
      at.scan(*by_mark_, {}, {}, show);
    } else {
      at.scan(rows_, {}, {}, show);
    }
    return;
  }
  if (by_mark_ != nullptr) {
    for (std::int64_t m = 0; m < marks(); ++m) at.scan(*by_mark_, {m}, {m}, show);
    return;
  }
  for (std::uint32_t thread = 0; thread < shape_.threads; ++thread) {
    const std::int64_t end = first_of(thread) + static_cast<std::int64_t>(2 * shape_.share(thread));
    for (std::int64_t number = first_of(thread); number < end; ++number) {
      if (const auto mark = find(at, number)) f(number, *mark);
    }
  }
}

bool held_table::first_row(const db::reader& at, random_source& random) const {
  bool found = false;
  const auto show = [&](const db::row&) {
    found = true;
    return false;
  };
  if (by_mark_ != nullptr && shape_.hashed()) {
    at.scan(*by_mark_, {0}, {0}, show);
  } else if (by_mark_ != nullptr) {
    at.scan(*by_mark_, {}, {}, show);
  } else if (!shape_.hashed()) {
    at.scan(rows_, {}, {}, show);
  } else {
    found = find(at, first_of(0) + static_cast<std::int64_t>(random.below(2 * shape_.share(0))))
                .has_value();
  }
  return found;
}

held_sums held_table::by_query(const db::reader& at) const {
  const auto found = at.query(rows_).aggregate(db::sum("mark")).run({.threads = 1});
  if (!found) throw db::no_result(found.code());
  return {found->figures().rows, found->get<std::int64_t>(0, 0)};
}

held_sums held_table::by_rows(const db::reader& at) const {
  held_sums made;
  at.for_each(rows_, [&](const db::row& r) {
    ++made.rows;
    made.marks += r.get(mark_);
  });
  return made;
}

held_sums held_table::expected() const noexcept {
  return {shape_.rows, static_cast<std::int64_t>(shape_.rows) * first_mark};
}

std::int64_t held_table::random_number(random_source& random) const noexcept {
  const auto thread = static_cast<std::uint32_t>(random.below(shape_.threads));
  return first_of(thread) + static_cast<std::int64_t>(random.below(shape_.share(thread)));
}

std::optional<std::int64_t> held_table::find(const db::reader& at, std::int64_t number) const {
  const auto row = at.find(rows_, {number});
  if (!row && row.code() != db::outcome::not_found) throw db::no_result(row.code());
  return row ? std::optional(row->get(mark_)) : std::nullopt;
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// query_groups.cpp: sums, least and greatest values, groups.
#include "db/query/query_groups.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint32_t first_places = 64;

/// Finalizer of MurmurHash3's kind: each bit of the word shows in each of the hash.
constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0xFF51AFD7ED558CCDU;
  hash ^= hash >> 32U;
  hash *= 0xC4CEB9FE1A85EC53U;
  return hash ^ hash >> 29U;
}

/// Of two texts, or parts of them, as they lie in words.
int compare_bytes(const std::uint64_t* x, const std::uint64_t* y, std::size_t words) noexcept {
  return std::memcmp(x, y, words * sizeof(std::uint64_t));
}

// States: how a value is added to one, and how one is added to another. All begin as zeros.

struct count_rows {
  static constexpr std::uint32_t words = 1;
  static void add(std::uint64_t* s, const std::uint64_t*) noexcept { ++s[0]; }
  static void merge(std::uint64_t* s, const std::uint64_t* other) noexcept { s[0] += other[0]; }
};

/// How many, and a sum of 128 bits, the lower half first.
struct sum_integers {
  static constexpr std::uint32_t words = 3;
  static void add(std::uint64_t* s, const std::uint64_t* value) noexcept {
    ++s[0];
    const std::uint64_t low = s[1] + *value;
    s[2] += (low < *value ? 1U : 0U) - (*value >> 63U);
    s[1] = low;
  }
  static void merge(std::uint64_t* s, const std::uint64_t* other) noexcept {
    s[0] += other[0];
    const std::uint64_t low = s[1] + other[1];
    s[2] += other[2] + (low < other[1] ? 1U : 0U);
    s[1] = low;
  }
  static bool fits(const std::uint64_t* s) noexcept {
    return s[2] == (s[1] >> 63U != 0 ? ~std::uint64_t{0} : 0);
  }
  static double real(const std::uint64_t* s) noexcept {
    if (fits(s)) return static_cast<double>(std::bit_cast<std::int64_t>(s[1]));
    return std::ldexp(static_cast<double>(std::bit_cast<std::int64_t>(s[2])), 64) +
           static_cast<double>(s[1]);
  }
};

/// How many, a sum, and what was lost by rounding it.
struct sum_reals {
  static constexpr std::uint32_t words = 3;
  static void add(std::uint64_t* s, const std::uint64_t* value) noexcept {
    ++s[0];
    const auto x = std::bit_cast<double>(*value);
    const auto sum = std::bit_cast<double>(s[1]);
    const double next = sum + x;
    const double rounded = next - sum;
    const double lost = (sum - (next - rounded)) + (x - rounded);
    s[1] = std::bit_cast<std::uint64_t>(next);
    s[2] = std::bit_cast<std::uint64_t>(std::bit_cast<double>(s[2]) + lost);
  }
  static void merge(std::uint64_t* s, const std::uint64_t* other) noexcept {
    const std::uint64_t count = s[0] + other[0];
    add(s, other + 1);
    s[0] = count;
    s[2] =
        std::bit_cast<std::uint64_t>(std::bit_cast<double>(s[2]) + std::bit_cast<double>(other[2]));
  }
  static double real(const std::uint64_t* s) noexcept {
    const auto sum = std::bit_cast<double>(s[1]);
    if (is_infinite_word(s[1])) return sum;
    // One NaN, as in columns: the processor makes it with either sign.
    return is_nan_word(s[1]) ? std::bit_cast<double>(nan_word) : sum + std::bit_cast<double>(s[2]);
  }
};

/// How many, and the greatest key; of the least value, the complement of its key is the greatest.
template <auto Key, bool Least>
struct extreme {
  static constexpr std::uint32_t words = 2;
  static void add(std::uint64_t* s, const std::uint64_t* value) noexcept {
    ++s[0];
    const std::uint64_t key = Key(*value);
    s[1] = std::max(s[1], Least ? ~key : key);
  }
  static void merge(std::uint64_t* s, const std::uint64_t* other) noexcept {
    s[0] += other[0];
    s[1] = std::max(s[1], other[1]);
  }
};

/// Whether there is one, and its words.
void extreme_text(std::uint64_t* s, const std::uint64_t* value, std::size_t words, bool least) {
  if (s[0] != 0 && (compare_bytes(value, s + 1, words) < 0) != least) return;
  s[0] = 1;
  std::copy_n(value, words, s + 1);
}

/// Calls f(place among those that are left, row) for the rows without a null.
template <class F>
void each_value(const query_batch& b, std::uint64_t null_bit, F&& f) {
  if (null_bit != 0) {
    for (std::uint32_t i = 0; i < b.left; ++i) {
      if ((b.shapes[b.rows[i]] & null_bit) == 0) f(i, b.rows[i]);
    }
  } else if (b.left == b.count) {
    for (std::uint32_t i = 0; i < b.left; ++i) f(i, i);
  } else {
    for (std::uint32_t i = 0; i < b.left; ++i) f(i, b.rows[i]);
  }
}

/// `first` is the state of the first group.
template <class State>
void fold_words(const query_batch& b, const std::uint64_t* column, std::uint64_t null_bit,
                bool grouped, std::uint64_t* first, std::size_t stride) {
  if (!grouped) {
    std::array<std::uint64_t, State::words> sum;  // not in memory, for as long as it takes
    std::copy_n(first, State::words, sum.begin());
    each_value(b, null_bit,
               [&](std::uint32_t, std::uint32_t row) { State::add(sum.data(), column + row); });
    std::copy_n(sum.begin(), State::words, first);
    return;
  }
  each_value(b, null_bit, [&](std::uint32_t i, std::uint32_t row) {
    State::add(first + b.groups[i] * stride, column + row);
  });
}

/// Calls f(State{}) with what the fold's state is; false: it is a text.
template <class F>
bool with_state(const query_fold& f, word_order order, F&& call) {
  const bool real = order == word_order::real;
  switch (f.what) {
    case measure::kind::rows:
    case measure::kind::present:
      call(count_rows{});
      return true;
    case measure::kind::sum:
    case measure::kind::avg:
      real ? call(sum_reals{}) : call(sum_integers{});
      return true;
    case measure::kind::min:
      if (order == word_order::bytes) return false;
      real ? call(extreme<real_key, true>{}) : call(extreme<number_key, true>{});
      return true;
    case measure::kind::max:
      if (order == word_order::bytes) return false;
      real ? call(extreme<real_key, false>{}) : call(extreme<number_key, false>{});
      return true;
  }
  return false;
}

}  // namespace

query_groups::query_groups(const query_plan& p) : plan_(&p), stride_(p.stride()) {
  if (!p.grouped()) {
    entries_.resize(stride_);
    count_ = 1;
    return;
  }
  key_.resize(p.key_words);
  index_.resize(first_places);
}

void query_groups::add(query_batch& b) {
  if (b.left == 0) return;
  if (plan_->grouped()) find_groups(b);
  for (const query_fold& f : plan_->folds) fold(b, f);
}

void query_groups::find_groups(query_batch& b) {
  for (std::uint32_t i = 0; i < b.left; ++i) {
    const std::uint32_t row = b.rows[i];
    std::uint64_t* to = key_.data() + 1;
    std::uint64_t nulls = 0;
    std::uint64_t hash = 0;
    for (std::size_t k = 0; k < plan_->keys.size(); ++k) {
      const query_input& in = plan_->inputs[plan_->keys[k]];
      const std::uint32_t words = in.column.words;
      const bool null = (b.shapes[row] & in.null_bit()) != 0;
      const std::uint64_t* const from = b.column(plan_->keys[k]) + std::size_t{row} * words;
      nulls |= std::uint64_t{null} << k;
      for (std::uint32_t w = 0; w < words; ++w) hash = mixed(hash, *to++ = null ? 0 : from[w]);
    }
    key_[0] = nulls;
    b.groups[i] = find_or_add(key_.data(), mixed(hash, nulls));
  }
}

std::uint32_t query_groups::find_or_add(const std::uint64_t* key, std::uint64_t hash) {
  const std::size_t mask = index_.size() - 1;
  for (std::size_t at = hash & mask; index_[at] != 0; at = (at + 1) & mask) {
    const std::uint64_t* const e = entry(index_[at] - 1);
    if (e[0] == hash && std::equal(key, key + plan_->key_words, keys_of(e))) return index_[at] - 1;
  }
  if ((std::size_t{count_} + 1) * 3 > index_.size() * 2) grow();
  if (count_ == ~std::uint32_t{0}) throw std::bad_alloc();
  const std::size_t end = entries_.size();
  entries_.resize(end + stride_);
  entries_[end] = hash;
  std::copy_n(key, plan_->key_words, entries_.begin() + static_cast<std::ptrdiff_t>(end) + 1);
  place(hash, count_);
  return count_++;
}

void query_groups::grow() {
  std::vector<std::uint32_t> larger(index_.size() * 2);
  index_.swap(larger);
  for (std::uint32_t n = 0; n < count_; ++n) place(entry(n)[0], n);
}

void query_groups::place(std::uint64_t hash, std::uint32_t number) noexcept {
  const std::size_t mask = index_.size() - 1;
  std::size_t at = hash & mask;
  while (index_[at] != 0) at = (at + 1) & mask;
  index_[at] = number + 1;
}

void query_groups::fold(const query_batch& b, const query_fold& f) {
  std::uint64_t* const first = entries_.data() + query_plan::hash_words + plan_->key_words + f.at;
  const bool grouped = plan_->grouped();
  if (f.what == measure::kind::rows) {
    if (!grouped) {
      first[0] += b.left;
    } else {
      for (std::uint32_t i = 0; i < b.left; ++i) ++first[b.groups[i] * stride_];
    }
    return;
  }
  const query_input& in = plan_->inputs[f.input];
  const std::uint64_t* const column = b.column(f.input);
  const bool done =
      f.what != measure::kind::present && with_state(f, in.order, [&]<class State>(State) {
        fold_words<State>(b, column, in.null_bit(), grouped, first, stride_);
      });
  if (done) return;
  const std::size_t words = in.column.words;
  each_value(b, in.null_bit(), [&](std::uint32_t i, std::uint32_t row) {
    std::uint64_t* const s = first + (grouped ? b.groups[i] : 0) * stride_;
    if (f.what == measure::kind::present) {
      ++s[0];
    } else {
      extreme_text(s, column + row * words, words, f.what == measure::kind::min);
    }
  });
}

void query_groups::take_in(const query_groups& other) {
  for (std::uint32_t n = 0; n < other.count_; ++n) {
    const std::uint64_t* const from = other.entry(n);
    const std::uint32_t mine = plan_->grouped() ? find_or_add(keys_of(from), from[0]) : 0;
    std::uint64_t* const to = entries_.data() + mine * stride_;
    for (std::size_t i = 0; i < plan_->folds.size(); ++i) {
      const query_fold& f = plan_->folds[i];
      const std::uint64_t* const theirs = state(from, i);
      std::uint64_t* const s = to + (theirs - from);
      const word_order order =
          f.what == measure::kind::rows ? word_order::number : plan_->inputs[f.input].order;
      if (with_state(f, order, [&]<class State>(State) { State::merge(s, theirs); })) continue;
      if (theirs[0] != 0) extreme_text(s, theirs + 1, f.words - 1, f.what == measure::kind::min);
    }
  }
}

/// Whether one entry comes before another.
bool query_groups::before(std::uint32_t x, std::uint32_t y) const noexcept {
  const std::uint64_t* const a = keys_of(entry(x));
  const std::uint64_t* const b = keys_of(entry(y));
  std::size_t at = 1;
  for (std::size_t k = 0; k < plan_->keys.size(); ++k) {
    const query_input& in = plan_->inputs[plan_->keys[k]];
    const bool null = (a[0] >> k & 1U) != 0;
    if (null != ((b[0] >> k & 1U) != 0)) return null;
    if (in.order == word_order::bytes) {
      if (const int c = compare_bytes(a + at, b + at, in.column.words); c != 0) return c < 0;
    } else if (a[at] != b[at]) {
      const auto key = in.order == word_order::real ? real_key : number_key;
      return key(a[at]) < key(b[at]);
    }
    at += in.column.words;
  }
  return false;
}

std::vector<std::uint32_t> query_groups::sorted() const {
  std::vector<std::uint32_t> all(count_);
  std::iota(all.begin(), all.end(), 0U);
  std::sort(all.begin(), all.end(), [this](auto x, auto y) { return before(x, y); });
  return all;
}

value query_groups::key(const std::uint64_t* e, std::size_t key) const noexcept {
  const std::uint64_t* at = keys_of(e) + 1;
  for (std::size_t k = 0; k < key; ++k) at += plan_->inputs[plan_->keys[k]].column.words;
  return plan_->inputs[plan_->keys[key]].column.decode(at);
}

bool query_groups::null_measure(const std::uint64_t* e, std::size_t fold) const noexcept {
  const measure::kind what = plan_->folds[fold].what;
  return what != measure::kind::rows && what != measure::kind::present && state(e, fold)[0] == 0;
}

double query_groups::sum(const std::uint64_t* e, std::size_t fold) const noexcept {
  const std::uint64_t* const s = state(e, fold);
  const query_input& in = plan_->inputs[plan_->folds[fold].input];
  if (in.order == word_order::real) return sum_reals::real(s);
  return sum_integers::real(s) / std::pow(10.0, in.column.type.digits);
}

value query_groups::measured(const std::uint64_t* e, std::size_t fold) const {
  const query_fold& f = plan_->folds[fold];
  const std::uint64_t* const s = state(e, fold);
  if (f.what == measure::kind::rows || f.what == measure::kind::present) return s[0];
  const query_input& in = plan_->inputs[f.input];
  if (f.what == measure::kind::avg) return sum(e, fold) / static_cast<double>(s[0]);
  if (f.what == measure::kind::sum) {
    if (in.order == word_order::real) return sum(e, fold);
    if (sum_integers::fits(s)) return in.column.decode(s + 1);
    throw std::overflow_error("spolia::db: the sum of column " + in.column.name +
                              " does not fit in 64 bits");
  }
  if (in.order == word_order::bytes) return in.column.decode(s + 1);
  const std::uint64_t key = f.what == measure::kind::min ? ~s[1] : s[1];
  const std::uint64_t word = in.order == word_order::real ? real_of_key(key) : number_key(key);
  return in.column.decode(&word);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

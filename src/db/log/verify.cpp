// SPDX-License-Identifier: Apache-2.0
// verify.cpp: what memory shows, beside what an opening would make of the files.
//
// The snapshot and the number of the last record before it are taken in one step, as for a
// checkpoint, but without a record. So the log up to that record makes exactly what the snapshot
// sees. While the lock of checkpoints is held there is none later than that record, and no file is
// removed; when it is given back, the files are open.
#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <spolia/db/json.hpp>

#include "base/so_many.hpp"
#include "db/engine.hpp"
#include "db/files/storage.hpp"
#include "db/log/nan_rows.hpp"
#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::size_t longest_shown = 80;  // bytes of a value, or of a key

/// As JSON, cut where it is long.
std::string value_in_words(const value& v) {
  std::string s;
  const auto* const text = std::get_if<std::string_view>(&v.what());
  const auto* const bytes = std::get_if<blob_view>(&v.what());
  const std::string_view all = text != nullptr    ? *text
                               : bytes != nullptr ? bytes->chars()
                                                  : std::string_view();
  if (all.size() <= longest_shown) {
    append_json(s, v);
    return s;
  }
  std::size_t end = longest_shown;  // not within a character
  while (end > longest_shown - 4 && (static_cast<unsigned char>(all[end]) & 0xc0U) == 0x80) --end;
  const std::string_view begin = all.substr(0, end);
  append_json(s, text != nullptr ? value(begin) : value(blob_view(begin)));
  return s + "... of " + so_many(all.size(), "byte");
}

options for_copy(const options& ours, const verify_options& how) {
  options o;
  o.read_only = true;
  o.recovery_threads = how.threads;
  o.hash_indexes = ours.hash_indexes;
  return o;
}

/// The same for the same values, and for no others.
std::string bytes_of(const std::vector<value>& key) {
  std::string all;
  for (const value& v : key) append_json(all += ',', v);
  return all;
}

byte_buffer described(const table_spec& spec) {
  byte_buffer bytes;
  put_table(bytes, spec);
  return bytes;
}

/// How two descriptions of the table with a number differ.
std::string description_differs(const table_spec& memory, const table_spec& files) {
  if (memory.name != files.name) return "the files call it " + files.name;
  table_spec with_their_indexes = memory;
  with_their_indexes.indexes = files.indexes;
  const bool indexes_alone = described(with_their_indexes) == described(files);
  return indexes_alone ? "the files have other indexes for it" : "the files have other columns";
}

}  // namespace

/// What an opening would make of the files up to a record.
class storage::copy_to_compare {
 public:
  copy_to_compare(const options& o, folder& files, std::uint64_t until)
      : options_(o), engine_(options_) {
    engine_.read_only = true;
    folder_content has = files.look();
    // An older one, that could not be removed, must not stand in for the newest.
    if (!has.checkpoints.empty()) has.checkpoints = {has.checkpoints.back()};
    nan_rows nans;
    recovery made(engine_, files, options_, report_, until);
    end_ = made.run(has, nans);
    view_.reset(new reader(engine_, "verify"));
  }

  [[nodiscard]] const engine& made() const noexcept { return engine_; }
  [[nodiscard]] const reader& view() const noexcept { return *view_; }
  [[nodiscard]] const recovery_report& report() const noexcept { return report_; }
  [[nodiscard]] std::uint64_t sequence() const noexcept { return end_.sequence; }

 private:
  const options options_;
  recovery_report report_;
  engine engine_;
  log_end end_;
  std::unique_ptr<reader> view_;
};

class storage::comparison {
 public:
  comparison(const checkpoint_source& memory, const copy_to_compare& files,
             const verify_options& how, verify_report& to) noexcept
      : memory_(memory), view_(*memory.view), files_(files), how_(how), report_(to) {}

  void run() {
    look_at_end();
    const auto& theirs = files_.made().tables.by_number();
    std::unordered_set<std::uint32_t> known;
    for (const frozen_table& t : memory_.tables) {
      known.insert(t.of->number_);
      ++report_.tables;
      const auto found = theirs.find(t.of->number_);
      if (found == theirs.end()) {
        show_table(t.spec.name, "the files lack it");
        continue;
      }
      compare(t, *found->second);
    }
    for (const auto& [number, t] : theirs) {
      if (!known.contains(number)) show_table(t->name(), "memory lacks it");
    }
  }

 private:
  using kind = verify_difference::kind;

  void show(kind what, const std::string& table, const std::string& key,
            const std::string& details) {
    report_.shown.push_back({.what = what, .table = table, .key = key, .details = details});
  }
  [[nodiscard]] bool room() const noexcept { return report_.shown.size() < how_.most_shown; }
  void show_table(const std::string& name, const std::string& details) {
    ++report_.different_tables;
    if (room()) show(kind::table, name, {}, details);
  }

  void look_at_end() {
    report_.sequence = memory_.end.sequence;
    report_.found_sequence = files_.sequence();
    if (report_.sequence == report_.found_sequence || !room()) return;
    const recovery_report& found = files_.report();
    std::string where;
    if (!found.cut_file.empty()) {
      where = ": " + found.cut_file.string() + " ends at byte " + std::to_string(found.cut_offset);
      if (!found.cut_why.empty()) where += " (" + found.cut_why + ")";
    }
    show(kind::end_of_log, {}, {},
         "the files lead to change " + std::to_string(report_.found_sequence) +
             ", and all up to change " + std::to_string(report_.sequence) + " was durable" + where);
  }

  void compare(const frozen_table& mine, const table& theirs) {
    if (const table_spec spec = theirs.spec(); described(mine.spec) != described(spec)) {
      show_table(mine.spec.name, description_differs(mine.spec, spec));
      if (mine.of->form().tag() != theirs.form().tag()) return;  // its rows are others
    }
    const table& ours = *mine.of;
    const std::uint64_t rows = compare_rows(ours, theirs);
    files_.view().scan_table(theirs, [&](const row& r) {
      const std::vector<value> key = key_of(theirs, r);
      if (has(view_, ours, key)) return true;
      ++report_.rows_only_in_files;
      if (room()) show(kind::row_only_in_files, ours.name(), key_in_words(key), "memory lacks it");
      return true;
    });
    report_.rows += rows;
    if (!how_.indexes) return;
    for (std::size_t i = 0; i < mine.indexes.size(); ++i) {
      compare_index(ours, *mine.indexes[i], mine.spec.indexes[i], rows);
    }
  }

  std::uint64_t compare_rows(const table& ours, const table& theirs) {
    std::uint64_t rows = 0;
    view_.scan_table(ours, [&](const row& r) {
      ++rows;
      const std::vector<value> key = key_of(ours, r);
      const result<row> found = files_.view().find(theirs, values(key));
      if (!found) {
        ++report_.rows_only_in_memory;
        if (room())
          show(kind::row_only_in_memory, ours.name(), key_in_words(key), "the files lack it");
      } else if (!same(ours, r, *found)) {
        ++report_.different_rows;
        if (room()) show(kind::row, ours.name(), key_in_words(key), difference_of(ours, r, *found));
      }
      return true;
    });
    return rows;
  }

  static std::vector<value> key_of(const table& t, const row& r) {
    std::vector<value> key;
    for (const std::uint32_t c : t.form().key()) key.push_back(r.get(t.form().columns()[c]));
    return key;
  }
  static std::string key_in_words(const std::vector<value>& key) {
    std::string all;
    for (const value& v : key) {
      if (!all.empty()) all += ", ";
      all += value_in_words(v);
    }
    return all;
  }
  /// Throws no_result if the snapshot was ended.
  static bool has(const reader& at, const table& t, const std::vector<value>& key) {
    const result<row> found = at.find(t, values(key));
    if (!found && found.code() != outcome::not_found) throw no_result(found.why());
    return bool(found);
  }

  static bool same(const schema& s, std::uint32_t column, const row& a, const row& b) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << column;
    if (((a.shape_ ^ b.shape_) & bit) != 0) return false;
    if ((a.shape_ & bit) != 0) return true;  // both are null
    const column_span span = s.span_of(column);
    const std::uint64_t* const mine = a.words_ + span.first;
    const std::uint64_t* const theirs = b.words_ + span.first;
    if ((s.apart() & bit) != 0) return apart_in(mine) == apart_in(theirs);
    return std::equal(mine, mine + span.words, theirs);
  }
  static bool same(const table& t, const row& a, const row& b) noexcept {
    const schema& s = t.form();
    for (const column_layout& c : s.columns()) {
      if (!same(s, c.number, a, b)) return false;
    }
    return true;
  }
  /// Of the first column that differs, and how many more do.
  static std::string difference_of(const table& t, const row& mine, const row& theirs) {
    std::string first;
    std::uint64_t more = 0;
    for (const column_layout& c : t.form().columns()) {
      if (same(t.form(), c.number, mine, theirs)) continue;
      if (!first.empty()) {
        ++more;
        continue;
      }
      first = "column " + c.name + " is " + value_in_words(mine.get(c)) + " in memory and " +
              value_in_words(theirs.get(c)) + " in the files";
    }
    return more == 0 ? first : first + "; " + so_many(more, "more column");
  }

  void compare_index(const table& t, const secondary& i, const index_spec& spec,
                     std::uint64_t rows) {
    if (!i.when_.begun(view_.timestamp())) return;  // not for this snapshot yet
    const std::uint64_t found =
        spec.kind == index_kind::hash ? rows_of_keys(t, i, spec) : all_of(i);
    if (found == rows) return;
    ++report_.different_indexes;
    if (!room()) return;
    show(kind::index, t.name(), {},
         "index " + spec.name + " of memory leads to " + so_many(found, "row") +
             ", and the table has " + std::to_string(rows));
  }
  std::uint64_t all_of(const secondary& i) const {
    std::uint64_t found = 0;
    view_.scan(i, {}, {}, [&](const row&) { ++found; });
    return found;
  }
  /// A hash index is asked for each key that a row has, once.
  std::uint64_t rows_of_keys(const table& t, const secondary& i, const index_spec& spec) const {
    std::unordered_set<std::string> known;
    std::vector<value> key(spec.columns.size());
    std::uint64_t found = 0;
    view_.scan_table(t, [&](const row& r) {
      for (std::size_t n = 0; n < key.size(); ++n) key[n] = r.get(t.form().column(spec.columns[n]));
      if (!spec.unique && !known.insert(bytes_of(key)).second) return true;
      view_.scan(i, values(key), values(key), [&](const row&) { ++found; });
      return true;
    });
    return found;
  }

  const checkpoint_source& memory_;
  const reader& view_;
  const copy_to_compare& files_;
  const verify_options& how_;
  verify_report& report_;
};

verify_report storage::verify(const verify_options& how) {
  const auto start = std::chrono::steady_clock::now();
  if (log_ == nullptr && !options_.read_only) {
    throw std::invalid_argument(
        "spolia::db: verify() compares memory with the files, and with durability_level::none "
        "these have what the last checkpoint() has written alone");
  }
  verify_report report;
  std::unique_ptr<reader> view;
  checkpoint_source memory;
  std::unique_ptr<folder> files = freeze_files(memory, view);
  view->be_limited(how.deadline);
  memory.view = view.get();
  report.timestamp = view->timestamp();
  const copy_to_compare copy(for_copy(engine_.settings, how), *files, memory.end.sequence);
  files.reset();
  comparison(memory, copy, how, report).run();
  report.took = std::chrono::steady_clock::now() - start;
  return report;
}

std::string verify_report::text() const {
  std::string s = "up to change " + std::to_string(sequence) + ": " + so_many(tables, "table") +
                  ", " + so_many(rows, "row");
  if (equal()) return s + ": memory and the files are equal\n";
  s += ": " + so_many(differences(), "difference") + "\n";
  for (const verify_difference& d : shown) {
    s += "  ";
    if (!d.table.empty()) s += "table " + d.table;
    if (!d.key.empty()) s += ", row " + d.key;
    if (!d.table.empty()) s += ": ";
    s += d.details + "\n";
  }
  if (differences() > shown.size()) {
    s += "  and " + std::to_string(differences() - shown.size()) + " more\n";
  }
  return s;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

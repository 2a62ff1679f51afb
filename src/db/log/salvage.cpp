// SPDX-License-Identifier: Apache-2.0
// salvage.cpp: a new database out of what is whole of a damaged one.
#include "db/log/salvage.hpp"
#include "db/log/salvage_numbers.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include <spolia/base/unwind.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Calls f(table, change, row) for each change of a record, up to where it makes no sense.
template <class F>
void each_change(bytes_view body, F&& f) {
  try {
    decoder from(body);
    while (!from.done()) {
      change_header c = salvaged_tables::next_change(from);
      f(c, from.bytes(c.length));
    }
  } catch (const malformed&) {
    return;
  }
}

/// Goes through a history once, and puts what it has into the tables.
class salvaging {
 public:
  salvaging(const salvage_history& from, salvaged_tables& to, const recovery_listener& tell,
            salvage_report& report)
      : from_(from), to_(to), tell_(tell), report_(report) {}

  void run() {
    const auto& pieces = from_.pieces();
    for (const log_piece& p : pieces) total_ += p.weight;
    if (pieces.empty()) return;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].checkpoint) {
        use_checkpoint(pieces[i], i == 0);
      } else {
        replay(i);
      }
      progress(pieces[i].weight);
    }
    // What is missing at the end is not between two pieces.
    for (const missing_records& m : report_.missing) {
      if (m.first > at_) to_.hole(m);
    }
    report_.sequence = at_;
  }

 private:
  void progress(std::uint64_t more) {
    done_ += more;
    if (tell_) tell_({"rows", std::min(done_, total_), total_, at_});
  }

  /// The records between what was used and this one are missing.
  void miss(std::uint64_t next, bool no_table_lost) {
    if (next <= at_ + 1) return;
    if (begun_) {
      to_.hole({at_ + 1, next - 1});
    } else {
      to_.begin_incomplete();
    }
    if (!no_table_lost) hidden_ += next - 1 - at_;
  }

  void use_checkpoint(const log_piece& p, bool first);
  void define_tables(salvaged_checkpoint& c, const std::filesystem::path& path);
  void put_blocks(salvaged_checkpoint& c, const std::filesystem::path& path);
  void replay(std::size_t piece);
  std::string apply(std::size_t piece, std::uint64_t at, record_kind kind, bytes_view body);
  void make_table(std::size_t piece, std::uint64_t at, bytes_view body);
  std::pair<std::uint32_t, bool> number_of_next(std::size_t piece, std::uint64_t at);
  void look_ahead(table_numbers& to, std::size_t piece, std::uint64_t at);
  template <class F>
  void each_record(std::size_t piece, std::uint64_t from, F&& f) const;

  const salvage_history& from_;
  salvaged_tables& to_;
  const recovery_listener& tell_;
  salvage_report& report_;
  std::uint64_t at_ = 0;      // the last record that is in
  bool begun_ = false;        // something is in
  std::uint64_t hidden_ = 0;  // records that are missing since, each of which may have made a table
  bool unsure_ = false;       // of the number of the last new table
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

/// f(where, header, body) for each record of a piece from some place on; false: no more.
template <class F>
void salvaging::each_record(std::size_t piece, std::uint64_t from, F&& f) const {
  const log_piece& p = from_.pieces()[piece];
  if (!p.has_records()) return;
  const byte_block all = from_.read(p);
  for (std::uint64_t at = from; at < p.end;) {
    const bytes_view rest = bytes_view(all).subspan(static_cast<std::size_t>(at));
    record_header h;
    // Another process that has no lock, or a disk that forgets: what was whole is not any more.
    if (const char* const why = read_record(rest, h)) {
      throw storage_error(from_.path_of(p), at, std::string(why) + ", and was whole before");
    }
    if (!f(at, h, rest.subspan(record_header::bytes, h.length))) return;
    at += record_header::bytes + h.length;
  }
}

void salvaging::use_checkpoint(const log_piece& p, bool first) {
  salvaged_checkpoint& c = *from_.checkpoint_of(p);
  if (!first && to_.sound() && at_ >= p.last) {
    report_.notes.push_back(c.name() +
                            " is damaged and was not needed: an older one, and the log "
                            "since, have all that it had");
    return;
  }
  if (!first && begun_) to_.hole({at_ + 1, p.last});
  if (!c.whole()) {
    to_.begin_incomplete();
    const auto missing = c.missing_rows();
    report_.lost_rows += missing.value_or(0);
    report_.more_rows_lost = report_.more_rows_lost || !missing;
  }
  define_tables(c, from_.path_of(p));
  put_blocks(c, from_.path_of(p));
  const bool numbered = c.header().has_value();
  if (numbered) to_.number_up_to(std::min(c.header()->tables, most_tables));
  hidden_ = numbered ? 0 : most_tables;
  unsure_ = unsure_ && !numbered;
  at_ = p.last;
  begun_ = true;
  report_.checkpoint_sequence = p.last;
}

void salvaging::define_tables(salvaged_checkpoint& c, const std::filesystem::path& path) {
  for (const whole_block& b : c.blocks()) {
    if (b.kind != block_kind::table) continue;
    const byte_block bytes = c.read(b);
    try {
      to_.begin_table(b.table, read_table(bytes_view(bytes).subspan(block_header::bytes)),
                      c.may_miss_rows(b.table));
    } catch (const malformed& e) {
      report_.damage.push_back(
          {.file = path, .offset = b.begin, .bytes = b.end - b.begin, .what = e.what()});
      report_.more_rows_lost = true;
    }
  }
}

void salvaging::put_blocks(salvaged_checkpoint& c, const std::filesystem::path& path) {
  for (const whole_block& b : c.blocks()) {
    if (b.kind != block_kind::rows) continue;
    const byte_block bytes = c.read(b);
    const std::string wrong =
        to_.put_rows(b.table, bytes_view(bytes).subspan(block_header::bytes), b.rows);
    if (!wrong.empty()) {
      report_.damage.push_back(
          {.file = path, .offset = b.begin, .bytes = b.end - b.begin, .what = wrong});
      report_.more_rows_lost = true;
    }
    if (tell_) tell_({"rows", done_ + b.end, total_, at_});
  }
}

void salvaging::replay(std::size_t piece) {
  const log_piece& p = from_.pieces()[piece];
  miss(p.first, p.no_table_lost);
  if (p.has_records()) begun_ = true;
  at_ = p.first - 1;
  each_record(piece, p.records_at, [&](std::uint64_t at, const record_header& h, bytes_view body) {
    const std::string wrong = apply(piece, at, h.kind, body);
    at_ = h.sequence;
    ++report_.records;
    if (!wrong.empty()) {
      const missing_records part{h.sequence, h.sequence};
      report_.damage.push_back({.file = from_.path_of(p),
                                .offset = at,
                                .bytes = record_header::bytes + body.size(),
                                .what = wrong,
                                .missing = part});
      report_.missing.push_back(part);
      to_.hole(part);
    }
    if (tell_) tell_({"rows", done_ + (at - p.begin), total_, at_});
    return true;
  });
}

/// What is wrong with it, or nothing.
std::string salvaging::apply(std::size_t piece, std::uint64_t at, record_kind kind,
                             bytes_view body) {
  decoder from(body);
  try {
    switch (kind) {
      case record_kind::transaction:
        return to_.apply(body);
      case record_kind::create_table:
        make_table(piece, at, body);
        return {};
      case record_kind::cut:
        return {};
      case record_kind::drop_table:
        to_.drop_table(from.number<std::uint32_t>());
        break;
      case record_kind::create_index: {
        const auto number = from.number<std::uint32_t>();
        to_.create_index(number, read_index(from));
        break;
      }
      case record_kind::drop_index: {
        const auto number = from.number<std::uint32_t>();
        to_.drop_index(number, from.text());
        break;
      }
      case record_kind::rename_table: {
        const auto number = from.number<std::uint32_t>();
        to_.rename_table(number, from.text());
        break;
      }
    }
    return from.done() ? "" : "something follows a change of the catalogue";
  } catch (const malformed& e) {
    return e.what();
  }
}

void salvaging::make_table(std::size_t piece, std::uint64_t at, bytes_view body) {
  const auto [number, doubtful] = number_of_next(piece, at);
  to_.number_up_to(number);
  hidden_ = 0;
  unsure_ = unsure_ || doubtful;
  to_.create_table(number, read_table(body), unsure_);
}

/// True: more than one number would do.
std::pair<std::uint32_t, bool> salvaging::number_of_next(std::size_t piece, std::uint64_t at) {
  // Those that were made after one that is not certain are numbered after it.
  if (hidden_ == 0) return {to_.numbers(), unsure_};
  table_numbers numbers(to_.numbers(), to_.named());
  numbers.hole(at_, hidden_);
  look_ahead(numbers, piece, at);
  return numbers.first();
}

void salvaging::look_ahead(table_numbers& to, std::size_t piece, std::uint64_t at) {
  const auto& pieces = from_.pieces();
  for (std::size_t i = piece; i < pieces.size() && !pieces[i].checkpoint; ++i) {
    const std::uint64_t before = i == piece ? 0 : pieces[i - 1].last;
    const bool hole = i != piece && pieces[i].first != before + 1;
    if (hole && !pieces[i].no_table_lost) to.hole(before, pieces[i].first - 1 - before);
    const std::uint64_t begin = i == piece ? at : pieces[i].records_at;
    each_record(i, begin, [&](std::uint64_t, const record_header& h, bytes_view body) {
      try {
        if (h.kind == record_kind::create_table) {
          to.made(h.sequence, read_table(body));
        } else if (h.kind != record_kind::transaction && h.kind != record_kind::cut) {
          to.catalog_change(h.sequence, decoder(body).number<std::uint32_t>());
        }
      } catch (const std::exception&) {
        return true;  // said when it is applied
      }
      if (h.kind != record_kind::transaction) return true;
      each_change(body,
                  [&](const change_header& c, bytes_view row) { to.change(h.sequence, c, row); });
      return true;
    });
  }
  for (const missing_records& m : report_.missing) {
    if (m.first <= pieces.back().last) continue;
    const std::uint64_t more = m.last == 0 ? most_tables : m.last - m.first + 1;
    to.hole(m.first - 1, std::min<std::uint64_t>(more, most_tables));
  }
}

/// Files of a database in a directory that had none.
void remove_new(storage_directory& in) noexcept {
  try {
    for (const std::string& name : in.list()) {
      const bool ours = name == folder::identity_name || name.ends_with(".spl") ||
                        name.ends_with(".spl.tmp") || name.starts_with("in-part-table-");
      if (ours) in.remove(name);
    }
    in.remove_made();
  } catch (const std::exception&) {
    return;  // the error that led here says more
  }
}

/// What is written into the new directory goes again unless it is finished.
class new_directory {
 public:
  new_directory(storage_files& files, const std::filesystem::path& path)
      : at_(files.open_directory(path, directory_mode::made)) {
    if (!at_->list().empty()) {
      throw storage_error(at_->path(), storage_error::nowhere,
                          "a new database goes into a new directory, or an empty one, and this has "
                          "something in it");
    }
  }
  ~new_directory() {
    if (!finished_) remove_new(*at_);
  }
  new_directory(const new_directory&) = delete;
  new_directory& operator=(const new_directory&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& text) {
    const auto file = at_->open(name, file_mode::fresh);
    file->write(0, std::as_bytes(std::span(text)));
    file->sync();
    return at_->path() / name;
  }
  void finish() {
    at_->sync();
    finished_ = true;
  }

 private:
  std::unique_ptr<storage_directory> at_;
  bool finished_ = false;
};

/// All of it, and the indexes. Afterwards the database is as it will be.
void fill(const salvage_history& from, database& to, const salvage_options& o,
          salvage_report& report, const salvaged_tables::line_writer& write) {
  salvaged_tables found(to);
  salvaging(from, found, o.on_progress, report).run();
  found.make_indexes(o.on_progress);
  found.report(report, write);
}

}  // namespace

bool salvage_report::complete() const noexcept {
  const auto whole = [](const salvaged_table& t) {
    return t.older.empty() && t.in_part == 0 && !t.incomplete && !t.doubtful &&
           t.former_name.empty() && t.not_unique.empty() && t.lost_indexes.empty();
  };
  return missing.empty() && lost_tables.empty() && lost_rows == 0 && !more_rows_lost &&
         unused_records == 0 && std::all_of(tables.begin(), tables.end(), whole);
}

salvage_report salvage(const std::filesystem::path& from, const std::filesystem::path& to,
                       const salvage_options& o) {
  const uncancelled whole;
  const std::shared_ptr<storage_files> files =
      o.store.files != nullptr ? o.store.files : real_files();
  folder old(*files, from, {.without_lock = o.store.allow_without_lock, .damaged = true});
  if (!old.known() && !old.has(folder::identity_name) && !old.look().has_data()) {
    throw storage_error(old.path(), storage_error::nowhere,
                        "there is no database: it has none of its files");
  }
  salvage_report report;
  const salvage_history history(old, o.on_progress, report);
  options how = o.store;
  how.durability = durability_level::none;
  how.read_only = how.publish_status = false;
  how.on_recovery = {};
  if (o.dry_run) {
    database base = database::open(how);
    fill(history, base, o, report,
         [](const auto&, const auto&) { return std::filesystem::path(); });
    return report;
  }
  new_directory made(*files, to);
  {
    database base = database::open(to, how);
    fill(history, base, o, report, [&](const std::string& name, const std::string& lines) {
      return made.write(name, lines);
    });
    if (o.on_progress) o.on_progress({"write", 0, 0, report.sequence});
    base.checkpoint(checkpoint_pace::full);
  }
  made.finish();
  return report;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

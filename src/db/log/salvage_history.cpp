// SPDX-License-Identifier: Apache-2.0
// salvage_history.cpp: which parts of damaged files make one history, and what is wrong with the
// others.
#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "db/log/salvage.hpp"
#include "db/log/salvage_scan.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr const char* other_database = "it belongs to another database; nothing of it is used";

/// The report names the file.
std::string what_is_wrong(const storage_error& e) {
  return e.problem() + (e.reason() ? ": " + e.reason().message() : "");
}

/// Whether y may come right after x.
bool pieces_fit(const log_piece& x, const log_piece& y) noexcept {
  if (y.first <= x.last) return false;
  if (x.file == y.file && (x.end > y.begin || x.epoch != y.epoch)) return false;
  if (!x.linked || !y.linked) return true;
  return y.epoch >= x.epoch && (y.first != x.last + 1 || y.chain == x.crc);
}

}  // namespace

salvage_history::salvage_history(folder& in, const recovery_listener& tell, salvage_report& report)
    : folder_(in), tell_(tell), report_(report), has_(in.look()) {
  find_id();
  for (const std::uint64_t s : has_.checkpoints) look_at_checkpoint(s);
  for (const std::uint64_t s : has_.segments) look_at_segment(s);
  choose();
  count_unused();
  find_proof();
  if (!folder_.known() || id_ != folder_.id()) {
    note(folder_.path_of(folder::identity_name), {storage_error::nowhere, 0},
         folder_.newer()
             ? "it says a format that is newer than those of all other files: it is taken "
               "for damaged"
             : "the file that says which database it is is missing or damaged: the "
               "headers of the other files say it");
  }
  for (std::size_t f = 0; f < files_.size(); ++f) {
    files_[f].kind == file_kind::checkpoint ? report_checkpoint(f) : report_segment(f);
  }
  report_missing();
}

/// That of SPOLIA, or else the one that most files have: if none has that of SPOLIA, it is SPOLIA
/// that is damaged. Files of unknown formats are refused here, before any file is read wholly; and
/// a SPOLIA of a newer one, if no other file has a header that says what it is.
void salvage_history::find_id() {
  std::map<database_id, std::size_t> ids;
  const auto look = [&](file_kind kind, std::uint64_t named) {
    const std::string name = file_name(kind, named);
    std::array<std::byte, file_header::bytes> bytes{};
    std::size_t got = 0;
    try {
      const auto from = folder_.open(name, file_mode::read);
      total_ += from->size();
      got = from->read(0, bytes);
    } catch (const storage_error&) {
      return;  // said where it is read
    }
    file_header h;
    if (read_header(kind, bytes_view(bytes).first(got), h) == nullptr) {
      ++ids[h.id];
    } else {
      std::array<std::byte, file_header::bytes> mended{};
      const bool proven = mend_header(kind, bytes_view(bytes).first(got), 0, mended);
      if (proven && read_header(kind, mended, h) != nullptr) {
        throw unknown_format(folder_.path_of(name), h.format);
      }
    }
  };
  for (const std::uint64_t s : has_.checkpoints) look(file_kind::checkpoint, s);
  for (const std::uint64_t s : has_.segments) look(file_kind::log, s);
  if (folder_.newer() && ids.empty()) throw unknown_format(*folder_.newer());
  if (folder_.known() && (ids.empty() || ids.contains(folder_.id()))) {
    id_ = folder_.id();
  } else if (!ids.empty()) {
    const auto less = [](const auto& x, const auto& y) { return x.second < y.second; };
    id_ = std::max_element(ids.begin(), ids.end(), less)->first;
  }
}

void salvage_history::progress(std::uint64_t more) {
  done_ += more;
  if (tell_) tell_({"scan", std::min(done_, total_), total_, 0});
}

void salvage_history::look_at_checkpoint(std::uint64_t named) {
  files_.push_back({.kind = file_kind::checkpoint,
                    .name = file_name(file_kind::checkpoint, named),
                    .named = named});
  file& of = files_.back();
  try {
    of.checkpoint = std::make_unique<salvaged_checkpoint>(
        folder_, named, [&](std::uint64_t more) { progress(more); });
  } catch (const unknown_format&) {
    throw;
  } catch (const storage_error& e) {
    if (means_denied(e)) throw;
    of.wrong = what_is_wrong(e);
    return;
  }
  const salvaged_checkpoint& c = *of.checkpoint;
  of.size = c.size();
  of.wrong_header = c.wrong_header();
  of.unreadable = c.unreadable();
  if (c.header() && c.header()->id != id_) {
    of.wrong = other_database;
  } else if (c.blocks().empty()) {
    of.wrong = "no block of it is whole";
  } else {
    const file_header h = c.header().value_or(file_header{});
    pieces_.push_back({.first = c.sequence() + 1,
                       .last = c.sequence(),
                       .chain = h.chain,
                       .crc = h.chain,
                       .epoch = h.epoch,
                       .linked = c.header().has_value(),
                       .checkpoint = true,
                       .file = files_.size() - 1,
                       .end = of.size,
                       .weight = c.bytes_in_blocks()});
  }
}

void salvage_history::look_at_segment(std::uint64_t named) {
  files_.push_back(
      {.kind = file_kind::log, .name = file_name(file_kind::log, named), .named = named});
  const std::size_t number = files_.size() - 1;
  file& of = files_.back();
  try {
    const auto from = folder_.open(of.name, file_mode::read);
    of.size = from->size();
    byte_block all(static_cast<std::size_t>(of.size));
    of.size = read_what_can_be(*from, 0, all, of.unreadable);
    const bytes_view view = bytes_view(all).first(static_cast<std::size_t>(of.size));
    file_header h;
    of.wrong_header = read_header(file_kind::log, view, h);
    std::array<std::byte, file_header::bytes> mended{};
    const bool known = of.wrong_header == nullptr || mend_header(file_kind::log, view, 0, mended);
    if (of.wrong_header != nullptr && known) read_header(file_kind::log, mended, h);
    if (known && h.id != id_) {
      of.wrong = other_database;
    } else {
      const std::size_t before = pieces_.size();
      segment_scan(view, known ? &h : nullptr, number, pieces_).run();
      // Of two that are the same, the one that has the right name.
      if (known && h.sequence == named) ++pieces_[before].weight;
    }
  } catch (const storage_error& e) {
    if (means_denied(e)) throw;
    of.wrong = what_is_wrong(e);
  }
  progress(of.size);
}

byte_block salvage_history::read(const log_piece& p) const {
  const file& of = files_[p.file];
  std::vector<extent> unreadable;
  byte_block all(static_cast<std::size_t>(of.size));
  const std::size_t got =
      read_what_can_be(*folder_.open(of.name, file_mode::read), 0, all, unreadable);
  std::fill(all.begin() + got, all.end(), std::byte{0});
  return all;
}

void salvage_history::choose() {
  std::sort(pieces_.begin(), pieces_.end(), [](const log_piece& x, const log_piece& y) {
    return std::tie(x.first, x.last, x.file, x.begin) < std::tie(y.first, y.last, y.file, y.begin);
  });
  is_used_.assign(pieces_.size(), false);
  const auto chain = heaviest_chain(
      pieces_.size(), [&](std::size_t i) { return pieces_[i].weight; },
      [&](std::size_t x, std::size_t y) { return pieces_fit(pieces_[x], pieces_[y]); });
  // All before the last checkpoint that is whole is in it.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const log_piece& p = pieces_[chain[i]];
    if (p.checkpoint && checkpoint_of(p)->whole()) begin = i;
  }
  for (const std::size_t i : std::span(chain).subspan(begin)) {
    is_used_[i] = true;
    used_.push_back(pieces_[i]);
  }
}

void salvage_history::count_unused() {
  const std::uint64_t begun = used_.empty() ? 0 : used_.front().first - 1;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const log_piece& p = pieces_[i];
    if (is_used_[i] || !p.has_records() || p.last <= begun) continue;
    const bool twice = std::any_of(used_.begin(), used_.end(), [&](const log_piece& u) {
      return u.first == p.first && u.last == p.last && u.crc == p.crc;
    });
    if (!twice) report_.unused_records += p.records();
  }
}

/// A checkpoint gets its name when it is whole and durable. So one of which nothing can be used
/// proves yet how far the log had come.
void salvage_history::find_proof() {
  proven_ = end_of_used();
  proof_ = files_.size();
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const file& of = files_[f];
    if (of.kind != file_kind::checkpoint || of.wrong == other_database) continue;
    const std::uint64_t says = of.checkpoint != nullptr ? of.checkpoint->sequence() : of.named;
    if (says <= proven_) continue;
    proven_ = says;
    proof_ = f;
  }
}

/// All that the file has, or had, is in the checkpoint that is begun with.
bool salvage_history::superseded(std::size_t number) const {
  if (used_.empty() || !used_.front().checkpoint) return false;
  const std::uint64_t begun = used_.front().last;
  if (files_[number].checkpoint != nullptr) return files_[number].checkpoint->sequence() < begun;
  bool any = false;
  for (const log_piece& p : pieces_) {
    if (p.file != number) continue;
    any = true;
    if (p.last > begun) return false;
  }
  const auto next =
      std::upper_bound(has_.segments.begin(), has_.segments.end(), files_[number].named);
  const bool followed = next != has_.segments.end() && *next <= begun + 1;
  return followed || (any && files_[number].named <= begun && files_[number].wrong.empty() &&
                      next == has_.segments.end());
}

void salvage_history::note(std::filesystem::path path, extent where, std::string what,
                           missing_records missing) {
  report_.damage.push_back(
      {.file = std::move(path),
       .offset = where.begin,
       .bytes = where.begin == storage_error::nowhere ? 0 : where.end - where.begin,
       .what = std::move(what),
       .missing = missing});
}

/// Between this piece and the one before it.
missing_records salvage_history::missing_before(std::size_t used) const {
  const log_piece& p = used_[used];
  if (p.checkpoint) return {};  // it has what they made
  const std::uint64_t last = used == 0 ? 0 : used_[used - 1].last;
  return p.first > last + 1 ? missing_records{last + 1, p.first - 1} : missing_records{};
}

std::string salvage_history::what_is_at(const file& of, extent where) const {
  for (const extent& e : of.unreadable) {
    if (e.begin < where.end && where.begin < e.end) return "the disk does not give these bytes";
  }
  if (where.begin < file_header::bytes && of.wrong_header != nullptr) return of.wrong_header;
  std::vector<extent> none;
  byte_block bytes(static_cast<std::size_t>(where.end - where.begin));
  read_what_can_be(*folder_.open(of.name, file_mode::read), where.begin, bytes, none);
  if (only_zeros(bytes)) return "zeros";
  if (of.checkpoint != nullptr) return "no whole block";
  record_header h;
  const char* const why = read_record(bytes, h);
  return why != nullptr ? why : "a record does not follow the one before it";
}

void salvage_history::report_tail(const file& of, std::size_t last) {
  const log_piece& p = used_[last];
  const bool more = last + 1 < used_.size();
  const extent where{p.end, of.size};
  const missing_records next = more ? missing_before(last + 1) : missing_records{};
  const std::string what = where.begin < where.end ? what_is_at(of, where) : "zeros";
  const auto path = folder_.path_of(of.name);
  if (what != "zeros") {
    note(path, where, what, more ? next : missing_records{p.last + 1, 0});
  } else if (next.first != 0 && used_[last + 1].file != p.file && of.named < next.last) {
    note(path, where, "the segment ends here: it was cut off, or a file after it is missing", next);
  }
}

void salvage_history::report_segment(std::size_t number) {
  const file& of = files_[number];
  if (superseded(number)) return;
  const auto path = folder_.path_of(of.name);
  std::uint64_t at = 0;
  std::size_t last = used_.size();
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const log_piece& p = used_[i];
    if (p.file != number) continue;
    if (p.begin > at) note(path, {at, p.begin}, what_is_at(of, {at, p.begin}), missing_before(i));
    if (p.begin == 0 && p.records_at != 0 && of.wrong_header != nullptr) {
      note(path, {0, file_header::bytes}, what_is_at(of, {0, file_header::bytes}));
    }
    at = p.end;
    last = i;
  }
  if (last != used_.size()) return report_tail(of, last);
  missing_records missing;
  if (of.named > proven_) {
    missing = {proven_ + 1, 0};
  } else if (of.named > end_of_used()) {
    missing = {end_of_used() + 1, proven_};
  }
  const bool has_records = std::any_of(pieces_.begin(), pieces_.end(), [&](const log_piece& p) {
    return p.file == number && p.has_records();
  });
  if (!of.wrong.empty()) {
    note(path, {storage_error::nowhere, 0}, of.wrong, missing);
  } else if (has_records) {
    note(path, {storage_error::nowhere, 0},
         "it does not follow what is before it: it is there twice, or of another history of the "
         "database, as after a backup was restored; nothing of it is used");
  } else if (of.wrong_header != nullptr) {
    note(path, {0, of.size},
         what_is_at(of, {0, file_header::bytes}) + ", and it has no whole record", missing);
  } else {
    note(path, {0, of.size}, "its header does not follow what is before it, and it has no record");
  }
}

void salvage_history::report_checkpoint(std::size_t number) {
  const file& of = files_[number];
  const auto path = folder_.path_of(of.name);
  const missing_records missing =
      number == proof_ ? missing_records{end_of_used() + 1, proven_} : missing_records{};
  if (of.checkpoint == nullptr || !of.wrong.empty()) {
    return note(path, {storage_error::nowhere, 0}, of.wrong, missing);
  }
  const salvaged_checkpoint& c = *of.checkpoint;
  const bool used = std::any_of(used_.begin(), used_.end(), [&](const log_piece& p) {
    return p.file == number && p.checkpoint;
  });
  if (c.whole() && (used || superseded(number))) return;
  if (!used) {
    note(path, {storage_error::nowhere, 0},
         superseded(number) ? "it is damaged; a later one is whole"
                            : "it does not match the log; nothing of it is used",
         missing);
    return;
  }
  if (of.wrong_header != nullptr) {
    note(path, {0, std::min<std::uint64_t>(file_header::bytes, of.size)}, of.wrong_header);
  }
  for (const salvaged_checkpoint::gap& g : c.gaps()) {
    note(path, g.where, what_is_at(of, g.where));
  }
  if (c.gaps().empty() && of.wrong_header == nullptr) {
    note(path, {storage_error::nowhere, 0}, "its blocks do not fit to each other");
  }
}

/// A range of records that no file has. If no damage is its place, a file is that is not there.
void salvage_history::add_missing(missing_records what, const char* why) {
  if (what.first == 0) return;
  report_.missing.push_back(what);
  const bool placed =
      std::any_of(report_.damage.begin(), report_.damage.end(),
                  [&](const damaged_place& d) { return d.missing.first == what.first; });
  if (placed) return;
  note(folder_.path_of(file_name(file_kind::log, what.first)), {storage_error::nowhere, 0}, why,
       what);
}

void salvage_history::report_missing() {
  for (std::size_t i = 0; i < used_.size(); ++i) {
    add_missing(missing_before(i), i == 0 ? "the log up to there, and each checkpoint, are missing"
                                          : "this part of the log is missing");
  }
  report_end();
}

/// After all that is used. Of records behind the last that is proven, there may be none.
void salvage_history::report_end() {
  constexpr const char* part = "this part of the log is missing";
  const auto log_follows = [](const salvaged_checkpoint* c) {
    return c == nullptr || !c->header() || c->header()->log_follows;
  };
  const bool torn = std::any_of(
      report_.damage.begin(), report_.damage.end(),
      [](const damaged_place& d) { return d.missing.first != 0 && d.missing.last == 0; });
  if (proven_ > end_of_used()) add_missing({end_of_used() + 1, proven_}, part);
  if (torn) {
    add_missing({proven_ + 1, 0}, part);
  } else if (proof_ != files_.size()) {
    if (log_follows(files_[proof_].checkpoint.get())) add_missing({proven_ + 1, 0}, part);
  } else if (used_.empty()) {
    constexpr const char* were_some =
        "all data files are missing (log-*.spl and checkpoint-*.spl), and the file SPOLIA says "
        "that there were some";
    constexpr const char* maybe_some =
        "no data file is there (log-*.spl or checkpoint-*.spl), and the file SPOLIA does not say "
        "whether there ever was one";
    const char* const none = folder_.had_data() ? were_some : maybe_some;
    add_missing({1, 0}, has_.has_data() ? "nothing of the database is left" : none);
  } else if (used_.back().checkpoint && log_follows(checkpoint_of(used_.back()))) {
    add_missing({proven_ + 1, 0}, part);
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

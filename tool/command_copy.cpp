// SPDX-License-Identifier: Apache-2.0
// command_copy.cpp: `spolia backup` and `spolia restore`.
#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "progress.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

/// The system's files, to which nothing is written any more after SIGINT, SIGTERM or SIGHUP.
class stoppable_file final : public db::storage_file {
 public:
  explicit stoppable_file(std::unique_ptr<db::storage_file> of) : of_(std::move(of)) {}
  std::size_t read(std::uint64_t offset, std::span<std::byte> to) override {
    return of_->read(offset, to);
  }
  void write(std::uint64_t offset, std::span<const std::byte> from) override {
    if (interrupted_now()) throw interrupted();
    of_->write(offset, from);
  }
  void sync() override { of_->sync(); }
  void truncate(std::uint64_t size) override { of_->truncate(size); }
  std::uint64_t size() override { return of_->size(); }
  db::lock_result lock(bool exclusive) override { return of_->lock(exclusive); }
  db::file_identity identity() override { return of_->identity(); }

 private:
  std::unique_ptr<db::storage_file> of_;
};

class stoppable_directory final : public db::storage_directory {
 public:
  explicit stoppable_directory(std::unique_ptr<db::storage_directory> of)
      : storage_directory(of->path()), of_(std::move(of)) {}
  std::unique_ptr<db::storage_file> open(const std::string& name, db::file_mode how) override {
    return std::make_unique<stoppable_file>(of_->open(name, how));
  }
  std::vector<std::string> list() override { return of_->list(); }
  void rename(const std::string& from, const std::string& to) override { of_->rename(from, to); }
  void remove(const std::string& name) override { of_->remove(name); }
  std::optional<db::file_identity> identity(const std::string& name) override {
    return of_->identity(name);
  }
  bool sync() override { return of_->sync(); }
  bool sync_own_name() override { return of_->sync_own_name(); }

 private:
  const std::unique_ptr<db::storage_directory> of_;
};

class stoppable_files final : public db::storage_files {
 public:
  std::unique_ptr<db::storage_directory> open_directory(const std::filesystem::path& directory,
                                                        db::directory_mode how) override {
    return std::make_unique<stoppable_directory>(of_->open_directory(directory, how));
  }

 private:
  const std::shared_ptr<db::storage_files> of_ = db::real_files();
};

/// A torn end is no part of a copy. Where a program has the store open, it is a record that is just
/// being written.
void tell_torn_end(const db::database& base, const copy_request& r) {
  const db::recovery_report& found = base.recovered();
  if (found.cut_bytes == 0 || is_taken(r.from)) return;
  say(fmt::format("spolia: {}. The copy has all before it\n", torn_text(found, is_copy(r.from))));
}

db::database open_to_copy(const copy_request& r, const common& c) {
  db::options o = c.chosen.store;
  o.files = std::make_shared<stoppable_files>();
  db::database base = open_to_read(r.from, o, {c.show, c.nice});
  tell_torn_end(base, r);
  return base;
}

/// A whole copy in a folder that is made, read once more before it gets its name.
void copy_whole(const copy_request& r, const common& c) {
  new_folder folder(r.to);
  db::backup_report made;
  {
    db::database base = open_to_copy(r, c);
    made = base.backup(folder.place());
  }
  open_made(folder.place(), c.chosen.store, c.show);
  folder.finish();
  fmt::print("{}: {}B, up to change {}\n", printable(r.to.string()), short_count(made.bytes),
             made.sequence);
}

/// A whole copy on standard output.
void copy_out(const copy_request& r, const common& c) {
  if (::isatty(STDOUT_FILENO) == 1) throw usage_error("a copy is not for a terminal to show");
  db::database base = open_to_read(r.from, c.chosen.store, {c.show, c.nice});
  tell_torn_end(base, r);
  progress bar("backup", 0, c.show);
  file_sink out(standard_stream);
  std::uint64_t done = 0;
  base.backup([&](std::span<const std::byte> part) {
    out.write({reinterpret_cast<const char*>(part.data()), part.size()});
    bar.at(done += part.size());
  });
  out.finish();
}

/// What is wrong with the files that are made of a stream, and go again, is wrong with the stream,
/// of which so many bytes were read.
template <class F>
auto of_stream(F&& f, const std::uint64_t& read) {
  try {
    return f();
  } catch (const db::storage_error& e) {
    if (e.reason() || e.offset() == db::storage_error::nowhere) throw;
    if (says_nothing(e)) {
      throw could_not_look(fmt::format("standard input at {}: {}", e.offset(), e.problem()));
    }
    if (read == 0) {
      throw failure(
          "standard input is empty: it should have a copy, as spolia backup STORE - writes it");
    }
    const bool more = e.fault() == db::storage_fault::longer;
    throw failure(fmt::format("standard input at {}: {}", e.offset(),
                              more ? "there is more after the end of the copy" : e.problem()));
  }
}

/// A store of what copy_out() has written, from standard input; read once more before it gets its
/// name.
void copy_in(const copy_request& r, const common& c) {
  new_folder folder(r.to);
  std::uint64_t done = 0;
  {
    file_source from(standard_stream);
    progress bar("restore", from.size(), c.show);
    const auto read = [&](std::span<std::byte> to) {
      const std::size_t got = from.read(reinterpret_cast<char*>(to.data()), to.size());
      bar.at(done += got);
      return got;
    };
    of_stream([&] { db::database::restore(read, folder.place()); }, done);
  }
  const std::uint64_t last = of_stream(
      [&] { return open_made(folder.place(), c.chosen.store, c.show).recovered().sequence; }, done);
  folder.finish();
  fmt::print("{}: up to change {}\n", printable(r.to.string()), last);
}

/// A copy that was brought up to date, as a whole: what was there before may have rotted since.
void check_copy(const copy_request& r, const common& c) {
  try {
    open_made(r.to, c.chosen.store, c.show);
  } catch (const db::storage_error& e) {
    if (says_nothing(e)) throw;
    throw failure(plain(e) +
                  "; the copy is damaged, and its older part was before: make a new one, in "
                  "another folder");
  }
}

}  // namespace

void run_backup(const copy_request& r, const common& c) {
  if (r.to == standard_stream) {
    copy_out(r, c);
    return;
  }
  refuse_within(r.from, r.to);
  if (!is_store(r.to)) {
    copy_whole(r, c);
    return;
  }
  db::backup_report made;
  {
    db::database base = open_to_copy(r, c);
    made = base.backup(r.to);
  }
  check_copy(r, c);
  fmt::print("{}: {}B {}, up to change {}\n", printable(r.to.string()), short_count(made.bytes),
             made.incremental ? "more" : "anew", made.sequence);
}

void run_restore(const copy_request& r, const common& c) {
  if (r.from == standard_stream) {
    copy_in(r, c);
  } else {
    if (is_stream_of_backup(r.from)) {
      throw usage_error(fmt::format("{} is a copy as a stream; use: spolia restore - {} < {}",
                                    r.from.string(), r.to.string(), r.from.string()));
    }
    refuse_within(r.from, r.to);
    copy_whole(r, c);
  }
}

}  // namespace tool

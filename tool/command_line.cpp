// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "errors.hpp"
#include "text.hpp"

namespace tool {
namespace {

/// Options that the line and a file may both set.
struct line_options {
  std::optional<std::filesystem::path> config;
  std::string progress = "auto";
  int nice = 0;
  std::optional<std::string> durability;
  std::optional<std::string> conflict;
  std::optional<std::uint64_t> batch;
  std::optional<double> interval;
};

const std::map<std::string, progress_mode> progress_names = {{"auto", progress_mode::automatic},
                                                             {"always", progress_mode::always},
                                                             {"never", progress_mode::never}};
const std::map<std::string, text_format> format_names = {{"csv", text_format::csv},
                                                         {"json", text_format::json}};

/// What CLI11 says of a number does not say what is wrong with it; and it takes -1 for a very large
/// one, and what is too large for the largest.
CLI::Validator whole_number(std::int64_t from, std::int64_t to, const std::string& range) {
  const auto look = [from, to, range](const std::string& word) {
    const auto number = to_int64(word);
    if (number && *number >= from && *number <= to) return std::string();
    return fmt::format("'{}' is not a number {}", printable(word), range);
  };
  return {look, range};
}
CLI::Validator count_range() { return whole_number(0, std::int64_t{1} << 62U, "from 0 on"); }
CLI::Validator number_range(double from, double to) {
  const auto look = [from, to](const std::string& word) {
    const auto number = to_float64(word);
    if (number && *number >= from && *number <= to) return std::string();  // NaN is in none
    return fmt::format("'{}' is not a number from {} to {}", printable(word), from, to);
  };
  return {look, fmt::format("from {} to {}", from, to)};
}

template <class F>
auto named(const char* option, F&& f) {
  try {
    return f();
  } catch (const std::invalid_argument& e) {
    throw usage_error(std::string(option) + ": " + e.what());
  }
}

common merge(const line_options& o) {
  common c;
  if (o.config) {
    if (o.config->empty()) throw usage_error("--config: a file needs a name");
    c.chosen = read_settings(*o.config);
  }
  c.show = progress_names.at(o.progress);
  c.nice = o.nice;
  if (o.durability) {
    c.chosen.store.durability = named("--durability", [&] { return durability_of(*o.durability); });
  }
  if (o.conflict) {
    c.chosen.load.conflict = named("--on-conflict", [&] { return conflict_of(*o.conflict); });
  }
  if (o.batch) c.chosen.load.batch = *o.batch;
  if (o.interval) c.chosen.interval = *o.interval;
  return c;
}

/// One command: its options, and what is done with them.
template <class Request>
class command {
 public:
  command(CLI::App& of, const char* name, const char* help)
      : app(*of.add_subcommand(name, help)),
        request(std::make_shared<Request>()),
        line(std::make_shared<line_options>()) {
    app.add_option("--config", line->config, "options from this TOML file; docs/tool.md");
    app.add_option("--progress", line->progress, "show a bar: auto (on a terminal), always, never")
        ->check(CLI::IsMember(progress_names))
        ->capture_default_str();
  }
  void store(std::filesystem::path& to, const char* name = "store",
             const char* help = "folder of a store") {
    app.add_option(name, to, help)->required();
  }
  /// Its store may be one that a program has open.
  void looks_at_store(std::filesystem::path& to) {
    store(to);
    line->nice = 10;
    app.add_option("--nice", line->nice,
                   "how far to lower the priority, so that the store's program goes first: 0 to 19")
        ->check(whole_number(0, 19, "from 0 to 19"))
        ->capture_default_str();
  }
  void does(std::function<void()>& run, void (*f)(const Request&, const common&)) {
    app.callback([&run, f, r = request, l = line] { run = [=] { f(*r, merge(*l)); }; });
  }

  CLI::App& app;
  std::shared_ptr<Request> request;
  std::shared_ptr<line_options> line;
};

void add_info(CLI::App& app, std::function<void()>& run) {
  command<info_request> c(app, "info",
                          "what is in a store: tables, rows, log. Its last change has a "
                          "number, which JSON calls sequence");
  c.looks_at_store(c.request->store);
  c.app.add_flag("--hash", c.request->hash,
                 "a hash of each table's rows: the same for the same rows in any order");
  c.app.add_flag("--json", c.request->json, "one line of JSON");
  c.does(run, run_info);
}

void add_check(CLI::App& app, std::function<void()>& run) {
  command<check_request> c(app, "check",
                           "reads all of a store, and compares checksums and indexes");
  c.looks_at_store(c.request->store);
  c.does(run, run_check);
}

void add_dump(CLI::App& app, std::function<void()>& run) {
  command<dump_request> c(app, "dump", "writes tables as text, all as of one moment");
  c.looks_at_store(c.request->store);
  c.app.add_option("to", c.request->to, "folder to make, or - for standard output")->required();
  const auto format = std::make_shared<std::string>("json");
  c.app.add_option("--format", *format, "csv or json, which is JSON lines")
      ->check(CLI::IsMember(format_names))
      ->capture_default_str();
  c.app.add_option("--table", c.request->tables, "only this one; may be given again");
  c.app.callback([&run, format, r = c.request, l = c.line] {
    run = [=] {
      r->format = format_names.at(*format);
      run_dump(*r, merge(*l));
    };
  });
}

struct load_line {
  std::filesystem::path store;
  load_request request;
  std::string format;
  bool resume = false;
  bool undo = false;
};

unfinished when_stopped(const load_line& l) {
  if (l.resume && l.undo) {
    throw usage_error(
        "--resume and --all-or-nothing exclude each other: one keeps the rows of a load that was "
        "stopped, the other takes them out");
  }
  if (l.request.start_over && !l.resume && !l.undo) {
    throw usage_error("--start-over goes with --resume or --all-or-nothing");
  }
  if (l.resume) return unfinished::resume;
  return l.undo ? unfinished::undo : unfinished::keep;
}

void load_it(const load_line& l, const common& c) {
  load_request r = l.request;
  r.options = c.chosen.load;
  r.show = c.show;
  r.when_stopped = when_stopped(l);
  if (!l.format.empty()) r.format = format_names.at(l.format);
  run_load(l.store, r, c);
}

void add_load(CLI::App& app, std::function<void()>& run) {
  command<load_line> c(app, "load", "reads what dump wrote, or a table's rows, into a store");
  c.store(c.request->store, "store", "folder of a store; made if it does not exist");
  c.app
      .add_option("from", c.request->request.from,
                  "folder of a dump, file, or - for standard input")
      ->required();
  c.app.add_option("--table", c.request->request.table,
                   "of the rows in a file; of a folder, the only one to load");
  c.app
      .add_option("--format", c.request->format, "of a file, if not as its name ends: csv or json")
      ->check(CLI::IsMember(format_names));
  c.app.add_option("--schema", c.request->request.schema,
                   "schema.json of a dump: how to make the table if it is missing");
  c.app.add_option("--on-conflict", c.line->conflict,
                   "with rows whose key is there: fail (the default), skip, replace");
  c.app
      .add_option("--batch", c.line->batch,
                  "rows of a transaction, which is loaded whole or not at all; 0: all; "
                  "the default is 1000")
      ->check(count_range());
  c.app.add_flag("--resume", c.request->resume,
                 "go on after the rows that an earlier load --resume of the same input has loaded");
  c.app.add_flag("--all-or-nothing", c.request->undo,
                 "undo the load unless all of it succeeds; after a kill, the next load does so");
  c.app.add_flag("--start-over", c.request->request.start_over,
                 "with these two: forget how far an earlier load --resume was; its rows stay");
  c.app.add_option("--durability", c.line->durability,
                   "while it is loaded: none, async, sync (the default)");
  c.does(run, load_it);
}

void add_copies(CLI::App& app, std::function<void()>& run) {
  command<copy_request> b(app, "backup",
                          "copies a store, also one that a program has open, and checks it. A torn "
                          "end is told on standard error, and the exit code is 0 then");
  b.looks_at_store(b.request->from);
  b.app
      .add_option(
          "to", b.request->to,
          "folder to make; or of an older copy, to be brought up to date; or - for standard "
          "output")
      ->required();
  b.does(run, run_backup);
  command<copy_request> r(app, "restore", "makes a store out of a backup");
  r.store(r.request->from, "backup", "folder of a backup, or - for one on standard input");
  r.app.add_option("store", r.request->to, "folder to make")->required();
  r.does(run, run_restore);
}

void add_salvage(CLI::App& app, std::function<void()>& run) {
  command<salvage_request> c(app, "salvage",
                             "makes a new store out of what is whole of a damaged one, and says "
                             "what is missing");
  c.store(c.request->store, "store", "folder of a damaged store; it is not changed");
  c.app.add_option("new", c.request->to, "folder to make, or an empty one");
  c.app.add_flag("--dry-run", c.request->dry_run, "make nothing, and say what would be missing");
  c.app.add_flag("--json", c.request->json, "the report as one line of JSON");
  c.does(run, run_salvage);
}

void add_top(CLI::App& app, std::function<void()>& run) {
  command<top_request> c(app, "top",
                         "shows what a running program does with its store. Its last "
                         "change has the number that info shows; JSON calls it sequence");
  c.store(c.request->store);
  c.app
      .add_option("--interval", c.line->interval, "seconds between two readings; the default is 1")
      ->check(number_range(0.01, 86400));
  c.app.add_option("--times", c.request->times, "how many readings; 0: until stopped")
      ->check(count_range())
      ->capture_default_str();
  c.app.add_flag("--json", c.request->json, "a line of JSON for each reading");
  c.does(run, run_top);
}

std::string list_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands(nullptr)) names.push_back(one->get_name());
  return names;
}

/// How many characters have to be put in, taken out or replaced, at least.
std::size_t steps_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t before = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t other = before + (a[i] == b[j] ? 0U : 1U);
      before = row[j + 1];
      row[j + 1] = std::min({other, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string no_such_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> all = commands_of(app);
  const auto far = [&](const std::string& name) { return steps_between(word, name); };
  const auto nearest = std::min_element(
      all.begin(), all.end(), [&](const auto& a, const auto& b) { return far(a) < far(b); });
  const bool near = nearest != all.end() && far(*nearest) <= 2;
  return fmt::format("there is no command '{}'; {} (see --help)", printable(word),
                     near ? "did you mean " + *nearest + "?" : "there are: " + list_of(all));
}

/// The words that it takes, as `info STORE`.
std::string words_of(const CLI::App& command) {
  std::string words = "spolia " + command.get_name();
  for (const CLI::Option* o : command.get_options()) {
    if (!o->get_positional() || !o->get_required()) continue;
    std::string name = o->get_name(true);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    words += " " + name;
  }
  return words;
}

/// Of one of them that is missing; empty: it is something else that is.
std::string what_is_missing(const CLI::App& command) {
  for (const CLI::Option* o : command.get_options()) {
    if (!o->get_positional() || !o->get_required() || o->count() != 0) continue;
    return fmt::format("{}: name the {} (spolia {} --help)", words_of(command),
                       o->get_description(), command.get_name());
  }
  return {};
}

/// What CLI11 says ends in the words.
std::string what_is_too_much(const CLI::App& command, const std::string& said) {
  const std::size_t begin = said.find(": ");
  if (begin == std::string::npos) return {};
  const std::string word = said.substr(begin + 2, said.find(' ', begin + 2) - begin - 2);
  const std::string name = command.get_name();
  if (!word.starts_with("-")) {
    return fmt::format("{} takes no more words: '{}' is too much (spolia {} --help)",
                       words_of(command), printable(word), name);
  }
  std::vector<std::string> options;
  for (const CLI::Option* o : command.get_options()) {
    if (!o->get_positional()) options.push_back("--" + o->get_lnames().front());
  }
  return fmt::format("spolia {} has no option {}; there are: {} (spolia {} --help)", name,
                     printable(word), list_of(options), name);
}

}  // namespace

std::string what_is_wrong(const CLI::App& app, const CLI::Error& e,
                          const std::vector<std::string>& words) {
  const auto commands = app.get_subcommands();
  if (commands.empty()) {
    if (words.empty()) return "give a command: " + list_of(commands_of(app)) + " (see --help)";
    return plain(e) + " (see --help)";
  }
  const CLI::App& command = *commands.front();
  std::string why;
  const int code = e.get_exit_code();
  if (code == static_cast<int>(CLI::ExitCodes::RequiredError)) why = what_is_missing(command);
  if (code == static_cast<int>(CLI::ExitCodes::ExtrasError))
    why = what_is_too_much(command, plain(e));
  return why.empty() ? fmt::format("{} (spolia {} --help)", plain(e), command.get_name()) : why;
}

void refuse_unknown(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words.front().starts_with("-")) return;
  const auto names = commands_of(app);
  if (std::find(names.begin(), names.end(), words.front()) != names.end()) return;
  throw usage_error(no_such_command(app, words.front()));
}

std::vector<std::string> with_help(std::vector<std::string> words) {
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.resize(std::min<std::size_t>(words.size(), 1));
  words.emplace_back("--help");
  return words;
}

void add_commands(CLI::App& app, std::function<void()>& run) {
  add_info(app, run);
  add_check(app, run);
  add_dump(app, run);
  add_load(app, run);
  add_copies(app, run);
  add_salvage(app, run);
  add_top(app, run);
}

}  // namespace tool

// SPDX-License-Identifier: Apache-2.0
// commands_pointers.cpp: the sub-command about shared pointers.
#include <CLI/CLI.hpp>

#include <string>

#include "commands.hpp"
#include "counted.hpp"
#include "record.hpp"

namespace bench {
namespace {

struct choice : counted_options {
  std::string json = "-";
};

void counted(const choice& o) {
  line_file out(o.json);
  measure_counted(o, [&](const nlohmann::json& r) { out.write(r); });
}

void describe(CLI::App& app, choice& o) {
  app.add_option("--test", o.test,
                 "contention, set, allocate, read, hot, insert, remove, strings, mixed, destroy, "
                 "parts, stream, burst or route")
      ->capture_default_str();
  app.add_option("--pointers", o.pointers,
                 "comma-separated: raw, private, thin, walk, thin-walk, atomic, shared, "
                 "std-plain, std, std-atomic, boost-atomic; default: all that have the test")
      ->delimiter(',');
  app.add_option("--threads", o.threads, "numbers of threads, comma-separated")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--structure", o.structure,
                 "of tests of containers: bst, btree or hash; tree and btree-locked are bst and "
                 "btree with a lock in each node")
      ->capture_default_str();
  app.add_option("--keys", o.keys,
                 "keys in the structure; of destroy: nodes of each thread's tree; of parts and "
                 "burst: keys in a tree")
      ->capture_default_str();
  app.add_option("--strings", o.strings, "of strings and mixed: a file with one string a line")
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of a trial")->capture_default_str();
  app.add_option("--trials", o.trials, "trials of each pointer; the pointers take turns")
      ->capture_default_str();
  add_order(app, o.order);
  app.add_flag("--paper-size", o.paper_size,
               "the paper's sizes, where no other is given: 32 threads, and as many keys as the "
               "paper has in that test");
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

}  // namespace

void add_counted(CLI::App& app) {
  add_command<choice>(
      app, "counted",
      "measures shared pointers, ours and the rivals': contention, setting, allocation, "
      "containers",
      describe, counted);
}

}  // namespace bench

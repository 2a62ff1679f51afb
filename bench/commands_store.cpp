// SPDX-License-Identifier: Apache-2.0
// commands_store.cpp: the sub-commands that run transactions.
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "record.hpp"
#include "ycsb.hpp"

namespace bench {
namespace {

void ycsb(const ycsb_options& o) {
  check(o);
  line_file out(o.json);
  run_ycsb(o, [&](const nlohmann::json& r) { out.write(r); });
}

void describe(CLI::App& app, ycsb_options& o) {
  app.add_option("--versions", o.versions,
                 "version storages, with commas, measured in turn: none, one-shot, "
                 "one-shot-consolidated, steam")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that work")->capture_default_str();
  app.add_option("--writes", o.writes, "per cent of operations that change a row")
      ->capture_default_str();
  app.add_option("--theta", o.theta, "of Zipf's distribution of keys; 0: uniform")
      ->capture_default_str();
  app.add_option("--columns", o.columns, "of 8 bytes, all of them read or written")
      ->capture_default_str();
  app.add_option("--operations", o.operations, "of a transaction")->capture_default_str();
  app.add_option("--records", o.records, "for each thread")->capture_default_str();
  app.add_flag("--shared", o.shared, "threads draw from all records, not each from its own");
  app.add_option("--hold", o.hold, "snapshots held open for the whole run")->capture_default_str();
  app.add_option("--partition", o.partition, "one-shot: transactions of a partition")
      ->capture_default_str();
  app.add_option("--durability", o.durability,
                 "levels, with commas, measured in turn: memory (no directory), none, async, sync")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--directory", o.directory,
                 "where the database lies for the trial; it must not exist. Empty: in memory that "
                 "looks like a disk (/dev/shm), if there is such");
  app.add_flag("--checkpoint", o.checkpoint, "take a checkpoint in the middle of each trial");
  app.add_option("--seconds", o.seconds, "length of a trial, after the filling")
      ->capture_default_str();
  app.add_option("--trials", o.trials, "trials of each storage")->capture_default_str();
  app.add_option("--seed", o.seed, "of keys")->capture_default_str();
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

}  // namespace

void add_ycsb(CLI::App& app) {
  add_command<ycsb_options>(app, "ycsb", "transactions over the store, under each version storage",
                            describe, ycsb);
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// commands_store.cpp: the sub-commands that run transactions.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <optional>

#include "commands.hpp"
#include "held.hpp"
#include "record.hpp"
#include "recovery.hpp"
#include "reports.hpp"
#include "store.hpp"
#include "tpcc.hpp"
#include "ycsb.hpp"

namespace bench {
namespace {

void add_versions(CLI::App& app, std::vector<std::string>& to) {
  app.add_option(
         "--versions", to,
         fmt::format("version storages, with commas, measured in turn; default: {}. And {}: "
                     "versions are written and forgotten, as no storage can be faster",
                     fmt::join(version_storage_names(), ","), floor_name))
      ->delimiter(',');
}

void add_indexes(CLI::App& app, std::vector<std::string>& to) {
  app.add_option("--index", to,
                 "kinds of the store's hash index, with commas, measured in turn: probing, cuckoo")
      ->delimiter(',')
      ->capture_default_str();
}

void add_changes(CLI::App& app, bool& to) {
  app.add_flag("--changes", to,
               "versions have the changed columns only, where the storage can do so");
}

void add_warm_up(CLI::App& app, std::optional<double>& to) {
  app.add_option("--warm-up", to,
                 "seconds of the same work before the measured time; with --transactions there are "
                 "none")
      ->default_str(fmt::format("{}", usual_warm_up));
}

void ycsb(const ycsb_options& given) {
  ycsb_options o = given;
  settle(o);
  line_file out(o.json);
  run_ycsb(o, [&](const nlohmann::json& r) { out.write(r); });
}

void describe(CLI::App& app, ycsb_options& o) {
  app.add_option("--engine", o.engines,
                 fmt::format("with commas: {}", fmt::join(ycsb_engine_names(), ",")))
      ->delimiter(',')
      ->capture_default_str();
  add_versions(app, o.versions);
  add_indexes(app, o.indexes);
  app.add_option("--workload", o.workload,
                 "paper: of the one-shot paper; a to f: YCSB's. What is not given below is the "
                 "workload's own")
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that work")->capture_default_str();
  app.add_option("--writes", o.writes, "per cent of operations that update a row");
  app.add_option("--theta", o.theta, "of Zipf's distribution of keys; 0: uniform");
  app.add_option("--columns", o.columns, "of a row");
  app.add_option("--width", o.width, "bytes of a column; 8: a number, else text");
  app.add_option("--touch", o.touch, "so many of the columns are read or updated; default: all");
  app.add_option("--operations", o.operations, "of a transaction");
  app.add_option("--records", o.records, "for each thread");
  app.add_flag("--shared", o.shared, "threads draw from all records");
  app.add_flag("--own", o.own, "each thread draws from its own records");
  app.add_option("--hold", o.hold, "snapshots held open for the whole run")->capture_default_str();
  app.add_option("--scan", o.scan,
                 fmt::format("one more thread adds up a column of all rows, again and again, each "
                             "time at a snapshot of its own: {}",
                             fmt::join(ycsb_scans, ", ")));
  app.add_option("--scan-threads", o.scan_threads, "of a scan by query")->capture_default_str();
  app.add_option("--partition", o.partition, "one-shot: transactions of a partition")
      ->capture_default_str();
  app.add_option("--partition-cache", o.partition_cache,
                 "one-shot: bytes of a processor's partitions while few are in use")
      ->capture_default_str();
  add_changes(app, o.changes);
  app.add_option("--durability", o.durability,
                 "levels, with commas, measured in turn: memory (no directory), none, async, sync")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--directory", o.directory,
                 "where a folder for each trial is made, if it is durable; default: in memory that "
                 "looks like a disk (/dev/shm), if there is such");
  app.add_flag("--checkpoint", o.checkpoint, "take a checkpoint in the midst of each trial");
  app.add_option("--seconds", o.seconds, "length of a trial, after the filling")
      ->capture_default_str();
  add_warm_up(app, o.warm_up);
  app.add_flag(
      "--paper-size", o.paper_size,
      "as large as in the paper, where nothing else is given: 1000 rows of each of 28 threads");
  app.add_option("--transactions", o.transactions, "of each thread, instead of a time");
  app.add_option("--trials", o.trials, "trials of each storage and engine, which take turns")
      ->capture_default_str();
  add_order(app, o.order);
  app.add_option("--seed", o.seed, "of keys")->capture_default_str();
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

void tpcc(const tpcc_options& given) {
  tpcc_options o = given;
  settle(o);
  line_file out(o.json);
  run_tpcc(o, [&](const nlohmann::json& r) { out.write(r); });
}

void describe(CLI::App& app, tpcc_options& o) {
  add_versions(app, o.versions);
  add_indexes(app, o.indexes);
  app.add_option("--warehouses", o.warehouses, "0: as many as threads")->capture_default_str();
  app.add_option("--threads", o.threads, "clients, each at home in a warehouse")
      ->capture_default_str();
  app.add_option("--mix", o.mix,
                 "full; neworder-payment; or dbx1000: these two as DBx1000 has them, which inserts "
                 "no rows")
      ->capture_default_str();
  app.add_flag("--serializable", o.serializable, "not under snapshot isolation only");
  app.add_option("--items", o.items, "and rows of stock a warehouse")->capture_default_str();
  app.add_option("--customers", o.customers, "of a district, and orders to begin with")
      ->capture_default_str();
  app.add_option("--hold", o.hold, "snapshots held open for the whole run")->capture_default_str();
  app.add_option("--scanners", o.scanners,
                 "threads that add up columns of the stock, each time at one snapshot")
      ->capture_default_str();
  app.add_option("--partition", o.partition, "one-shot: transactions of a partition")
      ->capture_default_str();
  app.add_option("--partition-cache", o.partition_cache,
                 "one-shot: bytes of a processor's partitions while few are in use")
      ->capture_default_str();
  app.add_option("--partitions", o.partitions, "one-shot: at most")->capture_default_str();
  add_changes(app, o.changes);
  app.add_option("--budget", o.budget, "bytes of old versions; 0: no limit")->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of a trial, after the loading")
      ->capture_default_str();
  add_warm_up(app, o.warm_up);
  app.add_flag("--paper-size", o.paper_size,
               "as large as in the paper, where nothing else is given: 100000 items, 3000 "
               "customers, 28 threads with a warehouse each");
  app.add_option("--transactions", o.transactions, "of each thread, instead of a time");
  app.add_option("--trials", o.trials, "trials of each storage")->capture_default_str();
  add_order(app, o.order);
  app.add_option("--seed", o.seed, "of rows and inputs")->capture_default_str();
  app.add_flag("--delivery-hint", o.delivery_hint,
               "Delivery begins its search where the last one of the district has ended, not at "
               "the district's first entry, as the specification has it");
  app.add_option("--spoil", o.spoil,
                 "to try the check: break this condition of consistency after the run");
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

void recovery(const recovery_options& o) {
  check(o);
  line_file out(o.json);
  run_recovery(o, [&](const nlohmann::json& r) { out.write(r); });
}

void describe(CLI::App& app, recovery_options& o) {
  app.add_option("--from", o.from, "what is read: log, or checkpoint")->capture_default_str();
  app.add_option("--records", o.records, "rows of the table")->capture_default_str();
  app.add_option("--changes", o.changes, "rows that the log puts, in all")->capture_default_str();
  app.add_option("--columns", o.columns, "of a row, besides the key")->capture_default_str();
  app.add_option("--width", o.width, "bytes of a column; 8: a number, else text")
      ->capture_default_str();
  app.add_option("--operations", o.operations, "changes of a transaction")->capture_default_str();
  app.add_option("--threads", o.threads, "of the opening; 0: as many as there are processors")
      ->capture_default_str();
  app.add_flag("--ordered", o.ordered, "the table's key is ordered");
  add_indexes(app, o.indexes);
  app.add_flag("--cold", o.cold,
               "the system drops the files from its memory before each reading; on a disk only");
  app.add_flag("--own-memory", o.own_memory,
               "as much memory as it needs is touched and freed before each opening: for a machine "
               "that gives unused memory back to its host");
  app.add_option("--directory", o.directory,
                 "where a folder is made for the store; default: in memory that looks like a disk "
                 "(/dev/shm), if there is such");
  app.add_option("--trials", o.trials, "openings of the one store")->capture_default_str();
  app.add_option("--seed", o.seed, "of the rows that are changed")->capture_default_str();
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

void held(const held_options& o) {
  check(o);
  line_file out(o.json);
  run_held(o, [&](const nlohmann::json& r) { out.write(r); });
}

void describe(CLI::App& app, held_options& o) {
  app.add_option("--workload", o.workloads,
                 "with commas, measured in turn: queue (insert the last row, delete the first), "
                 "touched (update an indexed column), churn (delete a row, insert another), report "
                 "(update two rows, and see what a row costs the oldest held reader and a new one)")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--index", o.indexes,
                 "kinds of the index that finds rows, with commas, measured in turn: ordered, "
                 "hash (which is the kind probing), cuckoo")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--versions", o.versions,
                 fmt::format("version storages, with commas, measured in turn; default: {}",
                             fmt::join(version_storage_names(), ",")))
      ->delimiter(',');
  app.add_option("--hold", o.holds,
                 "how many readers are held for the whole run, with commas, measured in turn; "
                 "they begin one after the other during --warm-up")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that work, each on its own rows")
      ->capture_default_str();
  app.add_option("--rows", o.rows, "of the table, at all times")->capture_default_str();
  app.add_option("--durability", o.durability,
                 "levels, with commas, measured in turn: memory (no directory), none, async, sync")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--directory", o.directory,
                 "where a folder for each trial is made, if it is durable; default: in memory that "
                 "looks like a disk (/dev/shm), if there is such");
  app.add_flag("--checkpoint", o.checkpoint,
               "checkpoints are taken one after the other; for a store in a directory");
  app.add_option("--ballast", o.ballast,
                 "rows of another table, of some 120 bytes each: they make a checkpoint last");
  app.add_option("--warm-up", o.warm_up, "seconds before the measured part")->capture_default_str();
  app.add_option("--age", o.age,
                 "report: updates a row that are made after the oldest held reader has begun, "
                 "before the measured part")
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of the measured part")->capture_default_str();
  app.add_option("--trials", o.trials, "trials of each, which take turns")->capture_default_str();
  add_order(app, o.order);
  app.add_option("--seed", o.seed, "of keys")->capture_default_str();
  app.add_flag(
      "--spoil", o.spoil,
      "to try the check: change what is noted of the oldest reader, which has to be found");
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

void reports(const reports_options& o) {
  check(o);
  line_file out(o.json);
  run_reports(o, [&](const nlohmann::json& r) { out.write(r); });
}

void describe(CLI::App& app, reports_options& o) {
  app.add_option("--versions", o.versions,
                 fmt::format("version storages, with commas, measured in turn; default: {}",
                             fmt::join(version_storage_names(), ",")))
      ->delimiter(',');
  app.add_option("--threads", o.threads, "threads that update rows, each its own")
      ->capture_default_str();
  app.add_option("--rows", o.rows, "of the table")->capture_default_str();
  app.add_option("--age", o.age, "updates a row before the reports")->capture_default_str();
  app.add_option("--seconds", o.seconds, "of reports while no transaction is made")
      ->capture_default_str();
  app.add_option(
         "--load", o.load,
         "seconds of reports of twenty queries at the old snapshot, and at new ones, beside "
         "transactions")
      ->capture_default_str();
  app.add_option("--parts", o.parts, "of --load, that are told one by one")->capture_default_str();
  app.add_option("--trials", o.trials, "trials of each, which take turns")->capture_default_str();
  add_order(app, o.order);
  app.add_option("--seed", o.seed, "of rows")->capture_default_str();
  app.add_flag(
      "--spoil", o.spoil,
      "to try the check: expect something wrong of the old snapshot, which has to be found");
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

}  // namespace

void add_held(CLI::App& app) {
  add_command<held_options>(
      app, "held",
      "a queue, an indexed column that is updated, keys that come and go, rows that are updated, "
      "beside held readers",
      describe, held);
}

void add_reports(CLI::App& app) {
  add_command<reports_options>(
      app, "reports",
      "TPC-H's queries 1 and 6, and a search in texts, at a snapshot from before all rows were "
      "updated and at a new one",
      describe, reports);
}

void add_recovery(CLI::App& app) {
  add_command<recovery_options>(app, "recovery",
                                "opens a store again and again, beside reading its files", describe,
                                recovery);
}

void add_tpcc(CLI::App& app) {
  add_command<tpcc_options>(
      app, "tpcc", "TPC-C over the store, under each version storage, checked after every run",
      describe, tpcc);
}

void add_ycsb(CLI::App& app) {
  add_command<ycsb_options>(
      app, "ycsb",
      "reads and writes in the store, under each version storage, and in other engines", describe,
      ycsb);
}

}  // namespace bench

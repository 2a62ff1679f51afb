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
         fmt::format("version storages, comma-separated, measured in turn; default: {}. Also {}: "
                     "it writes versions and forgets them, so that no storage can be faster",
                     fmt::join(version_storage_names(), ","), floor_name))
      ->delimiter(',');
}

void add_indexes(CLI::App& app, std::vector<std::string>& to) {
  app.add_option("--index", to,
                 "kinds of the store's hash index, comma-separated, measured in turn: probing, "
                 "cuckoo")
      ->delimiter(',')
      ->capture_default_str();
}

void add_changes(CLI::App& app, bool& to) {
  app.add_flag("--changes", to,
               "versions hold the changed columns only, where the storage can do that");
}

void add_warm_up(CLI::App& app, std::optional<double>& to) {
  app.add_option("--warm-up", to,
                 "seconds of the same work before the measured time; none with --transactions")
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
                 fmt::format("engines, comma-separated, measured in turn: {}",
                             fmt::join(ycsb_engine_names(), ",")))
      ->delimiter(',')
      ->capture_default_str();
  add_versions(app, o.versions);
  add_indexes(app, o.indexes);
  app.add_option("--workload", o.workload,
                 "paper: the one-shot paper's; a to f: YCSB's. An option below that is not given "
                 "is as the workload has it")
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that work")->capture_default_str();
  app.add_option("--writes", o.writes, "per cent of operations that update a row");
  app.add_option("--theta", o.theta, "skew of Zipf's distribution of keys; 0: uniform");
  app.add_option("--columns", o.columns, "columns of a row, without the key");
  app.add_option("--width", o.width, "bytes of a column; 8: a number, else text");
  app.add_option("--touch", o.touch, "columns that an operation reads or updates; default: all");
  app.add_option("--operations", o.operations, "operations of a transaction");
  app.add_option("--records", o.records, "rows for each thread");
  app.add_flag("--shared", o.shared, "threads draw from all records");
  app.add_flag("--own", o.own, "each thread draws from its own records");
  app.add_option("--hold", o.hold, "snapshots held open for the whole run")->capture_default_str();
  app.add_option("--scan", o.scan,
                 fmt::format("one more thread adds up a column of all rows, again and again, each "
                             "time at a new snapshot. How: {}",
                             fmt::join(ycsb_scans, ", ")));
  app.add_option("--scan-threads", o.scan_threads, "threads of a scan by query")
      ->capture_default_str();
  app.add_option("--partition", o.partition, "one-shot: transactions of a partition")
      ->capture_default_str();
  app.add_option("--partition-cache", o.partition_cache,
                 "one-shot: bytes of partitions that a processor keeps while few are in use")
      ->capture_default_str();
  add_changes(app, o.changes);
  app.add_option("--durability", o.durability,
                 "levels, comma-separated, measured in turn: memory (no directory), none, async, "
                 "sync")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--directory", o.directory,
                 "where each trial of a durable level makes its folder; default: /dev/shm, a disk "
                 "in memory, or the system's temporary folder where there is none");
  app.add_flag("--checkpoint", o.checkpoint, "take a checkpoint in the middle of each trial");
  app.add_option("--seconds", o.seconds, "length of a trial, once the table is filled")
      ->capture_default_str();
  add_warm_up(app, o.warm_up);
  app.add_flag("--paper-size", o.paper_size,
               "the paper's sizes, where no other is given: 1000 rows for each of 28 threads");
  app.add_option("--transactions", o.transactions,
                 "end after so many transactions of each thread, not by time");
  app.add_option("--trials", o.trials, "trials of each storage and engine, which take turns")
      ->capture_default_str();
  add_order(app, o.order);
  app.add_option("--seed", o.seed, "seed of the random keys")->capture_default_str();
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
  app.add_option("--warehouses", o.warehouses, "warehouses; 0: one for each thread")
      ->capture_default_str();
  app.add_option("--threads", o.threads, "clients, each at home in a warehouse")
      ->capture_default_str();
  app.add_option("--mix", o.mix,
                 "full; neworder-payment: these two only; or dbx1000: these two as in DBx1000, "
                 "which inserts no rows")
      ->capture_default_str();
  app.add_flag("--serializable", o.serializable,
               "serializable transactions, not snapshot isolation");
  app.add_option("--items", o.items, "items, and rows of stock in each warehouse")
      ->capture_default_str();
  app.add_option("--customers", o.customers, "customers of a district, and its orders at the start")
      ->capture_default_str();
  app.add_option("--hold", o.hold, "snapshots held open for the whole run")->capture_default_str();
  app.add_option("--scanners", o.scanners,
                 "threads that add up columns of the stock, each time at one snapshot")
      ->capture_default_str();
  app.add_option("--partition", o.partition, "one-shot: transactions of a partition")
      ->capture_default_str();
  app.add_option("--partition-cache", o.partition_cache,
                 "one-shot: bytes of partitions that a processor keeps while few are in use")
      ->capture_default_str();
  app.add_option("--partitions", o.partitions, "one-shot: partitions at most")
      ->capture_default_str();
  add_changes(app, o.changes);
  app.add_option("--budget", o.budget, "bytes of old versions at most; 0: no limit")
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of a trial, once the tables are loaded")
      ->capture_default_str();
  add_warm_up(app, o.warm_up);
  app.add_flag("--paper-size", o.paper_size,
               "the paper's sizes, where no other is given: 100000 items, 3000 customers, 28 "
               "threads with a warehouse each");
  app.add_option("--transactions", o.transactions,
                 "end after so many transactions of each thread, not by time");
  app.add_option("--trials", o.trials, "trials of each storage")->capture_default_str();
  add_order(app, o.order);
  app.add_option("--seed", o.seed, "seed of the random rows and inputs")->capture_default_str();
  app.add_flag("--delivery-hint", o.delivery_hint,
               "Delivery begins its search where the district's last one ended. The "
               "specification has it begin at the district's first entry");
  app.add_option("--spoil", o.spoil,
                 "a trial of the check: break this condition of consistency after the run");
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
  app.add_option("--changes", o.changes, "rows that the log writes, in all")->capture_default_str();
  app.add_option("--columns", o.columns, "columns of a row, without the key")
      ->capture_default_str();
  app.add_option("--width", o.width, "bytes of a column; 8: a number, else text")
      ->capture_default_str();
  app.add_option("--operations", o.operations, "changes of a transaction")->capture_default_str();
  app.add_option("--threads", o.threads, "threads that open the store; 0: one for each processor")
      ->capture_default_str();
  app.add_flag("--ordered", o.ordered, "the table's key is ordered");
  add_indexes(app, o.indexes);
  app.add_flag("--cold", o.cold,
               "the system drops the files from its cache before each reading; only for files on "
               "a disk");
  app.add_flag("--own-memory", o.own_memory,
               "touch and free as much memory as an opening needs before each of them: for a "
               "machine that gives unused memory back to its host");
  app.add_option("--directory", o.directory,
                 "where the store's folder is made; default: /dev/shm, a disk in memory, or the "
                 "system's temporary folder where there is none");
  app.add_option("--trials", o.trials, "how often the store is opened")->capture_default_str();
  app.add_option("--seed", o.seed, "seed that chooses the rows to change")->capture_default_str();
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

void held(const held_options& o) {
  check(o);
  line_file out(o.json);
  run_held(o, [&](const nlohmann::json& r) { out.write(r); });
}

void describe(CLI::App& app, held_options& o) {
  app.add_option(
         "--workload", o.workloads,
         "comma-separated, measured in turn: queue (insert the last row, delete the first), "
         "touched (update an indexed column), churn (delete a row, insert another), report "
         "(update two rows, and see what a row costs the oldest held reader and a new one)")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--index", o.indexes,
                 "kinds of the index that finds rows, comma-separated, measured in turn: ordered, "
                 "hash (the kind probing), cuckoo")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--versions", o.versions,
                 fmt::format("version storages, comma-separated, measured in turn; default: {}",
                             fmt::join(version_storage_names(), ",")))
      ->delimiter(',');
  app.add_option("--hold", o.holds,
                 "numbers of readers that are held for the whole run, comma-separated, measured in "
                 "turn; the readers begin one after the other during --warm-up")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that work, each on its own rows")
      ->capture_default_str();
  app.add_option("--rows", o.rows, "rows of the table, at all times")->capture_default_str();
  app.add_option("--durability", o.durability,
                 "levels, comma-separated, measured in turn: memory (no directory), none, async, "
                 "sync")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--directory", o.directory,
                 "where each trial of a durable level makes its folder; default: /dev/shm, a disk "
                 "in memory, or the system's temporary folder where there is none");
  app.add_flag("--checkpoint", o.checkpoint,
               "take checkpoints, one after the other; only for a store in a directory");
  app.add_option("--ballast", o.ballast,
                 "rows of another table, of some 120 bytes each: they make a checkpoint last");
  app.add_option("--warm-up", o.warm_up, "seconds before the measured part")->capture_default_str();
  app.add_option("--age", o.age,
                 "report: updates of each row between the beginning of the oldest held reader and "
                 "the measured part")
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of the measured part")->capture_default_str();
  app.add_option("--trials", o.trials, "trials of each, which take turns")->capture_default_str();
  add_order(app, o.order);
  app.add_option("--seed", o.seed, "seed of the random keys")->capture_default_str();
  app.add_flag("--spoil", o.spoil,
               "a trial of the check: change what the program has noted of the oldest reader; the "
               "check has to find it");
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
                 fmt::format("version storages, comma-separated, measured in turn; default: {}",
                             fmt::join(version_storage_names(), ",")))
      ->delimiter(',');
  app.add_option("--threads", o.threads, "threads that update rows, each its own")
      ->capture_default_str();
  app.add_option("--rows", o.rows, "rows of the table")->capture_default_str();
  app.add_option("--age", o.age, "updates of each row before the reports")->capture_default_str();
  app.add_option("--seconds", o.seconds, "seconds of reports while no transaction runs")
      ->capture_default_str();
  app.add_option(
         "--load", o.load,
         "seconds of reports beside transactions: twenty queries at the old snapshot, and at "
         "new ones")
      ->capture_default_str();
  app.add_option("--parts", o.parts, "parts of --load, each with figures of its own")
      ->capture_default_str();
  app.add_option("--trials", o.trials, "trials of each, which take turns")->capture_default_str();
  add_order(app, o.order);
  app.add_option("--seed", o.seed, "seed that chooses the rows")->capture_default_str();
  app.add_flag("--spoil", o.spoil,
               "a trial of the check: expect something wrong of the old snapshot; the check has to "
               "find it");
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

}  // namespace

void add_held(CLI::App& app) {
  add_command<held_options>(
      app, "held",
      "measures a queue, updates of an indexed column, keys that come and go, and updates of rows, "
      "beside held readers",
      describe, held);
}

void add_reports(CLI::App& app) {
  add_command<reports_options>(app, "reports",
                               "runs TPC-H's queries 1 and 6, and a search in texts, at a snapshot "
                               "from before all rows were "
                               "updated and at a new one",
                               describe, reports);
}

void add_recovery(CLI::App& app) {
  add_command<recovery_options>(
      app, "recovery", "opens a store again and again, and compares that with reading its files",
      describe, recovery);
}

void add_tpcc(CLI::App& app) {
  add_command<tpcc_options>(app, "tpcc",
                            "runs TPC-C over the store, under each version storage, and checks the "
                            "tables after every run",
                            describe, tpcc);
}

void add_ycsb(CLI::App& app) {
  add_command<ycsb_options>(
      app, "ycsb",
      "reads and writes rows in the store, under each version storage, and in other engines",
      describe, ycsb);
}

}  // namespace bench

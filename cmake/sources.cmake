# SPDX-License-Identifier: Apache-2.0
# What is compiled, by name; `./dev lint` compares this with the tree.

set(SPOLIA_SOURCES
    src/backoff.cpp
    src/clock.cpp
    src/counted.cpp
    src/counted_cycles.cpp
    src/counted_pool.cpp
    src/db/apart.cpp
    src/db/at_work.cpp
    src/db/backup.cpp
    src/db/catalog.cpp
    src/db/checkpoint.cpp
    src/db/checksum.cpp
    src/db/commit.cpp
    src/db/database.cpp
    src/db/decimal.cpp
    src/db/entries.cpp
    src/db/file_stream.cpp
    src/db/files.cpp
    src/db/filling.cpp
    src/db/folder.cpp
    src/db/index.cpp
    src/db/instant.cpp
    src/db/journal.cpp
    src/db/json.cpp
    src/db/large_memory.cpp
    src/db/layouts.cpp
    src/db/loading.cpp
    src/db/loading_crew.cpp
    src/db/loading_rows.cpp
    src/db/lock_file.cpp
    src/db/locking.cpp
    src/db/log_format.cpp
    src/db/log_writer.cpp
    src/db/nan_rows.cpp
    src/db/other_flavour.cpp
    src/db/policy.cpp
    src/db/query.cpp
    src/db/query_groups.cpp
    src/db/query_run.cpp
    src/db/reader.cpp
    src/db/recovery.cpp
    src/db/replay_catalog.cpp
    src/db/reserve_file.cpp
    src/db/row_format.cpp
    src/db/savepoint.cpp
    src/db/schema.cpp
    src/db/status_file.cpp
    src/db/storage.cpp
    src/db/table.cpp
    src/db/table_format.cpp
    src/db/transaction.cpp
    src/db/upkeep.cpp
    src/db/validate.cpp
    src/fence.cpp
    src/hazard_pointer.cpp
    src/memory.cpp
    src/misuse.cpp
    src/other_flavour.cpp
    src/rcu.cpp
    src/regions.cpp
    src/signals.cpp
    src/threads.cpp
    src/timeline.cpp
    src/trace.cpp
    src/version.cpp)

# The floors below the store, for tests that compile them once more.
set(SPOLIA_SOURCES_BELOW_DB ${SPOLIA_SOURCES})
list(FILTER SPOLIA_SOURCES_BELOW_DB EXCLUDE REGEX "^src/db/")

set(SPOLIA_MODEL_SOURCES
    src/model/choices.cpp
    src/model/execution.cpp
    src/model/explore.cpp
    src/model/fiber.cpp
    src/model/heap.cpp
    src/model/hooks.cpp
    src/model/memory_model.cpp
    src/model/operations.cpp
    src/model/tracer.cpp)

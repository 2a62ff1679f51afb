# SPDX-License-Identifier: Apache-2.0
# What is compiled, by name; `./dev lint` compares this with the tree.

set(SPOLIA_SOURCES
    src/base/backoff.cpp
    src/base/clock.cpp
    src/base/fence.cpp
    src/base/memory.cpp
    src/base/misuse.cpp
    src/base/signals.cpp
    src/base/threads.cpp
    src/base/trace.cpp
    src/base/version.cpp
    src/counted/counted.cpp
    src/counted/counted_cycles.cpp
    src/counted/counted_pool.cpp
    src/db/at_work.cpp
    src/db/catalog/catalog.cpp
    src/db/catalog/decimal.cpp
    src/db/catalog/layouts.cpp
    src/db/catalog/schema.cpp
    src/db/catalog/table.cpp
    src/db/commit/commit.cpp
    src/db/database.cpp
    src/db/files/attached.cpp
    src/db/files/file_stream.cpp
    src/db/files/files.cpp
    src/db/files/folder.cpp
    src/db/files/lock_file.cpp
    src/db/files/reserve_file.cpp
    src/db/files/status_file.cpp
    src/db/files/storage.cpp
    src/db/index/index.cpp
    src/db/log/backup.cpp
    src/db/log/checkpoint.cpp
    src/db/log/checksum.cpp
    src/db/log/journal.cpp
    src/db/log/loading.cpp
    src/db/log/loading_indexes.cpp
    src/db/log/loading_pool.cpp
    src/db/log/loading_rows.cpp
    src/db/log/log_format.cpp
    src/db/log/log_writer.cpp
    src/db/log/nan_rows.cpp
    src/db/log/recovery.cpp
    src/db/log/replay_catalog.cpp
    src/db/log/row_format.cpp
    src/db/log/table_format.cpp
    src/db/other_flavour.cpp
    src/db/query/json.cpp
    src/db/query/query.cpp
    src/db/query/query_groups.cpp
    src/db/query/query_run.cpp
    src/db/result.cpp
    src/db/slow_readers.cpp
    src/db/transaction/instant.cpp
    src/db/transaction/reader.cpp
    src/db/transaction/row_images.cpp
    src/db/transaction/savepoints.cpp
    src/db/transaction/transaction.cpp
    src/db/transaction/workspace.cpp
    src/db/upkeep.cpp
    src/db/versions/large_memory.cpp
    src/db/versions/value_blocks.cpp
    src/other_flavour.cpp
    src/reclaim/hazard_pointer.cpp
    src/reclaim/rcu.cpp
    src/reclaim/regions.cpp
    src/version/timeline.cpp)

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

// SPDX-License-Identifier: Apache-2.0
// other_flavour.cpp: the store once more, in the flavour that the library itself is not compiled in
// (checked beside native), so that a program of either flavour finds it.
#if !defined(SPOLIA_CHECKS)
#if defined(NDEBUG)
#define SPOLIA_CHECKS 1
#else
#define SPOLIA_CHECKS 0
#endif
#elif SPOLIA_CHECKS
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 0
#else
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 1
#endif

#include "apart.cpp"
#include "backup.cpp"
#include "catalog.cpp"
#include "checkpoint.cpp"
#include "checksum.cpp"
#include "commit.cpp"
#include "database.cpp"
#include "decimal.cpp"
#include "entries.cpp"
#include "file_stream.cpp"
#include "files.cpp"
#include "filling.cpp"
#include "folder.cpp"
#include "index.cpp"
#include "instant.cpp"
#include "journal.cpp"
#include "large_memory.cpp"
#include "layouts.cpp"
#include "loading.cpp"
#include "loading_crew.cpp"
#include "loading_rows.cpp"
#include "lock_file.cpp"
#include "locking.cpp"
#include "log_format.cpp"
#include "log_writer.cpp"
#include "policy.cpp"
#include "query.cpp"
#include "query_groups.cpp"
#include "query_run.cpp"
#include "reader.cpp"
#include "recovery.cpp"
#include "replay_catalog.cpp"
#include "row_format.cpp"
#include "savepoint.cpp"
#include "schema.cpp"
#include "status_file.cpp"
#include "storage.cpp"
#include "table.cpp"
#include "table_format.cpp"
#include "transaction.cpp"
#include "upkeep.cpp"
#include "validate.cpp"

// SPDX-License-Identifier: Apache-2.0
// db.hpp: the embedded transactional store. docs/db.md is its guide.
#pragma once

#include <spolia/db/database.hpp>
#include <spolia/db/json.hpp>
#include <spolia/db/query.hpp>
#include <spolia/db/result.hpp>
#include <spolia/db/schema.hpp>
#include <spolia/db/store_status.hpp>
#include <spolia/db/table.hpp>
#include <spolia/db/transaction.hpp>

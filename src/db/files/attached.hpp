// SPDX-License-Identifier: Apache-2.0
// attached.hpp: the directory of a database that another process has, as it is at one moment.
// Internal.
//
// The newest checkpoint and the segments after it are opened at once, so that they can be read when
// the process has removed them. Nothing keeps the process from changing the directory meanwhile: so
// it is listed again, and all begins anew unless the newest checkpoint is the same. Segments only
// grow, and what is in front of their ends does not change.
//
// Descriptors: half of what the process may have, at most, and only while there are a few left to
//              read with. Files beyond that are opened when they are read, the oldest segments
//              first; where one was removed before that, or another file has its name, reading
//              fails.
#pragma once

#include <cstdint>
#include <memory>

#include <spolia/base/config.hpp>
#include <spolia/db/files.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// This process, or the system, has as many files open as it may.
bool means_no_descriptors(const storage_error& e) noexcept;
/// Only to be read; its sync() makes durable what was opened, too. Throws storage_error.
std::unique_ptr<storage_directory> attach(std::unique_ptr<storage_directory> to);
/// The same of a directory that this process has. That must be there as long.
std::unique_ptr<storage_directory> attach(storage_directory& to);
/// Of what attach() has returned: segments before that one are durable, and its sync() leaves them
/// out.
void are_durable_before(storage_directory& attached, std::uint64_t segment) noexcept;

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

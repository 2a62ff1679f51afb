// SPDX-License-Identifier: Apache-2.0
// A layer of files that opens them by their paths, as layers once did.
// refused: override_open_directory_and_find_files_by_names_within_it
#include <memory>

#include <spolia/db/files.hpp>

namespace db = spolia::db;

class layer : public db::storage_files {
 public:
  std::unique_ptr<db::storage_directory> open_directory(const std::filesystem::path& directory,
                                                        db::directory_mode how) override {
    return of_->open_directory(directory, how);
  }
#if defined(REFUSED)
  std::unique_ptr<db::storage_file> open(const std::filesystem::path&, db::file_mode) override {
    return nullptr;
  }
#endif

 private:
  const std::shared_ptr<db::storage_files> of_ = db::real_files();
};

std::shared_ptr<db::storage_files> make_layer() { return std::make_shared<layer>(); }

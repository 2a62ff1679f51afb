// SPDX-License-Identifier: Apache-2.0
// bytes.hpp: where bytes come from and go to. What fails is a failure that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tool {

/// On the command line, and in messages: standard input or output.
inline constexpr std::string_view standard_stream = "-";

class byte_source {
 public:
  byte_source() = default;
  byte_source(const byte_source&) = delete;
  byte_source& operator=(const byte_source&) = delete;
  virtual ~byte_source() = default;
  /// Up to `size` bytes; 0: the end.
  virtual std::size_t read(char* to, std::size_t size) = 0;
};

class byte_sink {
 public:
  byte_sink() = default;
  byte_sink(const byte_sink&) = delete;
  byte_sink& operator=(const byte_sink&) = delete;
  virtual ~byte_sink() = default;
  virtual void write(std::string_view bytes) = 0;
};

class file_source final : public byte_source {
 public:
  /// A file, or standard input.
  explicit file_source(const std::filesystem::path& path);
  ~file_source() override;
  std::size_t read(char* to, std::size_t size) override;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// 0: unknown.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  std::string name_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

class new_folder;

class file_sink final : public byte_sink {
 public:
  /// A new file, or standard output.
  explicit file_sink(const std::filesystem::path& path);
  /// A new file in a folder in the making.
  file_sink(const new_folder& in, const std::string& file);
  ~file_sink() override;
  void write(std::string_view bytes) override;
  /// All has been written: it is on the disk afterwards.
  void finish();
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }

 private:
  void flush();

  std::string name_;
  int file_ = -1;
  std::string buffer_;
  std::uint64_t written_ = 0;
};

/// A folder in the making beside the one that it will be: it gets its name when it is whole, and
/// goes if that never happens. The folder where both are is opened once, and what is renamed or
/// removed in it is what was made, whatever has become of the names meanwhile. It takes the place
/// of an empty folder, with the rights of that.
class new_folder {
 public:
  /// Throws usage_error if `path` exists and cannot be replaced, or the folder where it is to be
  /// does not exist.
  explicit new_folder(std::filesystem::path path);
  ~new_folder();
  new_folder(const new_folder&) = delete;
  new_folder& operator=(const new_folder&) = delete;
  /// Where to put things until then: empty at first.
  [[nodiscard]] const std::filesystem::path& place() const noexcept { return place_; }
  void finish();
  /// Whether there is an empty folder that another can be renamed to. Where a disk is mounted, or
  /// where the folder above may not be changed, there is none.
  [[nodiscard]] static bool can_replace(const std::filesystem::path& path);

 private:
  friend class file_sink;
  void refuse_taken();
  void take_rights();
  void make();
  /// Whether the name, in that folder, leads to what was made.
  [[nodiscard]] bool is_made(int above, const std::filesystem::path& name) const;
  void give_up() noexcept;

  std::filesystem::path path_;
  std::filesystem::path place_;
  int above_ = -1;
  int made_ = -1;
  bool replaces_ = false;
  bool whole_ = false;
};

}  // namespace tool

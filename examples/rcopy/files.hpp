// SPDX-License-Identifier: MIT
// The files of a copy. A received file has no name (O_TMPFILE) until it is complete. If the process
// ends before, the kernel removes the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace rcopy {

/// An open directory. Threads: thread-safe.
class directory {
 public:
  [[nodiscard]] static verbena::result<directory> open(const std::string& path);

  /// Removes the temporary files of processes that were killed before they renamed the file.
  /// Temporary files of running processes are locked and remain.
  void remove_stale_temporaries() const;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  directory(verbena::unique_fd fd, std::string path) noexcept
      : fd_(std::move(fd)), path_(std::move(path)) {}

  verbena::unique_fd fd_;
  std::string path_;
};

/// A regular file that is read sequentially. Threads: one thread at a time.
class outgoing_file {
 public:
  /// Opens a path from the command line.
  [[nodiscard]] static verbena::result<outgoing_file> open(const std::string& path);
  /// Opens a file of the directory `where`. Does not follow symbolic links.
  [[nodiscard]] static verbena::result<outgoing_file> open_in(const directory& where,
                                                              const std::string& name);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Reads the next bytes until `into` is full. Errors: the file has become shorter than size().
  [[nodiscard]] verbena::result<void> read(std::span<std::byte> into);

 private:
  outgoing_file(verbena::unique_fd fd, std::string path, std::uint64_t size) noexcept
      : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}
  static verbena::result<outgoing_file> from(verbena::unique_fd fd, std::string path);

  verbena::unique_fd fd_;
  std::string path_;
  std::uint64_t size_;
};

/// A new file that gets its name by store(). If it is destroyed before store(), no file remains,
/// and an existing file of the name is unchanged. Threads: one thread at a time.
class incoming_file {
 public:
  /// Creates a file of `size` reserved bytes for the name `name` in `where`, which must outlive the
  /// file. Errors: those of open(2) and fallocate(2), for example ENOSPC.
  [[nodiscard]] static verbena::result<incoming_file> create(const directory& where,
                                                             std::string name, std::uint64_t size);
  incoming_file(incoming_file&& other) noexcept;
  incoming_file& operator=(incoming_file&&) = delete;
  ~incoming_file();

  /// Appends the bytes.
  [[nodiscard]] verbena::result<void> write(std::span<const std::byte> bytes);
  /// Flushes the content to disk and gives the file its name. Replaces an existing file. Blocks
  /// until both are on disk.
  [[nodiscard]] verbena::result<void> store();

 private:
  incoming_file(const directory& where, std::string name) noexcept
      : where_(&where), name_(std::move(name)) {}
  verbena::result<void> open_temporary();
  verbena::result<void> reserve(std::uint64_t size);
  verbena::result<void> link_temporary();
  [[nodiscard]] verbena::error failed(int code, const char* call) const;

  const directory* where_;
  std::string name_;
  verbena::unique_fd fd_;
  std::string temporary_;  // removed by the destructor; empty: the file has no name
  std::uint64_t written_ = 0;
};

}  // namespace rcopy

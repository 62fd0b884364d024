// SPDX-License-Identifier: MIT
// Files at both ends of a copy. A file that is received gets its name only when it is complete:
// until then it has none (O_TMPFILE), so that whatever ends the process, nothing is left behind.
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

  /// Removes temporary files that a killed process left between completing a file and giving it its
  /// name. Those of living processes are locked, and are left alone.
  void remove_stale_temporaries() const;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  directory(verbena::unique_fd fd, std::string path) noexcept
      : fd_(std::move(fd)), path_(std::move(path)) {}

  verbena::unique_fd fd_;
  std::string path_;
};

/// A file that is being sent. Threads: one thread at a time.
class outgoing_file {
 public:
  /// Opens a path of the user's.
  [[nodiscard]] static verbena::result<outgoing_file> open(const std::string& path);
  /// Opens a plain name in `where`; symbolic links are not followed.
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

/// A file that is being received. Dropped before store() it leaves nothing behind, and a file that
/// has the name already stays as it was. Threads: one thread at a time.
class incoming_file {
 public:
  /// Reserves `size` bytes for a file that is to be called `name` in `where`, which must outlive
  /// it. Errors: ENOSPC and the like, with a remedy.
  [[nodiscard]] static verbena::result<incoming_file> create(const directory& where,
                                                             std::string name, std::uint64_t size);
  incoming_file(incoming_file&& other) noexcept;
  incoming_file& operator=(incoming_file&&) = delete;
  ~incoming_file();

  /// Appends.
  [[nodiscard]] verbena::result<void> write(std::span<const std::byte> bytes);
  /// Makes the content durable and puts the file in its place, over whatever file is there. Blocks
  /// until the disk has it.
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
  std::string temporary_;  // the name that is to be removed; empty: it has none
  std::uint64_t written_ = 0;
};

}  // namespace rcopy

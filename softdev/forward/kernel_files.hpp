// SPDX-License-Identifier: MIT
// The files of soft0, like those that a kernel has for an adapter: paths, kinds and contents. The
// contents come from the device's own query functions.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::forward {

/// The kind of a file.
enum class file_kind : std::uint8_t {
  directory,
  shared,     ///< a directory that also exists for the kernel's adapters
  attribute,  ///< a text
  common,     ///< an attribute that also exists for the kernel's adapters
  link,       ///< a symbolic link
  node,       ///< a device node
};

/// The content of an attribute. Threads: one thread at a time.
struct file_text {
  /// Says whether the file exists, and whether the kernel refuses to read it.
  enum class state : std::uint8_t { missing, readable, refused };

  std::array<char, 256> bytes;
  std::size_t length = 0;

  /// Replaces the content by formatted text. Returns `readable`.
  [[gnu::format(printf, 2, 3)]] state print(const char* format, ...) noexcept;
};

/// An open context of soft0, to read its attributes. Threads: one thread at a time.
class device_view {
 public:
  /// Opens soft0. Loads the software device if necessary; blocks.
  device_view() noexcept;
  ~device_view();
  device_view(const device_view&) = delete;
  device_view& operator=(const device_view&) = delete;

  /// Returns false if soft0 cannot be opened.
  [[nodiscard]] explicit operator bool() const noexcept { return context_ != nullptr; }

  ibv_device_attr device = {};
  ibv_port_attr port = {};

  /// Returns the entry of the GID table; false if it is empty or beyond the table.
  [[nodiscard]] bool gid(unsigned index, ibv_gid_entry& entry) const noexcept;
  /// Returns the P_Key in network byte order; false beyond the table.
  [[nodiscard]] bool partition(unsigned index, std::uint16_t& key) const noexcept;

 private:
  ibv_context* context_ = nullptr;
};

/// A file of soft0. Threads: immutable value.
struct kernel_file {
  static constexpr std::size_t longest = 320;
  struct row;

  const row* what = nullptr;
  unsigned index = 0;  ///< of an entry of a table
  std::array<char, longest> path = {};

  [[nodiscard]] file_kind kind() const noexcept;
  [[nodiscard]] bool is_directory() const noexcept {
    return kind() == file_kind::directory || kind() == file_kind::shared;
  }
  /// Returns the target of a link, as readlink(2) does.
  void target(std::array<char, longest>& text) const noexcept;
  /// Returns the content of an attribute.
  [[nodiscard]] file_text::state read(const device_view& from, file_text& text) const noexcept;
};

/// Returns whether a file of soft0 may have this path. One comparison for other paths;
/// async-signal-safe.
[[nodiscard]] bool may_be_kernel_file(const char* path) noexcept;

/// Finds the file of soft0 that has this absolute path, with `.`, `..` and links resolved.
/// `follow` resolves a link at the end. Returns false for other paths, and if there is no software
/// device.
[[nodiscard]] bool find_kernel_file(const char* path, bool follow, kernel_file& found) noexcept;

/// Calls `visit(data, file)` for each file of soft0, directories before their content.
void for_each_kernel_file(const device_view& from, void (*visit)(void* data, const kernel_file&),
                          void* data) noexcept;

}  // namespace verbena::forward

// SPDX-License-Identifier: MIT
// The directory that only this user can access. The user's processes keep files in it that other
// users must not be able to take or change.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Selects the action for a directory or file that does not exist.
enum class if_missing : std::uint8_t { fail, create };

/// An open directory. Threads: value.
struct private_directory {
  unique_fd fd;
  std::string path;  ///< for messages
};

/// Opens $HOME/.cache/verbena; if that fails, $XDG_RUNTIME_DIR/verbena. The directory belongs to
/// the effective user, and no other user can access it. Errors: `unavailable` with the reason for
/// each place. Its errno is that of a lack of resources, if there was one; otherwise EACCES if a
/// place is not private or not accessible; otherwise ENOENT.
[[nodiscard]] result<private_directory> open_private_directory(if_missing what);

/// Returns whether the errno means that descriptors or memory are exhausted at the moment.
[[nodiscard]] bool is_lack_of_resources(int code) noexcept;

/// Returns why the open file or directory is not private: its owner, its mode, its type or a second
/// link. Returns an empty string if it is private. `type` is S_IFREG or S_IFDIR.
[[nodiscard]] std::string reason_not_private(int fd, std::uint32_t type);

}  // namespace verbena::softdev

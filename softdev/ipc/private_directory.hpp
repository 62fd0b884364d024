// SPDX-License-Identifier: MIT
// The directory that only this user can write. Processes of the user keep there what other users
// must not be able to take or change.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// What to do about a directory or file that does not exist.
enum class if_missing : std::uint8_t { fail, create };

/// An open directory. Threads: value.
struct private_directory {
  unique_fd fd;
  std::string path;  ///< for messages
};

/// Opens $HOME/.cache/verbena; if this cannot exist, $XDG_RUNTIME_DIR/verbena. The directory
/// belongs to the effective user and no other user has access to it. Errors: `unavailable` with the
/// reasons for each place: ENOENT if the place does not exist; EACCES if others can change it; an
/// errno of a lack of resources.
[[nodiscard]] result<private_directory> open_private_directory(if_missing what);

/// Whether the errno says that descriptors or memory are missing now, not that there is no such
/// directory.
[[nodiscard]] bool is_lack_of_resources(int code) noexcept;

/// Says why a file or directory that `fd` has opened is not private: another owner, access for
/// others, not of the expected type. Empty if it is private. `type` is S_IFREG or S_IFDIR.
[[nodiscard]] std::string reason_not_private(int fd, std::uint32_t type);

}  // namespace verbena::softdev

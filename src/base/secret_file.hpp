// SPDX-License-Identifier: MIT
// The rules for the file of VERBENA_SOFTDEV_WIRE_KEY_FILE. soft0 reads the file; `verbena doctor`
// and `verbena devinfo` only check it.
#pragma once

#include <cstddef>
#include <string>

#include "verbena/base/config.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::detail {

inline constexpr std::size_t least_secret_bytes = 16;
inline constexpr std::size_t most_secret_bytes = 4096;

/// Opens the file for reading, and checks that it is a regular file of 16 to 4096 bytes that
/// belongs to the user and that no other user can open. Reads nothing. Does not block. Errors: the
/// errno of open(2); EINVAL if it is not a regular file or has another size; EACCES if it belongs
/// to another user, or other users have access to it.
[[nodiscard]] result<unique_fd> open_secret_file(const std::string& path);

/// Returns the error for a secret of `bytes` bytes, which is too short or too long.
[[nodiscard]] error wrong_secret_size(const std::string& path, std::size_t bytes);

}  // namespace verbena::inline VERBENA_ABI::detail

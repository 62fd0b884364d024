// SPDX-License-Identifier: MIT
// The file of the secret that authenticates packets: VERBENA_SOFTDEV_WIRE_KEY_FILE.
#pragma once

#include <cstddef>
#include <string>

#include "softdev/wire/auth/wire_key.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

inline constexpr std::size_t least_secret_bytes = 16;
inline constexpr std::size_t most_secret_bytes = 4096;

/// Reads a secret: all bytes of a regular file that only its user can read. Does not block. Errors:
/// the errno of open(2) or read(2); EINVAL if it is not a regular file or has another size; EACCES
/// if it belongs to another user, or other users have access to it; those of wire_key::derive.
[[nodiscard]] result<wire::wire_key> read_wire_key(const std::string& path);

}  // namespace verbena::softdev

// SPDX-License-Identifier: MIT
// The file of the secret that authenticates packets: VERBENA_SOFTDEV_WIRE_KEY_FILE.
#pragma once

#include <string>

#include "softdev/wire/auth/wire_key.hpp"
#include "src/base/secret_file.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

using verbena::detail::least_secret_bytes;
using verbena::detail::most_secret_bytes;

/// Reads a secret: all bytes of a regular file that only its user can read. Does not block. Errors:
/// those of open_secret_file, read(2) and wire_key::derive.
[[nodiscard]] result<wire::wire_key> read_wire_key(const std::string& path);

}  // namespace verbena::softdev

// SPDX-License-Identifier: MIT
// Requests to an HTTP server, through libcurl.so.4.
#pragma once

#include <string>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The answer to a request. Threads: immutable value.
struct http_answer {
  long status = 0;
  std::string body;
  std::string local_address;  ///< local address of the connection
};

/// Posts JSON and returns the answer. Does not use a proxy or follow redirections. The first call
/// loads libcurl.so.4. Blocks and allocates. Thread-safe.
///
/// Errors: `not_supported` if the library was built without libcurl; `unavailable` if libcurl.so.4
/// is not installed, or if the server cannot be reached; `timed_out`; `protocol` if the answer
/// exceeds 64 KiB.
[[nodiscard]] result<http_answer> post_json(const std::string& url, const std::string& body,
                                            deadline until);

}  // namespace verbena::inline VERBENA_ABI::net::detail

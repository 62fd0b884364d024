// SPDX-License-Identifier: MIT
#include "verbena/verbs/read_sink.hpp"

#include <algorithm>
#include <string>

#include "src/verbs/iwarp.hpp"
#include "src/verbs/text.hpp"
#include "verbena/verbs/device_attributes.hpp"

namespace verbena::inline VERBENA_ABI {

access_flags read_sink_access(const context& device) {
  access_flags access = access::local_write;
  if (detail::is_iwarp(device)) access |= access::remote_write;
  return access;
}

result<void> check_read_sink(const context& device, access_flags access, std::size_t slices) {
  const access_flags needed = read_sink_access(device);
  if ((access & needed) != needed)
    return error::invalid_argument(
        "check_read_sink", device.name(),
        "memory to read into needs " + to_string(needed) + ", and has " + to_string(access) +
            (detail::is_iwarp(device)
                 ? ": the peer of an iWARP connection answers a read by writing"
                 : ""));
  VERBENA_TRY(const auto limits, device.query());
  const int most = std::max(1, limits.max_read_slices());
  if (slices > static_cast<std::size_t>(most))
    return error::invalid_argument(
        "check_read_sink", device.name(),
        "a read goes into at most " + detail::counted(static_cast<std::uint64_t>(most), "slice") +
            " here, not " + std::to_string(slices) + ": post several reads");
  return {};
}

}  // namespace verbena::inline VERBENA_ABI

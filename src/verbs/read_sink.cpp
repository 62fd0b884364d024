// SPDX-License-Identifier: MIT
#include "verbena/verbs/read_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "src/verbs/iwarp.hpp"
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
        fmt::format(
            "the sink of a read needs the access flags {}, not {}{}", to_string(needed),
            to_string(access),
            detail::is_iwarp(device) ? ": on iWARP, the response to a read is a write" : ""));
  VERBENA_TRY(const auto limits, device.query());
  const int most = std::max(1, limits.max_read_sge());
  if (slices > static_cast<std::size_t>(most))
    return error::invalid_argument(
        "check_read_sink", device.name(),
        fmt::format("the read has {} slices; reads of the device have at most {}: post several "
                    "reads",
                    slices, most));
  return {};
}

}  // namespace verbena::inline VERBENA_ABI

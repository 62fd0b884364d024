// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::detail {

class channel_core;

/// Connects channels at their first operations. Threads: one thread at a time, with the channels.
class first_use {
 public:
  /// Connects a channel by channel_core::connect_first(), or returns the reason for the failure.
  /// Blocks until `until`. If `until` is deadline::never(), the object sets the limit.
  [[nodiscard]] virtual result<void> connect(channel_core& which, std::uint32_t peer,
                                             deadline until) = 0;
  /// Returns true if the object has a connected queue pair, which the next operation uses.
  [[nodiscard]] virtual bool has_queue_pair(std::uint32_t /*peer*/) const { return false; }

 protected:
  first_use() = default;
  first_use(const first_use&) = default;
  first_use& operator=(const first_use&) = default;
  ~first_use() = default;
};

}  // namespace verbena::inline VERBENA_ABI::detail

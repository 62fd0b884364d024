// SPDX-License-Identifier: MIT
// What both kinds of completion queues do when they are created.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "verbena/base/result.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::detail {

struct completion_queue_request {
  std::string_view call;
  std::uint32_t capacity;
  std::uint32_t completion_vector;
};

/// Refuses what no device has.
[[nodiscard]] result<void> check_completion_queue(const context& of,
                                                  completion_queue_request request);
/// The error of the creating verb; names the device's limit.
[[nodiscard]] error completion_queue_error(const context& of, completion_queue_request request,
                                           int code);
[[nodiscard]] std::shared_ptr<completion_queue_state> make_completion_queue_state(
    ibv_cq* native, const context& of, ownership owner,
    const std::optional<completion_channel>& channel);

}  // namespace verbena::inline VERBENA_ABI::detail

// SPDX-License-Identifier: MIT
// Creation of completion queues of both kinds.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "verbena/base/result.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/detail/call.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"

namespace verbena::inline VERBENA_ABI::detail {

struct completion_queue_request {
  std::string_view call;
  std::uint32_t capacity;
  std::uint32_t completion_vector;
};

/// Checks the capacity, the completion vector and the context of the completion channel.
[[nodiscard]] result<void> check_completion_queue(const context& of,
                                                  completion_queue_request request,
                                                  const std::optional<completion_channel>& channel);
/// Returns the error of the creating verb with the limit of the device.
[[nodiscard]] error completion_queue_error(const context& of, completion_queue_request request,
                                           int code);
[[nodiscard]] std::shared_ptr<completion_queue_state> make_completion_queue_state(
    ibv_cq* native, const context& of, ownership owner,
    const std::optional<completion_channel>& channel);

/// A verb that creates extended completion queues.
struct extended_queue_creator {
  std::string_view call;
  created<ibv_cq_ex> (*create)(const context& of, ibv_cq_init_attr_ex& asked);
};
/// Creates an extended completion queue with the verb `with`.
[[nodiscard]] result<extended_completion_queue> create_extended_queue(
    const context& of, std::uint32_t capacity, const extended_completion_queue_options& options,
    const extended_queue_creator& with);

}  // namespace verbena::inline VERBENA_ABI::detail

// SPDX-License-Identifier: MIT
// Errors of failed completions and refused posts, with the peer and the options of the queue pair.
// For use after a failure only.
#include "src/verbs/queue_pair_report.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/list_refusal.hpp"
#include "src/verbs/device_reason.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/verbs/queue_pair_base.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
namespace {

std::string address_text(const address_vector& of) {
  if (!of.gid) return fmt::format("LID {:#x}", of.lid.value());
  constexpr std::string_view mapped = "::ffff:";
  const std::string text = to_string(*of.gid);
  return of.gid->is_ipv4_mapped() && text.starts_with(mapped) ? text.substr(mapped.size()) : text;
}

}  // namespace

std::string peer_of(const queue_pair_base& queue) {
  const ibv_qp_type type = queue.native()->qp_type;
  if (type != IBV_QPT_RC && type != IBV_QPT_UC) return {};
  using attribute = queue_pair_attribute;
  const auto asked = queue.query(attribute::state | attribute::address | attribute::destination);
  if (!asked) return {};
  const auto destination = asked->destination();
  const auto address = asked->address();
  if (!destination || destination->value() == 0 || !address) return {};
  return fmt::format(" to queue pair {:#x} at {}", destination->value(), address_text(*address));
}

namespace {

// The send queue or the receive queue in the error of a refused post.
struct posted_queue {
  std::string_view name;
  std::string_view option;  // the word in max_send_wr and max_recv_wr
  std::uint32_t requests;
  std::uint32_t slices;
  const char* first_state;  // the first one that accepts requests
  bool (*accepts)(queue_pair_state);
};

bool accepts_sends(queue_pair_state state) {
  return state != queue_pair_state::reset && state != queue_pair_state::init &&
         state != queue_pair_state::ready_to_receive;
}

bool accepts_receives(queue_pair_state state) { return state != queue_pair_state::reset; }

std::string explain_full(const posted_queue& queue) {
  std::string text = fmt::format("the {} queue is full", queue.name);
  if (queue.requests > 0) text += fmt::format(": it holds {} requests", queue.requests);
  text += fmt::format(
      "; poll completions before posting more, or create the queue pair with a larger max_{}_wr",
      queue.option);
  if (queue.accepts == accepts_sends)
    text +=
        "; an unsignaled request occupies its entry until the completion of a later signaled "
        "request is polled";
  return text;
}

std::string explain_request(const posted_queue& queue, const request_shape& posted,
                            std::uint32_t inline_limit) {
  if (queue.slices > 0 && posted.slices > queue.slices)
    return fmt::format("the request has {} slices, max_{}_sge of the queue pair is {}",
                       posted.slices, queue.option, queue.slices);
  if (posted.inline_bytes > inline_limit)
    return fmt::format(
        "the request has {} bytes of inline data, max_inline_data of the queue pair is {}",
        posted.inline_bytes, inline_limit);
  return "the state of the queue pair accepts requests; the request has an operation or a flag "
         "that the queue pair was not created for";
}

error refused_post(const queue_pair_base& queue, const post_status& refused,
                   const request_shape& posted, const posted_queue& which) {
  VERBENA_ASSERT(!refused.has_value(),
                 "describe_refused_send() or describe_refused_receive() of a post that succeeded: "
                 "check the status first");
  const auto state = queue.current_state();
  std::string cause;
  if (refused.code() == ENOMEM || refused.code() == ENOSPC) {
    cause = explain_full(which);
    if (refused.code() == ENOSPC) cause += refused_list;
  } else if (refused.code() != EINVAL || !state) {
    return refused.error();
  } else if (which.accepts == accepts_receives && queue.native()->srq != nullptr) {
    cause = "the queue pair has a shared receive queue: post receives to that queue";
  } else {
    cause =
        which.accepts(*state)
            ? explain_request(which, posted, queue.capabilities().max_inline_data)
            : fmt::format("the queue pair is in {}, and its {} queue accepts requests from {} on",
                          to_string(*state), which.name, which.first_state);
  }
  return error::from_errno(refused.code(), fmt::format("posting to the {} queue", which.name),
                           queue.name(),
                           fmt::format("{}; {} requests before it were accepted", cause,
                                       refused.accepted_before_failure()));
}

}  // namespace
}  // namespace detail

error queue_pair_base::describe(const completion& failed, const request_details& known) const {
  VERBENA_ASSERT(!failed.ok(), "describe() of a completion that succeeded: check the status first");
  const completion_status status = failed.status();
  std::string text = to_string(status);
  if (const auto meaning = verbena::describe(status); !meaning.empty())
    text += fmt::format(" ({})", meaning);
  text += fmt::format(", vendor error {:#x}", failed.vendor_error());
  if (known.remote) text += fmt::format(", remote memory {}", to_string(*known.remote));
  const std::string reason = detail::device_reason(
      provider(), {failed.id(), status, failed.queue_pair(), failed.vendor_error()});
  if (!reason.empty()) text += fmt::format("; the device reports: {}", reason);
  if (const auto cause = verbena::likely_cause(status); !cause.empty())
    text += fmt::format("; usually: {}", cause);
  std::string call = fmt::format("work request {}", failed.id());
  if (known.operation) call += fmt::format(" ({})", to_string(*known.operation));
  return error(error_kind::completion, static_cast<int>(status), call,
               name() + detail::peer_of(*this), text);
}

error queue_pair_base::describe_refused_send(const post_status& refused,
                                             const request_shape& posted) const {
  return detail::refused_post(*this, refused, posted,
                              {.name = "send",
                               .option = "send",
                               .requests = granted_.max_send_wr,
                               .slices = granted_.max_send_sge,
                               .first_state = "RTS",
                               .accepts = detail::accepts_sends});
}

error queue_pair_base::describe_refused_receive(const post_status& refused,
                                                const request_shape& posted) const {
  return detail::refused_post(*this, refused, posted,
                              {.name = "receive",
                               .option = "recv",
                               .requests = granted_.max_recv_wr,
                               .slices = granted_.max_recv_sge,
                               .first_state = "INIT",
                               .accepts = detail::accepts_receives});
}

}  // namespace verbena::inline VERBENA_ABI

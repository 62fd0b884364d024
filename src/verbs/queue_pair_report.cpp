// SPDX-License-Identifier: MIT
// Errors of failed completions and refused posts, with the peer and the options of the queue pair.
// For use after a failure only.
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "src/verbs/device_reason.hpp"
#include "src/verbs/text.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/verbs/queue_pair_base.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
namespace {

std::string address_text(const address_vector& of) {
  if (!of.gid) return "LID " + hexadecimal(of.lid.value());
  constexpr std::string_view mapped = "::ffff:";
  const std::string text = to_string(*of.gid);
  return of.gid->is_ipv4_mapped() && text.starts_with(mapped) ? text.substr(mapped.size()) : text;
}

// Returns ` to queue pair 0x1a2b at 192.0.2.1`; an empty string if the queue pair has no peer.
std::string peer_of(const queue_pair_base& queue) {
  const ibv_qp_type type = queue.native()->qp_type;
  if (type != IBV_QPT_RC && type != IBV_QPT_UC) return {};
  using attribute = queue_pair_attribute;
  const auto asked = queue.query(attribute::state | attribute::address | attribute::destination);
  if (!asked) return {};
  const auto destination = asked->destination();
  const auto address = asked->address();
  if (!destination || destination->value() == 0 || !address) return {};
  return " to queue pair " + hexadecimal(destination->value()) + " at " + address_text(*address);
}

// The send queue or the receive queue in the error of a refused post.
struct posted_queue {
  const char* name;
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
  std::string text = std::string("the ") + queue.name + " queue is full";
  if (queue.requests > 0) text += ": it holds " + std::to_string(queue.requests) + " requests";
  text += "; poll completions before posting more, or create the queue pair with a larger max_";
  text += queue.name;
  text += "_wr";
  if (std::string_view(queue.name) == "send")
    text += "; an unsignaled request keeps its place until a later signaled one is polled";
  return text;
}

std::string explain_request(const posted_queue& queue, const request_shape& posted,
                            std::uint32_t inline_limit) {
  if (queue.slices > 0 && posted.slices > queue.slices)
    return "the request has " + std::to_string(posted.slices) + " slices, max_" + queue.name +
           "_sge of the queue pair is " + std::to_string(queue.slices);
  if (posted.inline_bytes > inline_limit)
    return "the request has " + std::to_string(posted.inline_bytes) +
           " bytes of inline data, max_inline_data of the queue pair is " +
           std::to_string(inline_limit);
  return "the state accepts requests, so something in the request does not fit the queue pair: an "
         "operation or a flag that it was not created for";
}

error refused_post(const queue_pair_base& queue, const post_status& refused,
                   const request_shape& posted, const posted_queue& which) {
  VERBENA_ASSERT(!refused.has_value(), "a refused post is described only when the post failed");
  const auto state = queue.current_state();
  std::string cause;
  if (refused.code() == ENOMEM || refused.code() == ENOSPC) {
    cause = explain_full(which);
  } else if (refused.code() != EINVAL || !state) {
    return refused.error();
  } else if (which.accepts == accepts_receives && queue.native()->srq != nullptr) {
    cause = "it takes its receives from a shared receive queue: post them there";
  } else {
    cause = which.accepts(*state)
                ? explain_request(which, posted, queue.capabilities().max_inline_data)
                : "the queue pair is in " + to_string(*state) + ", and its " + which.name +
                      " queue takes requests from " + which.first_state + " on";
  }
  return error::from_errno(
      refused.code(), std::string("posting to the ") + which.name + " queue", queue.name(),
      cause + "; " + std::to_string(refused.accepted()) + " requests before it were accepted");
}

}  // namespace
}  // namespace detail

error queue_pair_base::describe(const completion& failed, const request_details& known) const {
  VERBENA_ASSERT(!failed.ok(), "a completion is described as an error only when it failed");
  const completion_status status = failed.status();
  std::string text = to_string(status);
  if (const auto meaning = verbena::describe(status); !meaning.empty())
    text.append(" (").append(meaning).append(")");
  text += ", vendor error " + detail::hexadecimal(failed.vendor_error());
  if (known.remote) text += ", remote memory " + to_string(*known.remote);
  const std::string reason = detail::device_reason(
      provider(), {failed.id(), status, failed.queue_pair(), failed.vendor_error()});
  if (!reason.empty()) text += "; the device says: " + reason;
  if (const auto cause = verbena::likely_cause(status); !cause.empty())
    text.append("; usually: ").append(cause);
  std::string call = "work request " + std::to_string(failed.id());
  if (known.operation) call += " (" + to_string(*known.operation) + ")";
  return error(error_kind::completion, static_cast<int>(status), call,
               name() + detail::peer_of(*this), text);
}

error queue_pair_base::describe_refused_send(const post_status& refused,
                                             const request_shape& posted) const {
  return detail::refused_post(*this, refused, posted,
                              {.name = "send",
                               .requests = granted_.max_send_wr,
                               .slices = granted_.max_send_sge,
                               .first_state = "RTS",
                               .accepts = detail::accepts_sends});
}

error queue_pair_base::describe_refused_receive(const post_status& refused,
                                                const request_shape& posted) const {
  return detail::refused_post(*this, refused, posted,
                              {.name = "recv",
                               .requests = granted_.max_recv_wr,
                               .slices = granted_.max_recv_sge,
                               .first_state = "INIT",
                               .accepts = detail::accepts_receives});
}

}  // namespace verbena::inline VERBENA_ABI

// SPDX-License-Identifier: MIT
#include "verbena/channel/message_channel.hpp"

#include <cerrno>

#include "src/channel/message_core.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

send_result noted(detail::message_core& core, send_result outcome) noexcept {
  if (outcome.refusal() == send_refusal::no_credit) ++core.counters().credit_waits;
  return outcome;
}

template <class Attempt>
send_result until_taken(detail::message_core& core, deadline until, Attempt attempt) {
  send_result outcome = noted(core, attempt());
  if (!outcome.may_be_tried_again()) return outcome;
  core.wait(until, [&] {
    outcome = attempt();
    return !outcome.may_be_tried_again();
  });
  if (!outcome.may_be_tried_again()) return outcome;
  return send_result::refuse(outcome.refusal(), ETIMEDOUT);
}

}  // namespace

verbena::error send_result::error() const {
  VERBENA_ASSERT(!ok(), "error() is of a message that was refused");
  constexpr const char* call = "sending by a message channel";
  switch (why_) {
    case send_refusal::queue_full:
      return error::from_errno(code_, call, {},
                               "as many messages are on their way as the channel has places: try "
                               "again, or prepare it with more (sends)");
    case send_refusal::no_credit:
      return error::from_errno(code_, call, {},
                               "the peer has no receive posted for the message: its program has to "
                               "take messages and drop them, or to have more (receives)");
    case send_refusal::no_buffer:
      return error::from_errno(code_, call, {},
                               "no buffer is free to copy the bytes to: they are on their way, or "
                               "the program keeps those that it took (send_buffers)");
    case send_refusal::too_long:
      return error::from_errno(code_, call, {},
                               "more bytes than a message has, as both sides agreed "
                               "(message_bytes)");
    case send_refusal::foreign_domain:
      return error::from_errno(code_, call, {},
                               "the buffer is registered in another protection domain than the "
                               "channel's");
    case send_refusal::ended:
      return error::from_errno(code_, call, {},
                               "the channel has ended before: describe() says why");
    case send_refusal::verb:
    case send_refusal::none:
      break;
  }
  return error::from_errno(code_, call, {}, "the device refused the request");
}

send_result message_channel::try_send(std::span<const std::byte> bytes) {
  return noted(core(), core().send(bytes));
}

send_result message_channel::try_send(buffer&& memory, const buffer_part& part) {
  return noted(core(), core().send(memory, part));
}

send_result message_channel::send(std::span<const std::byte> bytes, deadline until) {
  return until_taken(core(), until, [&] { return core().send(bytes); });
}

send_result message_channel::send(buffer&& memory, const buffer_part& part, deadline until) {
  return until_taken(core(), until, [&] { return core().send(memory, part); });
}

std::optional<buffer> message_channel::take_buffer() { return core().take_buffer(); }

std::optional<buffer> message_channel::take_buffer(deadline until) {
  std::optional<buffer> found;
  core().wait(until, [&] { return (found = core().take_buffer()).has_value(); });
  return found;
}

std::optional<received_message> message_channel::try_receive() { return core().receive(); }

std::optional<received_message> message_channel::receive(deadline until) {
  std::optional<received_message> found;
  core().wait(until, [&] {
    found = core().receive();
    return found.has_value();
  });
  return found;
}

void message_channel::progress() { core().progress(); }

bool message_channel::drain(deadline until) {
  return core().wait(until, [&] {
    core().end_silence();
    return delivered() == sent();
  });
}

void message_channel::flush() { core().flush(); }

const message_failure* message_channel::failure() const {
  const auto& why = core().failure();
  return why ? &*why : nullptr;
}

error message_channel::describe() const { return core().describe(); }
std::uint64_t message_channel::sent() const { return core().sent(); }
std::uint64_t message_channel::delivered() const { return core().delivered(); }
std::uint64_t message_channel::received() const { return core().received(); }
const message_counters& message_channel::counters() const { return core().counters(); }
std::uint32_t message_channel::message_bytes() const { return core().message_bytes(); }
std::uint32_t message_channel::inline_bytes() const { return core().inline_bytes(); }
bool message_channel::uses_credits() const { return core().uses_credits(); }
const buffer_pool& message_channel::receive_pool() const { return core().receive_pool(); }

const queue_pair<rc>* message_channel::queue() const {
  const auto& queue = core().queue();
  return queue ? &*queue : nullptr;
}

}  // namespace verbena::inline VERBENA_ABI

// SPDX-License-Identifier: MIT
#include "verbena/channel/message_channel.hpp"

#include <cerrno>

#include <string>

#include "src/channel/message_core.hpp"
#include "verbena/channel/completion_hub.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

send_result noted(detail::message_core& core, send_result outcome) noexcept {
  if (outcome.refusal() == send_refusal::no_credit) ++core.counters().credit_waits;
  return outcome;
}

template <class Attempt>
send_result until_taken(detail::message_core& core, deadline until, Attempt attempt) {
  send_result outcome = noted(core, attempt());
  if (!outcome.is_retryable()) return outcome;
  core.wait(until, [&] {
    outcome = attempt();
    return !outcome.is_retryable();
  });
  if (!outcome.is_retryable()) return outcome;
  return send_result::refuse(outcome.refusal(), ETIMEDOUT);
}

}  // namespace

verbena::error send_result::error() const {
  VERBENA_ASSERT(!has_value(), "error() of a message that was accepted: check the result first");
  constexpr const char* call = "message_channel::send";
  switch (why_) {
    case send_refusal::queue_full:
      return error::from_errno(code_, call, {},
                               "the send queue is full: try again, or prepare the channel with a "
                               "larger one (max_send_wr)");
    case send_refusal::no_credit:
      return error::from_errno(code_, call, {},
                               "the peer has granted no credit: its program must receive messages "
                               "and destroy them, or have more receives (max_recv_wr)");
    case send_refusal::no_buffer:
      return error::from_errno(
          code_, call, {},
          "no buffer is free for a copy of the bytes: all are in flight or kept "
          "by the program; use more (send_buffers)");
    case send_refusal::too_long:
      return error::from_errno(
          code_, call, {},
          "the message is longer than message_bytes(), the lesser value of both "
          "sides: raise message_bytes on both");
    case send_refusal::foreign_domain:
      return error::from_errno(code_, call, {},
                               "the buffer is registered in a different protection domain from the "
                               "channel: take it from the channel or from a pool of its domain");
    case send_refusal::ended:
      return error::from_errno(code_, call, {}, "the channel has ended: describe() says why");
    case send_refusal::verb:
    case send_refusal::none:
      break;
  }
  return error::from_errno(code_, call, {}, "the device refused the request");
}

send_result message_channel::try_send(std::span<const std::byte> bytes) {
  return noted(core(), core().send(bytes));
}

send_result message_channel::try_send(buffer&& memory, const buffer_slice& part) {
  return noted(core(), core().send(memory, part));
}

send_result message_channel::send(std::span<const std::byte> bytes, deadline until) {
  return until_taken(core(), until, [&] { return core().send(bytes); });
}

verbena::error receive_result::error() const {
  VERBENA_ASSERT(!has_value(), "error() of a message that was received: check the result first");
  if (failure_) return *failure_;
  return error::timed_out("message_channel::receive", {},
                          "no message arrived in time; the channel is unaffected: call again");
}

send_result message_channel::send(buffer&& memory, const buffer_slice& part, deadline until) {
  return until_taken(core(), until, [&] { return core().send(memory, part); });
}

std::optional<buffer> message_channel::take_buffer() { return core().take_buffer(); }

std::optional<buffer> message_channel::take_buffer(deadline until) {
  std::optional<buffer> found;
  core().wait(until, [&] { return (found = core().take_buffer()).has_value(); });
  return found;
}

std::optional<received_message> message_channel::try_receive() {
  std::optional<received_message> found;
  static_cast<void>(core().receive(found));
  return found;
}

bool message_channel::has_message() const { return core().has_message(); }

receive_result message_channel::receive(deadline until) {
  std::optional<received_message> found;
  core().wait(until, [&] { return core().receive(found); });
  if (found) return *std::move(found);
  if (failure() != nullptr) return describe();
  return {};
}

void message_channel::progress() { core().progress(); }

bool message_channel::try_drain() { return core().try_drain(); }

void message_channel::set_tag(std::optional<std::uint64_t> tag) {
  // Only next_ready() of a hub returns the tag, and the channel's own queue has no hub.
  if (core().table().belongs_to_hub()) core().table().set_tag(core(), tag);
}

completion_hub message_channel::hub() const { return completion_hub(core().shared_table()); }

int message_channel::fd() const { return hub().fd(); }
deadline message_channel::next_deadline() const { return hub().next_deadline(); }
result<bool> message_channel::arm() { return hub().arm(); }
result<std::size_t> message_channel::wait(deadline until) { return hub().wait(until); }

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

std::string to_string(const message_channel& of) {
  std::string text = "message channel";
  if (of.qp() != nullptr) text += " on " + of.qp()->name();
  text += ", " + std::to_string(of.sent()) + " sent, " + std::to_string(of.delivered()) +
          " delivered, " + std::to_string(of.received()) + " received";
  if (of.failure() != nullptr) text += ", ended";
  return text;
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

detail::message_core& message_channel::core() const {
  VERBENA_ASSERT(core_.get() != nullptr, "a moved-from message_channel was used");
  return *core_;
}

cm::connection* message_channel::connection() { return core().connection(); }

const queue_pair<rc>* message_channel::qp() const {
  const auto& queue = core().qp();
  return queue ? &*queue : nullptr;
}

}  // namespace verbena::inline VERBENA_ABI

// SPDX-License-Identifier: MIT
#include "verbena/channel/operation_result.hpp"

#include <cerrno>
#include <string>

namespace verbena::inline VERBENA_ABI {
namespace {

std::string place(std::source_location posted) {
  return std::string("posted at ") + posted.file_name() + ":" + std::to_string(posted.line());
}

error refused(refusal why, int code) {
  constexpr const char* call = "posting to a channel";
  switch (why) {
    case refusal::verb:
      return error::from_errno(code, call, {}, "the device refused the request");
    case refusal::queue_full:
      return error::from_errno(
          code, call, {},
          "the queue is full: wait for an operation to complete, or create the "
          "channel with larger queues (max_send_wr, max_recv_wr)");
    case refusal::foreign_domain:
      return error::invalid_argument(
          call, {},
          "the memory is registered in a different protection domain from "
          "the channel: register it in channel::domain()");
    case refusal::too_many_slices:
      return error::invalid_argument(
          call, {},
          "more slices than the channel was created for (max_send_sge, max_recv_sge), or than one "
          "read of this device fills (max_sge_rd, often 1 on iWARP): use fewer slices");
    case refusal::remote_bounds:
      return error::invalid_argument(
          call, {}, "the operation exceeds the remote region: use less local memory, or a slice");
    case refusal::atomic_shape:
      return error::invalid_argument(
          call, {},
          "an atomic operation needs exactly 8 local bytes and a remote address divisible by 8");
    case refusal::not_connected:
      return error::from_errno(code, call, {},
                               "the connection of the channel has ended: see "
                               "failure(), then call reconnect()");
    case refusal::connect_failed:
      return error::from_errno(code, call, {},
                               "the channel could not be connected at its first use; "
                               "channel::describe() has the cause, and the next operation tries "
                               "again");
    case refusal::limit_passed:
      return error::timed_out(call, {},
                              "the limit of the call passed before the operation was posted: use a "
                              "later one");
    case refusal::cancelled:
      return error::from_errno(code, call, {}, "the operation was cancelled before it was posted");
    case refusal::channel_destroyed:
      return error::from_errno(code, call, {},
                               "the channel was destroyed before the operation was posted: keep it "
                               "until its operations have ended");
    case refusal::not_collected:
      return error::from_errno(code, call, {},
                               "operations that have ended occupy all places of the completion "
                               "hub: collect them with completion_hub::next_completed()");
    case refusal::none:
      break;
  }
  return error::invalid_argument(call, {}, "no operation was posted");
}

}  // namespace

delivery operation_result::delivery() const noexcept {
  using enum verbena::delivery;
  using detail::operation_kind;
  using status = completion_status;
  if (has_value()) return done;
  if (end_ == operation_end::refused) return not_done;
  if (kind_ == operation_kind::read) return not_done;
  if (!completed_) return unknown;
  if (kind_ == operation_kind::receive) return not_done;
  switch (done_.status()) {
    case status::rnr_retries_exceeded:
      // The bytes of a write arrive before the immediate data consumes a receive.
      return kind_ == operation_kind::write_with_immediate ? unknown : not_done;
    case status::remote_invalid_request:
    case status::remote_access_error:
    case status::remote_operation_error:
    case status::local_protection_error:
    case status::local_length_error:
      return kind_ == operation_kind::send ? not_done : unknown;
    default:
      return unknown;
  }
}

error operation_result::error() const {
  VERBENA_ASSERT(!has_value(), "error() of an operation that succeeded: check the result first");
  switch (end_) {
    case operation_end::refused:
      return refused(why_, number_).with_diagnosis(place(posted_));
    case operation_end::aborted:
      return error::timed_out(
          "operation of a channel", {},
          "an abort_at passed, or abort() or a cancellation ended the connection, to release the "
          "memory of its operations; the operation may have taken effect at the peer; " +
              place(posted_));
    case operation_end::lost:
      return error::from_errno(
          number_ == 0 ? EIO : number_, "operation of a channel", {},
          "the queue pair was destroyed before the operation completed; the operation may have "
          "taken effect at the peer; " +
              place(posted_));
    case operation_end::failed:
    case operation_end::success:
      break;
  }
  return done_.result().error().with_diagnosis(place(posted_));
}

}  // namespace verbena::inline VERBENA_ABI

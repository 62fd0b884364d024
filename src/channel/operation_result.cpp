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
      return error::from_errno(code, call, {},
                               "as many operations are in flight as the channel has places: wait "
                               "for one, or create it with more (max_send_wr, max_recv_wr)");
    case refusal::foreign_domain:
      return error::invalid_argument(call, {},
                                     "the memory is registered in another protection domain than "
                                     "the channel's: register it there, or make the channel here");
    case refusal::too_many_pieces:
      return error::invalid_argument(call, {},
                                     "more pieces of memory than the channel was created for "
                                     "(max_send_sge, max_recv_sge), or than a read of this device "
                                     "fills (max_sge_rd, on iWARP usually 1)");
    case refusal::remote_bounds:
      return error::invalid_argument(call, {}, "more bytes than the peer's region has");
    case refusal::atomic_shape:
      return error::invalid_argument(
          call, {}, "an atomic operation is on 8 bytes, at an address of the peer divisible by 8");
    case refusal::not_connected:
      return error::from_errno(code, call, {},
                               "the channel has no connection after an earlier failure: see "
                               "failure(), and reconnect()");
    case refusal::none:
      break;
  }
  return error::invalid_argument(call, {}, "nothing was posted");
}

}  // namespace

delivery operation_result::delivery() const noexcept {
  using enum verbena::delivery;
  using detail::operation_kind;
  using status = completion_status;
  if (ok()) return done;
  if (end_ == operation_end::refused) return not_done;
  if (kind_ == operation_kind::read) return not_done;
  if (!completed_) return unknown;
  if (kind_ == operation_kind::receive) return not_done;
  switch (done_.status()) {
    case status::rnr_retries_exceeded:
      // The bytes of a write arrive before a receive for its number is looked for.
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
  VERBENA_ASSERT(!ok(), "error() is of an operation that failed");
  switch (end_) {
    case operation_end::refused:
      return refused(why_, number_).with_diagnosis(place(posted_));
    case operation_end::deadline:
      return error::timed_out(
          "operation of a channel", {},
          "a deadline passed and the channel was flushed to get the memory back; whether the peer "
          "has seen something of the operation is unknown; " +
              place(posted_));
    case operation_end::lost:
      return error::from_errno(
          number_ == 0 ? EIO : number_, "operation of a channel", {},
          "the channel lost its queue pair before the operation completed; whether the peer has "
          "seen something of it is unknown; " +
              place(posted_));
    case operation_end::failed:
    case operation_end::success:
      break;
  }
  return done_.result().error().with_diagnosis(place(posted_));
}

}  // namespace verbena::inline VERBENA_ABI

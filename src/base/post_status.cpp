// SPDX-License-Identifier: MIT
#include "verbena/base/post_status.hpp"

#include <cerrno>
#include <string>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

const char* likely_cause(int code) {
  switch (code) {
    case ENOMEM:
    case ENOSPC:  // what rxe's extended interface says
      return "the queue is full: poll completions before posting more, or create the queue pair "
             "with a larger max_send_wr or max_recv_wr";
    case EINVAL:
      return "the queue pair is in a state that does not accept the request, or the request has "
             "too many slices, too much inline data or an operation that was not asked for";
    case EOPNOTSUPP:
      return "the device does not have this operation";
    case ENODEV:
    case EIO:
      return "the device is gone";
    default:
      return "";
  }
}

}  // namespace

verbena::error post_status::error() const {
  VERBENA_ASSERT(!ok(), "error() is asked of a post_status only when the post failed");
  const std::string cause = likely_cause(code());
  return verbena::error::from_errno(
      code(), "posting", "request " + std::to_string(accepted_) + " of the list",
      "the " + std::to_string(accepted_) + " before it were accepted" +
          (cause.empty() ? "" : "; " + cause));
}

}  // namespace verbena::inline VERBENA_ABI

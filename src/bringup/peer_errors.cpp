// SPDX-License-Identifier: MIT
#include "src/bringup/peer_errors.hpp"

#include <cerrno>

namespace verbena::inline VERBENA_ABI::bringup::detail {

error closed_by(const std::string& peer) {
  return error::from_errno(
      ECONNRESET, "recv", peer,
      "the peer closed the connection: its process exited or rejected the connection; see its log");
}

error silent(std::string_view call, const std::string& peer, bool in_a_frame) {
  return error::timed_out(
      call, peer,
      in_a_frame ? "the peer stopped in the middle of a frame; is its host overloaded or suspended?"
                 : "the peer did not answer in time; it must make the matching call, or the "
                   "deadline is too short");
}

error unexpected_frame(std::string_view call, const std::string& peer, frame_type got,
                       frame_type due) {
  return error::protocol(call, peer,
                         "the peer sent `" + to_string(got) + "` where `" + to_string(due) +
                             "` was due: both sides must make matching calls in the same order");
}

error refused_by(std::string_view call, const std::string& peer,
                 std::span<const std::byte> reason) {
  return error::from_errno(ECONNABORTED, call, peer,
                           std::string(refusal_prefix) + printable_refusal(reason));
}

error about(const error& what, const std::string& peer) {
  return error(what.kind(), what.code(), what.call(), peer, what.diagnosis());
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail

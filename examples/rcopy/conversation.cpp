// SPDX-License-Identifier: MIT
#include "examples/rcopy/conversation.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace rcopy {
namespace {

using verbena::deadline;
using verbena::error;
using verbena::result;

/// The longest wait for the reason of a failure from the peer.
constexpr auto reason_timeout = std::chrono::seconds(1);

error error_from_peer(verbena::bringup::stream& peer) {
  const auto received = peer.receive(deadline::after(reason_timeout));
  if (!received) return received.error();
  return error::protocol("receive", peer.peer(), "the peer sent an unexpected message");
}

}  // namespace

result<void> wait_for(const conversation& with, int fd, short events, deadline until) {
  // The peer sends no message during the transfer, except data if `fd` is the stream.
  const bool data_from_peer = fd == with.peer.fd() && (events & POLLIN) != 0;
  while (true) {
    std::array<pollfd, 3> entries{pollfd{with.interrupted_fd, POLLIN, 0},
                                  pollfd{data_from_peer ? -1 : with.peer.fd(), POLLIN, 0},
                                  pollfd{fd, events, 0}};
    const int ready = ::poll(entries.data(), entries.size(), until.poll_timeout_ms());
    if (ready < 0 && errno != EINTR) return error::from_errno(errno, "poll", with.peer.peer());
    if (ready == 0 && until.expired())
      return error::timed_out("copy", with.peer.peer(),
                              "no progress for " + std::to_string(with.timeout.count()) +
                                  " ms: check the peer, or raise --timeout");
    if (ready <= 0) continue;
    // The events of `fd` have priority, so that a complete copy is not reported as interrupted.
    if (entries[2].revents != 0) return {};
    if (entries[0].revents != 0)
      return error::from_errno(EINTR, "copy", with.peer.peer(), "a signal interrupted the copy");
    return error_from_peer(with.peer);
  }
}

error cause_of(error symptom, const conversation& with) {
  pollfd entry{with.peer.fd(), POLLIN, 0};
  const auto milliseconds = std::chrono::milliseconds(reason_timeout).count();
  if (::poll(&entry, 1, static_cast<int>(milliseconds)) > 0) return error_from_peer(with.peer);
  return symptom;
}

result<std::vector<std::byte>> next_message(const conversation& with, deadline until) {
  VERBENA_TRY_VOID(wait_for(with, with.peer.fd(), POLLIN, until));
  return with.peer.receive(until);
}

void refuse(const conversation& with, std::string_view reason) {
  with.peer.refuse(reason);
  // If unread bytes arrive after the close, TCP resets the connection and the peer can lose the
  // reason. The call therefore waits until the peer closes, for a limited time.
  const auto until = deadline::after(reason_timeout);
  std::array<std::byte, 4096> unread;
  while (verbena::wait_for_fd(with.peer.fd(), POLLIN, until).value_or(false))
    if (::recv(with.peer.fd(), unread.data(), unread.size(), 0) <= 0) break;
}

}  // namespace rcopy

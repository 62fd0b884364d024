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

/// How long the rest of a peer's last words may take.
constexpr auto last_words_timeout = std::chrono::seconds(1);

error what_the_peer_said(verbena::bringup::stream& peer) {
  const auto said = peer.receive(deadline::after(last_words_timeout));
  if (!said) return said.error();
  return error::protocol("receive", peer.peer(), "the peer spoke before its turn");
}

}  // namespace

result<void> wait_for(const conversation& with, int fd, short events, deadline until) {
  // The peer is silent while data crosses, unless the data itself comes from its stream.
  const bool data_from_peer = fd == with.peer.fd() && (events & POLLIN) != 0;
  while (true) {
    std::array<pollfd, 3> entries{pollfd{with.interrupted_fd, POLLIN, 0},
                                  pollfd{data_from_peer ? -1 : with.peer.fd(), POLLIN, 0},
                                  pollfd{fd, events, 0}};
    const int ready = ::poll(entries.data(), entries.size(), until.poll_timeout_ms());
    if (ready < 0 && errno != EINTR) return error::from_errno(errno, "poll", with.peer.peer());
    if (ready == 0 && until.expired())
      return error::timed_out("copy", with.peer.peer(),
                              "nothing moved for " + std::to_string(with.timeout.count()) +
                                  " ms: the peer hangs, or --timeout is too short");
    if (ready <= 0) continue;
    // Received messages come first: a complete copy was not interrupted.
    if (entries[2].revents != 0) return {};
    if (entries[0].revents != 0)
      return error::from_errno(EINTR, "copy", with.peer.peer(), "it was interrupted");
    return what_the_peer_said(with.peer);
  }
}

error cause_of(error symptom, const conversation& with) {
  pollfd entry{with.peer.fd(), POLLIN, 0};
  const auto milliseconds = std::chrono::milliseconds(last_words_timeout).count();
  if (::poll(&entry, 1, static_cast<int>(milliseconds)) > 0) return what_the_peer_said(with.peer);
  return symptom;
}

result<std::vector<std::byte>> next_message(const conversation& with, deadline until) {
  VERBENA_TRY_VOID(wait_for(with, with.peer.fd(), POLLIN, until));
  return with.peer.receive(until);
}

void refuse(const conversation& with, std::string_view reason) {
  with.peer.refuse(reason);
  // Closing while bytes are on their way here would turn the close into a reset, which can overtake
  // the reason: wait for the peer to close first, but not for long.
  const auto until = deadline::after(last_words_timeout);
  std::array<std::byte, 4096> unread;
  while (verbena::wait_for_fd(with.peer.fd(), POLLIN, until).value_or(false))
    if (::recv(with.peer.fd(), unread.data(), unread.size(), 0) <= 0) break;
}

}  // namespace rcopy

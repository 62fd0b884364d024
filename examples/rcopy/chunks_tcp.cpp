// SPDX-License-Identifier: MIT
#include "examples/rcopy/chunks_tcp.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace rcopy {
namespace {

using verbena::error;
using verbena::result;

error socket_error(int code, const char* call, const conversation& with) {
  return cause_of(error::from_errno(code, call, with.peer.peer()), with);
}

}  // namespace

result<void> tcp_sender::send(std::size_t bytes) {
  std::span<const std::byte> left = std::span(chunk_).first(bytes);
  while (!left.empty()) {
    const auto count = ::send(with_.peer.fd(), left.data(), left.size(), MSG_NOSIGNAL);
    if (count > 0) {
      left = left.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      VERBENA_TRY_VOID(wait_for(with_, with_.peer.fd(), POLLOUT, with_.timeout_from_now()));
    } else if (errno != EINTR) {
      return socket_error(errno, "send", with_);
    }
  }
  return {};
}

result<std::span<const std::byte>> tcp_receiver::next(std::size_t bytes) {
  const auto chunk = std::span(chunk_).first(bytes);
  auto left = chunk;
  while (!left.empty()) {
    const auto count = ::recv(with_.peer.fd(), left.data(), left.size(), 0);
    if (count > 0) {
      left = left.subspan(static_cast<std::size_t>(count));
    } else if (count == 0) {
      return error::from_errno(
          ECONNRESET, "recv", with_.peer.peer(),
          "the peer closed the connection: its process exited or cancelled the copy");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      VERBENA_TRY_VOID(wait_for(with_, with_.peer.fd(), POLLIN, with_.timeout_from_now()));
    } else if (errno != EINTR) {
      return socket_error(errno, "recv", with_);
    }
  }
  return std::span<const std::byte>(chunk);
}

}  // namespace rcopy

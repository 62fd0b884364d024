// SPDX-License-Identifier: MIT
#include "verbena/bringup/stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "src/bringup/peer_errors.hpp"
#include "src/bringup/socket.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

bool would_block(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

}  // namespace

result<stream> stream::connect(const address& to, deadline until, const connect_options& options) {
  VERBENA_TRY(auto socket, detail::connect_to(to, until, options.retry_refused));
  stream made(std::move(socket), to_string(to), options.stream);
  VERBENA_TRY_VOID(made.greet(until));
  return made;
}

result<stream> stream::adopt(unique_fd socket, deadline until, const stream_options& options) {
  VERBENA_TRY(auto peer, detail::check_adoptable(socket.get()));
  stream made(std::move(socket), std::move(peer), options);
  VERBENA_TRY_VOID(made.greet(until));
  return made;
}

result<void> stream::greet(deadline until) {
  VERBENA_TRY_VOID(write_all(encode_greeting(spoken_versions), until));
  std::array<std::byte, greeting_bytes> bytes{};
  std::size_t count = 0;
  while (count < bytes.size()) {
    VERBENA_TRY(const bool ready, wait_for_fd(fd(), POLLIN, until));
    if (!ready)
      return broken(
          error::timed_out("greet", peer_,
                           "the peer accepted the connection but sent no greeting in time; is it "
                           "a Verbena program that calls accept() or stream::adopt()?"));
    VERBENA_TRY_VOID(read_some(std::span(bytes).subspan(count), count));
  }
  const auto theirs = decode_greeting(bytes);
  if (!theirs) return broken(detail::about(theirs.error(), peer_));
  const auto agreed = negotiate(spoken_versions, *theirs);
  if (!agreed) return broken(detail::about(agreed.error(), peer_));
  version_ = *agreed;
  return {};
}

result<void> stream::write_all(std::span<const std::byte> bytes, deadline until) {
  while (!bytes.empty()) {
    VERBENA_TRY(const bool done, write_some(bytes));
    if (done) break;
    VERBENA_TRY(const bool ready, wait_for_fd(fd(), POLLOUT, until));
    if (!ready)
      return broken(error::timed_out("send", peer_,
                                     "the peer did not read in time; it must call receive() "
                                     "or exchange()"));
  }
  return {};
}

result<bool> stream::write_some(std::span<const std::byte>& left) {
  while (!left.empty()) {
    const auto count = ::send(fd(), left.data(), left.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      left = left.subspan(static_cast<std::size_t>(count));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return broken(detail::closed_by(peer_));
    } else if (!would_block(errno)) {
      return broken(error::from_errno(errno, "send", peer_));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

result<void> stream::read_some(std::span<std::byte> room, std::size_t& count) {
  const auto got = ::recv(fd(), room.data(), room.size(), 0);
  if (got > 0) count += static_cast<std::size_t>(got);
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return broken(detail::closed_by(peer_));
  if (got < 0 && !would_block(errno)) return broken(error::from_errno(errno, "recv", peer_));
  return {};
}

/// Sends `out` and receives one frame, in the order that the socket allows. A refusal ends both. It
/// is read even if the peer has closed its end.
result<frame> stream::run(const char* call, std::span<const std::byte> out, deadline until) {
  frame_decoder decoder(options_.max_blob_bytes);
  std::optional<error> send_failure;
  while (!decoder.complete() || !out.empty()) {
    if (auto sent = write_some(out); !sent) {
      send_failure = std::move(sent).error();
      out = {};
    }
    if (decoder.complete() && out.empty()) break;
    const int wanted = (decoder.complete() ? 0 : POLLIN) | (out.empty() ? 0 : POLLOUT);
    VERBENA_TRY(const bool ready, wait_for_fd(fd(), static_cast<short>(wanted), until));
    if (!ready) return broken(detail::silent(call, peer_, decoder.started()));
    if (decoder.complete()) continue;
    std::size_t count = 0;
    VERBENA_TRY_VOID(read_some(decoder.room(), count));
    if (auto decoded = decoder.filled(count); !decoded)
      return broken(detail::about(std::move(decoded).error(), peer_));
    if (decoder.complete() && decoder.type() == frame_type::refusal) return decoder.take();
  }
  if (send_failure) return *std::move(send_failure);
  return decoder.take();
}

result<std::vector<std::byte>> stream::expect(const char* call, frame_type type, frame got) {
  if (got.type == type) return std::move(got.payload);
  if (got.type == frame_type::refusal) return broken(detail::refused_by(call, peer_, got.payload));
  return broken(detail::unexpected_frame(call, peer_, got.type, type));
}

result<void> stream::check_usable(const char* call, std::size_t bytes) const {
  if (!usable_)
    return error::from_errno(ENOTCONN, call, peer_,
                             "an earlier call failed or ended this stream; connect again");
  if (bytes > options_.max_blob_bytes)
    return error::invalid_argument(call, peer_,
                                   "a blob of " + std::to_string(bytes) +
                                       " bytes exceeds the limit of " +
                                       std::to_string(options_.max_blob_bytes) +
                                       " bytes; raise stream_options::max_blob_bytes on both "
                                       "sides");
  return {};
}

result<void> stream::send(std::span<const std::byte> blob, deadline until) {
  VERBENA_TRY_VOID(check_usable("send", blob.size()));
  return write_all(encode_frame(frame_type::blob, blob), until);
}

result<std::vector<std::byte>> stream::receive(deadline until) {
  VERBENA_TRY_VOID(check_usable("receive", 0));
  VERBENA_TRY(auto got, run("receive", {}, until));
  return expect("receive", frame_type::blob, std::move(got));
}

result<std::vector<std::byte>> stream::exchange(std::span<const std::byte> blob, deadline until) {
  return exchange(frame_type::blob, blob, until);
}

result<std::vector<std::byte>> stream::exchange(frame_type type, std::span<const std::byte> payload,
                                                deadline until) {
  VERBENA_TRY_VOID(check_usable("exchange", type == frame_type::blob ? payload.size() : 0));
  const auto out = encode_frame(type, payload);
  VERBENA_TRY(auto got, run("exchange", out, until));
  return expect("exchange", type, std::move(got));
}

void stream::refuse(std::string_view reason) noexcept {
  if (!usable_) return;
  end_with(encode_frame(frame_type::refusal, bytes_of(reason.substr(0, max_refusal_bytes))));
}

void stream::end_with(std::span<const std::byte> bytes) noexcept {
  if (usable_) static_cast<void>(write_some(bytes));  // if it fails, the peer sees the end only
  usable_ = false;
  ::shutdown(fd(), SHUT_WR);
  // Unread bytes at close would turn the close into a reset, which can overtake the reason.
  std::array<std::byte, 4096> unread;
  while (::recv(fd(), unread.data(), unread.size(), 0) > 0) continue;
}

void stream::shut_down() noexcept {
  usable_ = false;
  ::shutdown(fd(), SHUT_RDWR);
}

error stream::broken(error why) noexcept {
  usable_ = false;
  return why;
}

}  // namespace verbena::inline VERBENA_ABI::bringup

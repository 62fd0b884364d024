// SPDX-License-Identifier: MIT
#include "verbena/bringup/stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/call_or_else.hpp"
#include "src/bringup/peer_errors.hpp"
#include "src/bringup/socket.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

bool would_block(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

}  // namespace

result<stream> stream::connect(const address& to, deadline until, const connect_options& options) {
  return connect_in_steps(to, until, options).wait();
}

steps<stream> stream::connect_in_steps(address to, deadline until, connect_options options) {
  VERBENA_CO_TRY(auto socket, co_await detail::connect_to(to, until, options.retry_refused));
  stream made(std::move(socket), to_string(to), options.stream);
  VERBENA_CO_TRY_VOID(co_await made.greet(until));
  co_return std::move(made);
}

result<stream> stream::adopt(unique_fd socket, deadline until, const stream_options& options) {
  return adopt_in_steps(std::move(socket), until, options).wait();
}

steps<stream> stream::adopt_in_steps(unique_fd socket, deadline until, stream_options options) {
  VERBENA_CO_TRY(auto peer, detail::check_adoptable(socket.get()));
  stream made(std::move(socket), std::move(peer), options);
  VERBENA_CO_TRY_VOID(co_await made.greet(until));
  co_return std::move(made);
}

steps<void> stream::greet(deadline until) {
  const auto ours = encode_greeting(supported_versions);
  VERBENA_CO_TRY_VOID(co_await write_all(ours, until));
  std::array<std::byte, greeting_bytes> bytes{};
  std::size_t count = 0;
  while (count < bytes.size()) {
    VERBENA_CO_TRY(const bool ready, co_await verbena::detail::ready(fd(), POLLIN, until));
    if (!ready)
      co_return broken(
          error::timed_out("greet", peer_,
                           "the peer accepted the connection but sent no greeting in time; is it "
                           "a Verbena program that calls accept() or stream::adopt()?"));
    VERBENA_CO_TRY_VOID(read_some(std::span(bytes).subspan(count), count));
  }
  const auto theirs = decode_greeting(bytes);
  if (!theirs) co_return broken(detail::about(theirs.error(), peer_));
  const auto agreed = negotiate(supported_versions, *theirs);
  if (!agreed) co_return broken(detail::about(agreed.error(), peer_));
  version_ = *agreed;
  co_return {};
}

steps<void> stream::write_all(std::span<const std::byte> bytes, deadline until) {
  while (!bytes.empty()) {
    VERBENA_CO_TRY(const bool done, write_some(bytes));
    if (done) break;
    VERBENA_CO_TRY(const bool ready, co_await verbena::detail::ready(fd(), POLLOUT, until));
    if (!ready)
      co_return broken(error::timed_out("send", peer_,
                                        "the peer did not read in time; it must call receive() "
                                        "or exchange()"));
  }
  co_return {};
}

result<bool> stream::write_some(std::span<const std::byte>& left) {
  while (!left.empty()) {
    const auto count = ::send(fd(), left.data(), left.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      left = left.subspan(static_cast<std::size_t>(count));
      can_refuse_ = left.empty();
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

/// Sends `out` and receives one frame, in the order in which the socket is ready. A refusal of the
/// peer ends both, and is read even if the peer has closed its end.
steps<frame> stream::run(const char* call, std::span<const std::byte> out, deadline until) {
  frame_decoder decoder(options_.max_blob_bytes);
  std::optional<error> send_failure;
  while (!decoder.complete() || !out.empty()) {
    if (auto sent = write_some(out); !sent.has_value()) {
      send_failure = std::move(sent).error();
      out = {};
    }
    if (decoder.complete() && out.empty()) break;
    const int wanted = (decoder.complete() ? 0 : POLLIN) | (out.empty() ? 0 : POLLOUT);
    VERBENA_CO_TRY(const bool ready, co_await verbena::detail::ready(fd(), wanted, until));
    if (!ready) co_return broken(detail::silent(call, peer_, decoder.started()));
    if (decoder.complete()) continue;
    std::size_t count = 0;
    VERBENA_CO_TRY_VOID(read_some(decoder.room(), count));
    if (auto decoded = decoder.filled(count); !decoded)
      co_return broken(detail::about(std::move(decoded).error(), peer_));
    if (decoder.complete() && decoder.type() == frame_type::refusal) co_return decoder.take();
  }
  if (send_failure) co_return *std::move(send_failure);
  co_return decoder.take();
}

result<std::vector<std::byte>> stream::expect(const char* call, frame_type type, frame got) {
  if (got.type == type) return std::move(got.payload);
  if (got.type == frame_type::refusal) return broken(detail::refused_by(call, peer_, got.payload));
  return broken(detail::unexpected_frame(call, peer_, got.type, type));
}

error stream::ended(const char* call) const {
  return error::from_errno(ENOTCONN, call, peer_,
                           "an earlier call failed or ended this stream; connect again");
}

// poll(2) ignores a negative descriptor: without this check, a call waits until its deadline.
void stream::check_owned() const {
  VERBENA_ASSERT(static_cast<bool>(socket_), "a moved-from or released stream was used");
}

result<void> stream::check_usable(const char* call, std::size_t bytes) const {
  check_owned();
  if (!usable_) return ended(call);
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
  return send_in_steps(blob, until).wait();
}

result<std::vector<std::byte>> stream::receive(deadline until) {
  return receive_in_steps(until).wait();
}

result<std::vector<std::byte>> stream::exchange(std::span<const std::byte> blob, deadline until) {
  return exchange_in_steps(blob, until).wait();
}

result<std::vector<std::byte>> stream::exchange(frame_type type, std::span<const std::byte> payload,
                                                deadline until) {
  return exchange_in_steps(type, payload, until).wait();
}

steps<void> stream::send_in_steps(std::span<const std::byte> blob, deadline until) {
  VERBENA_CO_TRY_VOID(check_usable("send", blob.size()));
  const auto out = encode_frame(frame_type::blob, blob);
  in_use used(*this, false);
  auto sent = co_await write_all(out, until);
  if (sent) used.end();
  co_return sent;
}

steps<std::vector<std::byte>> stream::receive_in_steps(deadline until) {
  check_owned();
  if (!can_receive_) co_return ended("receive");
  in_use used(*this, true);
  VERBENA_CO_TRY(auto got, co_await run("receive", {}, until));
  auto blob = expect("receive", frame_type::blob, std::move(got));
  if (blob) used.end();
  co_return blob;
}

steps<std::vector<std::byte>> stream::exchange_in_steps(std::span<const std::byte> blob,
                                                        deadline until) {
  return exchange_in_steps(frame_type::blob, blob, until);
}

steps<std::vector<std::byte>> stream::exchange_in_steps(frame_type type,
                                                        std::span<const std::byte> payload,
                                                        deadline until) {
  VERBENA_CO_TRY_VOID(check_usable("exchange", type == frame_type::blob ? payload.size() : 0));
  const auto out = encode_frame(type, payload);
  in_use used(*this, true);
  VERBENA_CO_TRY(auto got, co_await run("exchange", out, until));
  auto answer = expect("exchange", type, std::move(got));
  if (answer) used.end();
  co_return answer;
}

void stream::refuse(std::string_view reason) noexcept {
  check_owned();
  if (!can_refuse_) return;
  std::vector<std::byte> bytes;
  // Without memory, the peer sees a closed stream, without a reason.
  verbena::detail::call_or_else(
      [&] {
        bytes = encode_frame(frame_type::refusal, bytes_of(reason.substr(0, max_refusal_bytes)));
      },
      [] {});
  end_with(bytes);
}

void stream::end_with(std::span<const std::byte> bytes) noexcept {
  // On failure, the peer sees a closed stream.
  if (usable_ || can_refuse_) static_cast<void>(write_some(bytes));
  usable_ = can_receive_ = can_refuse_ = false;
  ::shutdown(fd(), SHUT_WR);
  // If bytes are unread at close(2), the kernel sends a reset, which can overtake the reason. The
  // limit, which exceeds the default of tcp_rmem, ends the loop if the peer sends without a pause.
  constexpr std::size_t max_unread = std::size_t{8} * 1024 * 1024;
  std::array<std::byte, 4096> unread;
  for (std::size_t count = 0; count < max_unread;) {
    const auto got = ::recv(fd(), unread.data(), unread.size(), 0);
    if (got <= 0) break;
    count += static_cast<std::size_t>(got);
  }
}

void stream::shut_down() noexcept {
  check_owned();
  usable_ = can_receive_ = can_refuse_ = false;
  ::shutdown(fd(), SHUT_RDWR);
}

error stream::broken(error why) noexcept {
  usable_ = false;
  return why;
}

}  // namespace verbena::inline VERBENA_ABI::bringup

// SPDX-License-Identifier: MIT
#include "src/net/rail_message.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "src/bringup/socket.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

constexpr std::uint8_t rail_hello = 1;
constexpr std::uint8_t rail_protocol = 1;
constexpr std::size_t rail_header_bytes = 6;
constexpr std::size_t most_reason_bytes = 512;

error no_rail_message(std::span<const std::byte> bytes) {
  return error::protocol("rail_control::poll", {},
                         fmt::format("{} bytes are no message between rails", bytes.size()));
}

bool has_endpoint(rail_message_kind kind) noexcept {
  return kind == rail_message_kind::connect || kind == rail_message_kind::connected;
}

}  // namespace

std::string printable_reason(std::span<const std::byte> sent) {
  std::string text;
  std::ranges::transform(sent, std::back_inserter(text), [](std::byte each) {
    const auto letter = static_cast<char>(each);
    return letter >= ' ' && letter <= '~' ? letter : '?';
  });
  return text;
}

std::vector<std::byte> encode(const rail_message& of) {
  std::vector<std::byte> out(rail_header_bytes);
  out[0] = static_cast<std::byte>(of.kind);
  out[1] = static_cast<std::byte>(of.rail);
  store_network_order(&out[2], of.generation);
  if (of.endpoint) std::ranges::copy(of.endpoint->encode(), std::back_inserter(out));
  const auto reason = bytes_of(of.reason).first(std::min(of.reason.size(), most_reason_bytes));
  std::ranges::copy(reason, std::back_inserter(out));
  return out;
}

result<rail_message> decode_rail_message(std::span<const std::byte> bytes, std::uint32_t rails) {
  byte_reader from(bytes);
  const auto kind = from.take<std::uint8_t>();
  const auto rail = from.take<std::uint8_t>();
  const auto generation = from.take<std::uint32_t>();
  constexpr auto first = static_cast<std::uint8_t>(rail_message_kind::connect);
  constexpr auto last = static_cast<std::uint8_t>(rail_message_kind::port);
  if (!generation || *kind < first || *kind > last || *rail >= rails) return no_rail_message(bytes);
  rail_message out{
      .kind = static_cast<rail_message_kind>(*kind), .rail = *rail, .generation = *generation};
  const auto rest = from.rest();
  if (has_endpoint(out.kind)) {
    VERBENA_TRY(out.endpoint, verbena::endpoint::decode(rest));
  } else if (out.kind == rail_message_kind::refused) {
    if (rest.size() > most_reason_bytes) return no_rail_message(bytes);
    out.reason = printable_reason(rest);
  } else if (!rest.empty() || (out.kind == rail_message_kind::port && *generation > 1)) {
    return no_rail_message(bytes);
  }
  return out;
}

rail_hello_bytes hello_of(rail_role role, std::uint32_t rails) noexcept {
  return {std::byte{rail_hello}, std::byte{rail_protocol}, static_cast<std::byte>(rails),
          static_cast<std::byte>(role)};
}

result<void> exchange_hellos(const char* call, bringup::stream& with, rail_role role,
                             std::uint32_t rails, deadline until) {
  const auto ours = hello_of(role, rails);
  VERBENA_TRY(const auto theirs, with.exchange(ours, until));
  return check_hello(call, with.peer(), ours, theirs);
}

result<void> check_hello(const char* call, const std::string& peer, const rail_hello_bytes& ours,
                         std::span<const std::byte> theirs) {
  const bool is_hello = theirs.size() >= 2 && theirs[0] == ours[0];
  const bool is_same_version = is_hello && theirs[1] == ours[1];
  if (!is_hello || (is_same_version && theirs.size() != ours.size()))
    return error::protocol(call, peer,
                           fmt::format("{} bytes are no greeting of a rail_responder or a "
                                       "multi_rail_channel",
                                       theirs.size()));
  if (!is_same_version)
    return error::protocol(call, peer,
                           fmt::format("the peer has version {} of the messages between rails, "
                                       "not {}; use one version of the library on both sides",
                                       static_cast<int>(theirs[1]), rail_protocol));
  if (theirs[2] != ours[2])
    return error::protocol(call, peer,
                           fmt::format("the peer has {} rails, and this side {}; pass the same "
                                       "number of rails on both sides",
                                       static_cast<int>(theirs[2]), static_cast<int>(ours[2])));
  if (theirs[3] == ours[3])
    return error::protocol(call, peer,
                           "the peer called the same function; one side calls "
                           "multi_rail_channel::connect(), the other rail_responder::accept()");
  return {};
}

rail_control::rail_control(bringup::stream with, std::uint32_t rails) noexcept
    : stream_(std::move(with)), rails_(rails) {
  bringup::detail::detect_failed_host(fd());
}

void rail_control::send(const rail_message& what) {
  if (failure_) return;
  if (auto sent = stream_.send(encode(what), deadline::after(time_for_rail_messages)); !sent)
    failure_ = std::move(sent).error();
}

std::optional<rail_message> rail_control::poll() {
  if (failure_) return std::nullopt;
  auto received = receive();
  if (!received) return std::nullopt;
  if (!*received) {
    failure_ = std::move(*received).error();
    return std::nullopt;
  }
  auto decoded = decode_rail_message(**received, rails_);
  if (decoded) return *std::move(decoded);
  refuse(std::move(decoded).error().with_diagnosis("sent by " + peer()));
  return std::nullopt;
}

// Receives the parts of a message that have arrived. Returns the message when it is complete.
std::optional<result<std::vector<std::byte>>> rail_control::receive() {
  const auto is_due = [this] {
    pollfd readable{.fd = fd(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, 0) > 0 || (receiving_ && receiving_->next_deadline().expired());
  };
  while (is_due()) {
    // If progress() throws, the steps end, and the next call returns an error.
    auto parts = receiving_ ? *std::exchange(receiving_, std::nullopt)
                            : stream_.receive_in_steps(deadline::after(time_for_rail_messages));
    if (auto received = parts.progress()) return received;
    receiving_.emplace(std::move(parts));
  }
  return std::nullopt;
}

void rail_control::refuse(error why) {
  stream_.refuse(why.message());
  failure_ = std::move(why);
}

}  // namespace verbena::inline VERBENA_ABI::net::detail

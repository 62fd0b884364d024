// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/datagram_batch.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/ipc/cancellation.hpp"

namespace verbena::softdev::wire {

datagram_batch::datagram_batch() : slots_(new slot[capacity]) {}

/// Resets the messages that the kernel may have changed.
void datagram_batch::prepare() noexcept {
  for (; used_ > 0; --used_) {
    slot& to = slots_[used_ - 1];
    to.piece = {to.bytes.data(), to.bytes.size()};
    messages_[used_ - 1].msg_hdr = {.msg_name = &to.name,
                                    .msg_namelen = sizeof to.name,
                                    .msg_iov = &to.piece,
                                    .msg_iovlen = 1,
                                    .msg_control = to.control.bytes.data(),
                                    .msg_controllen = to.control.bytes.size(),
                                    .msg_flags = 0};
  }
}

std::size_t datagram_batch::receive(const port_share& from, bool& ended) noexcept {
  ended = false;
  expects_more_ = false;
  if (from.source() < 0) return 0;
  forwarded_ = from.now() == port_share::role::client;
  prepare();
  const without_cancellation disabled;
  const int count = ::recvmmsg(from.source(), messages_.data(), static_cast<unsigned>(wanted_),
                               MSG_DONTWAIT, nullptr);
  if (count < 0) {
    wanted_ = 1;
    ended = forwarded_ && errno != EAGAIN && errno != EINTR;
    used_ = 1;  // the kernel may have changed the first message
    return 0;
  }
  used_ = std::min(static_cast<std::size_t>(count) + 1, capacity);
  if (static_cast<std::size_t>(count) == wanted_) {
    expects_more_ = count > 1;
    wanted_ = std::min(2 * wanted_, capacity);
  }
  // The owner never sends an empty message: length 0 means that the connection has ended.
  const auto is_empty = [](const mmsghdr& each) { return each.msg_len == 0; };
  const auto all = std::span(messages_).first(static_cast<std::size_t>(count));
  const auto end = forwarded_ ? std::ranges::find_if(all, is_empty) : all.end();
  ended = end != all.end();
  return static_cast<std::size_t>(end - all.begin());
}

bool datagram_batch::read(std::size_t index, received_train& out) const noexcept {
  const mmsghdr& from = messages_[index];
  const std::span<const std::byte> bytes(slots_[index].bytes.data(), from.msg_len);
  if ((from.msg_hdr.msg_flags & MSG_TRUNC) != 0 || bytes.empty()) return false;
  const auto set = [&out](std::span<const std::byte> datagrams, std::size_t size) {
    out.bytes = datagrams;
    out.size = size != 0 ? size : datagrams.size();
    return !datagrams.empty();
  };
  if (!forwarded_)
    return set(bytes, udp_socket::datagram_bytes(from.msg_hdr)) &&
           udp_socket::read_ends(from.msg_hdr, out.ends);
  forwarded_header head;
  if (bytes.size() < sizeof head) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  out.ends = {head.source, head.destination, head.source_port, head.interface, head.traffic_class};
  return set(bytes.subspan(sizeof head), head.datagram_bytes);
}

}  // namespace verbena::softdev::wire

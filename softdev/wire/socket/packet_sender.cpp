// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/packet_sender.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace verbena::softdev::wire {

result<std::unique_ptr<packet_sender>> packet_sender::open(std::uint16_t port) {
  VERBENA_TRY(udp_socket socket, udp_socket::open(0, udp_socket::use::sending));
  return std::unique_ptr<packet_sender>(new packet_sender(std::move(socket), port));
}

packet_sender::packet_sender(udp_socket socket, std::uint16_t port)
    : socket_(std::move(socket)), port_(port), slots_(new slot[capacity]) {}

bool packet_sender::has_room() noexcept {
  // Some slots are kept for threads that ask at the same time.
  constexpr std::size_t most = capacity - 8;
  if (count_.load(std::memory_order_relaxed) < most) return true;
  flush();
  return count_.load(std::memory_order_relaxed) < most;
}

void packet_sender::put(const datagram_ends& ends, const packet& what) noexcept {
  const std::lock_guard lock(mutex_);
  if (count_.load(std::memory_order_relaxed) == capacity) static_cast<void>(flush_locked());
  const std::size_t count = count_.load(std::memory_order_relaxed);
  const std::size_t length = encoded_bytes(what);
  if (count == capacity || length > max_packet_bytes) {
    ++counters_.without_room;
    return;
  }
  const std::size_t index = (first_ + count) % capacity;
  slot& to = slots_[index];
  const std::span<std::byte> bytes(to.bytes.data(), length);
  const std::size_t covered = encode(what, bytes);
  const network_header around{.source = ends.source,
                              .destination = ends.destination,
                              .source_port = socket_.port(),
                              .destination_port = port_};
  store_icrc(icrc(around, bytes.first(covered)), bytes.last<icrc_bytes>());
  msghdr& message = messages_[index].msg_hdr;
  to.piece = {bytes.data(), bytes.size()};
  message.msg_iov = &to.piece;
  message.msg_iovlen = 1;
  socket_.address(ends, port_, to.name, to.control, message);
  count_.store(count + 1, std::memory_order_relaxed);
}

void packet_sender::put_message(const management_ends& ends, management_view message) noexcept {
  packet what{.opcode = make_opcode(packet_transport::ud, operation::send_only),
              .destination_qpn = general_services_qpn,
              .psn = message_psn_.fetch_add(1, std::memory_order_relaxed) & max_24_bits,
              .payload = message};
  what.datagram = {.qkey = general_services_qkey, .source_qpn = general_services_qpn};
  put({.source = ends.own, .destination = ends.peer, .interface = ends.interface}, what);
}

bool packet_sender::flush() noexcept {
  if (empty()) return true;
  const std::lock_guard lock(mutex_);
  return flush_locked();
}

bool packet_sender::flush_locked() noexcept {
  std::size_t count = count_.load(std::memory_order_relaxed);
  bool room = true;
  while (count > 0) {
    const std::size_t run = std::min(count, capacity - first_);
    const int sent = ::sendmmsg(socket_.fd(), &messages_[first_], static_cast<unsigned>(run),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    std::size_t done = static_cast<std::size_t>(std::max(sent, 0));
    counters_.sent += done;
    for (std::size_t i = 0; i < done; ++i) counters_.sent_bytes += slots_[first_ + i].piece.iov_len;
    if (sent < 0) {
      if (errno == EINTR) continue;
      room = errno != EAGAIN && errno != ENOBUFS;
      if (!room) break;
      // The first one: no route, a filter, an address that is gone. As if the network lost it.
      counters_.last_error = errno;
      ++counters_.refused;
      done = 1;
    }
    first_ = (first_ + done) % capacity;
    count -= done;
  }
  count_.store(count, std::memory_order_relaxed);
  return room;
}

packet_sender_counters packet_sender::counters() noexcept {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace verbena::softdev::wire

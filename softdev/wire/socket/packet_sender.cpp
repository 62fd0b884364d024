// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/packet_sender.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "softdev/core/datagram.hpp"
#include "softdev/ipc/cancellation.hpp"

namespace verbena::softdev::wire {

result<std::unique_ptr<packet_sender>> packet_sender::open(std::uint16_t port,
                                                           const wire_key* key) {
  std::optional<packet_signer> signer;
  if (key != nullptr) {
    VERBENA_TRY(signer, packet_signer::open(*key));
  }
  return open(port, std::move(signer));
}

result<std::unique_ptr<packet_sender>> packet_sender::open(std::uint16_t port,
                                                           std::optional<packet_signer> signer) {
  VERBENA_TRY(udp_socket socket, udp_socket::open(0, udp_socket::use::sending));
  return std::unique_ptr<packet_sender>(
      new packet_sender(std::move(socket), port, std::move(signer)));
}

packet_sender::packet_sender(udp_socket socket, std::uint16_t port,
                             std::optional<packet_signer> signer)
    : socket_(std::move(socket)),
      port_(port),
      slots_(new slot[capacity]),
      uses_gso_(socket_.supports_gso()),
      signing_{.signer = std::move(signer)} {}

bool packet_sender::has_room() noexcept {
  // Some slots are reserved for threads that call has_room at the same time.
  constexpr std::size_t most = capacity - 8;
  if (count_.load(std::memory_order_relaxed) < most) return true;
  flush();
  return count_.load(std::memory_order_relaxed) < most;
}

/// Returns whether a packet in the slot can be added to the train. The slots of a train are
/// consecutive.
bool packet_sender::joins(std::size_t index, const datagram_addresses& ends,
                          std::size_t length) const noexcept {
  return open_.exists && uses_gso_ && index != 0 && length <= open_.length &&
         open_.bytes + length <= udp_socket::most_divided_bytes && slots_[open_.first].ends == ends;
}

/// Returns the headers that the kernel writes for the packet at this position of a train.
network_header packet_sender::around(const datagram_addresses& ends,
                                     std::size_t place) const noexcept {
  return {.source = ends.source,
          .destination = ends.destination,
          .identification = static_cast<std::uint16_t>(place),
          .source_port = socket_.port(),
          .destination_port = port_};
}

/// Writes the fields that depend on all preceding bytes: the ICRC, and the trailer if there is a
/// key. If the packet cannot be signed, counts it and returns false.
bool packet_sender::complete(const network_header& headers,
                             std::span<std::byte> datagram) noexcept {
  const std::span<std::byte> bytes = datagram.first(datagram.size() - trailer());
  store_icrc(icrc(headers, bytes.first(bytes.size() - icrc_bytes)), bytes.last<icrc_bytes>());
  if (!signing_.signer || signing_.signer->sign(headers, datagram)) return true;
  ++counters_.not_signed;
  signing_.failed.store(true, std::memory_order_relaxed);
  return false;
}

bool packet_sender::put(const datagram_addresses& ends, const packet& what) noexcept {
  const std::lock_guard lock(mutex_);
  if (count_.load(std::memory_order_relaxed) == capacity) static_cast<void>(flush_locked());
  const std::size_t count = count_.load(std::memory_order_relaxed);
  const std::size_t length = encoded_bytes(what) + trailer();
  if (count == capacity || length > max_packet_bytes + trailer()) {
    ++counters_.without_room;
    return true;
  }
  const std::size_t index = (first_ + count) % capacity;
  const std::span<std::byte> bytes(slots_[index].bytes.data(), length);
  if (encode(what, bytes) == 0) return false;
  const bool joined = joins(index, ends, length);
  const std::size_t place = joined ? last_train().msg_iovlen : 0;
  if (!complete(around(ends, place), bytes)) return true;  // as if the network lost it
  if (!joined) begin_train(index, ends, length);
  extend_train(index, bytes);
  count_.store(count + 1, std::memory_order_relaxed);
  return true;
}

msghdr& packet_sender::last_train() noexcept {
  return messages_[(trains_.first + trains_.count - 1) % capacity].msg_hdr;
}

/// Begins a train with the packet in the slot.
void packet_sender::begin_train(std::size_t index, const datagram_addresses& ends,
                                std::size_t length) noexcept {
  ++trains_.count;
  open_ = {.exists = true, .first = index, .length = length, .bytes = 0};
  slot& to = slots_[index];
  to.ends = ends;
  msghdr& message = last_train();
  socket_.address(ends, port_, to.name, to.control, message);
  message.msg_iov = &pieces_[index];
  message.msg_iovlen = 0;
}

/// Adds the packet in the slot to the last train.
void packet_sender::extend_train(std::size_t index, std::span<std::byte> datagram) noexcept {
  msghdr& message = last_train();
  if (message.msg_iovlen == 1)
    udp_socket::divide(static_cast<std::uint16_t>(open_.length), message);
  pieces_[index] = {datagram.data(), datagram.size()};
  ++message.msg_iovlen;
  open_.bytes += datagram.size();
  if (datagram.size() < open_.length) open_.exists = false;  // a shorter packet ends the train
}

void packet_sender::put_message(const management_addresses& ends,
                                management_view message) noexcept {
  packet what{.opcode = make_opcode(packet_transport::ud, operation::send_only),
              .destination_qpn = general_services_qpn,
              .psn = message_psn_.fetch_add(1, std::memory_order_relaxed) & max_24_bits,
              .payload = message};
  what.datagram = {.qkey = general_services_qkey, .source_qpn = general_services_qpn};
  const datagram_addresses sent{
      .source = ends.own, .destination = ends.peer, .interface = ends.interface};
  static_cast<void>(put(sent, what));  // its payload is always accessible
}

bool packet_sender::flush() noexcept {
  if (empty()) return true;
  const std::lock_guard lock(mutex_);
  return flush_locked();
}

/// Reports a packet that the kernel accepted, with the headers that the kernel writes.
void packet_sender::show(const datagram_addresses& ends, std::size_t place,
                         const iovec& piece) const noexcept {
  network_header headers{.source = ends.source,
                         .destination = ends.destination,
                         .traffic_class = sent_traffic_class(ends),
                         .identification = static_cast<std::uint16_t>(place),
                         .source_port = socket_.port(),
                         .destination_port = port_};
  // The kernel's default hop limit is 1: packets to a group do not leave the network.
  if (is_multicast(ends.destination)) headers.hop_limit = std::max<std::uint8_t>(ends.hop_limit, 1);
  watcher_->sent(headers, {static_cast<const std::byte*>(piece.iov_base), packet_bytes(piece)});
}

/// Passes up to `most` trains to the kernel. Returns how many it accepted, or -1 and sets errno.
int packet_sender::send_trains(std::size_t most) noexcept {
  const without_cancellation disabled;
  const auto send = [&]() -> int {
    constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    if (most == 1)  // sendmsg(2) is faster for one message
      return ::sendmsg(socket_.fd(), &messages_[trains_.first].msg_hdr, flags) < 0 ? -1 : 1;
    return ::sendmmsg(socket_.fd(), &messages_[trains_.first], static_cast<unsigned>(most), flags);
  };
  if (watcher_ == nullptr) return send();
  watcher_->sending();
  const int sent = send();
  if (sent < 0) return sent;
  for (const mmsghdr& train :
       std::span(messages_).subspan(trains_.first, static_cast<std::size_t>(sent))) {
    const std::span<const iovec> pieces(train.msg_hdr.msg_iov, train.msg_hdr.msg_iovlen);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      show(slot_of(pieces.front()).ends, i, pieces[i]);
  }
  watcher_->sent_all();
  return sent;
}

bool packet_sender::flush_locked() noexcept {
  bool room = true;
  open_.exists = false;
  while (trains_.count > 0) {
    const std::size_t run = std::min(trains_.count, capacity - trains_.first);
    const int sent = send_trains(run);
    auto done = static_cast<std::size_t>(std::max(sent, 0));
    std::size_t packets = 0;
    for (std::size_t i = 0; i < done; ++i) {
      const msghdr& each = messages_[trains_.first + i].msg_hdr;
      for (const iovec& piece : std::span(each.msg_iov, each.msg_iovlen))
        counters_.sent_bytes += packet_bytes(piece);
      packets += each.msg_iovlen;
    }
    counters_.sent += packets;
    if (sent < 0) {
      if (errno == EINTR) continue;
      room = errno != EAGAIN && errno != ENOBUFS;
      if (!room) break;
      msghdr& refused = messages_[trains_.first].msg_hdr;
      packets = refused.msg_iovlen;
      done = 1;
      int code = errno;
      const bool divided = packets > 1;
      // Other errors are caused by the route or are temporary.
      const bool may_be_division =
          code == EIO || code == EINVAL || code == EMSGSIZE || code == EOPNOTSUPP;
      const std::uint64_t sent_before = counters_.sent;
      const std::size_t singly = divided ? send_singly(refused, code) : 0;
      // An address or a route can cause the same errors, but single packets then fail, too.
      if (may_be_division && counters_.sent != sent_before) uses_gso_ = false;
      if (singly < packets) {
        // There is no route, a filter applies, or the address was removed. The packets count as
        // lost in the network.
        counters_.last_error = code;
        counters_.refused += packets - singly;
      }
    }
    first_ = (first_ + packets) % capacity;
    trains_.first = (trains_.first + done) % capacity;
    trains_.count -= done;
    count_.store(count_.load(std::memory_order_relaxed) - packets, std::memory_order_relaxed);
  }
  // The slots that were used last are in the processor's cache.
  if (trains_.count == 0) first_ = trains_.first = 0;
  return room;
}

/// Sends the packets of a refused train one by one. Returns the number of packets that were sent or
/// cannot be signed again. If a packet is refused, stops and sets `code` to its errno.
std::size_t packet_sender::send_singly(const msghdr& train, int& code) noexcept {
  const std::span<iovec> pieces(train.msg_iov, train.msg_iovlen);
  std::size_t sent = 0;
  std::size_t not_signed = 0;
  const slot& first = slot_of(pieces.front());
  msghdr single = train;
  sockaddr_storage name;
  const without_cancellation disabled;
  udp_socket::control control;
  socket_.address(first.ends, port_, name, control, single);
  single.msg_iovlen = 1;
  for (iovec& piece : pieces) {
    if (!complete(around(first.ends, 0),
                  {static_cast<std::byte*>(piece.iov_base), piece.iov_len})) {
      ++not_signed;
      continue;
    }
    single.msg_iov = &piece;
    if (watcher_ != nullptr) watcher_->sending();
    if (::sendmsg(socket_.fd(), &single, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      code = errno;
      break;
    }
    ++sent;
    if (watcher_ != nullptr) show(first.ends, 0, piece);
    counters_.sent_bytes += packet_bytes(piece);
  }
  if (watcher_ != nullptr) watcher_->sent_all();
  counters_.sent += sent;
  return sent + not_signed;
}

packet_sender_counters packet_sender::counters() noexcept {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace verbena::softdev::wire

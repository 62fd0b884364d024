// SPDX-License-Identifier: MIT
// The send queue of packets. Packets are encoded when they are put, and sent in batches.
// Consecutive packets of one size to one host form a train: one message, which the kernel segments
// (UDP_SEGMENT). Sending a train costs about as much as sending one packet.
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "softdev/wire/auth/packet_signer.hpp"
#include "softdev/wire/auth/trailer.hpp"
#include "softdev/wire/auth/wire_key.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"
#include "softdev/wire/packet_watcher.hpp"
#include "softdev/wire/socket/management.hpp"
#include "softdev/wire/socket/udp_socket.hpp"

namespace verbena::softdev::wire {

/// The maximum length of a packet from BTH to ICRC, of any implementation: all headers that an RC
/// packet can have, and the largest payload.
inline constexpr std::size_t max_packet_bytes = largest_mtu + 12 + 16 + 4 + 4 + icrc_bytes;
/// The maximum length of the UDP payload: a packet, and a trailer if there is a key.
inline constexpr std::size_t max_datagram_bytes = max_packet_bytes + trailer_bytes;

/// Snapshot; approximate while several threads send.
struct packet_sender_counters {
  std::uint64_t sent = 0;
  std::uint64_t sent_bytes = 0;    ///< of these packets, from BTH to ICRC
  std::uint64_t without_room = 0;  ///< lost: the queue was full
  std::uint64_t refused = 0;       ///< lost: the kernel returned an error
  std::uint64_t not_signed = 0;    ///< lost: libcrypto failed
  int last_error = 0;              ///< the errno of the last refused packet
};

/// Threads: thread-safe. Allocates only in `open`. Makes one system call for several packets.
class packet_sender {
 public:
  /// `port`: the destination port of all packets. With a key, each packet gets a trailer. Errors:
  /// those of udp_socket::open and packet_signer::open.
  [[nodiscard]] static result<std::unique_ptr<packet_sender>> open(std::uint16_t port,
                                                                   const wire_key* key = nullptr);
  /// Opens a sender whose packets get the trailers of `signer`. Errors: those of udp_socket::open.
  [[nodiscard]] static result<std::unique_ptr<packet_sender>> open(
      std::uint16_t port, std::optional<packet_signer> signer);
  packet_sender(const packet_sender&) = delete;
  packet_sender& operator=(const packet_sender&) = delete;

  /// Reports the packets that the kernel accepts to `by`; nullptr: no reports. Call it before the
  /// first packet. `by` outlives the sender and is called with the lock of the sender held.
  void watch(packet_watcher* by) noexcept { watcher_ = by; }
  /// True if a packet can be put. May send queued packets to make room.
  [[nodiscard]] bool has_room() noexcept;
  /// Encodes a packet, including its ICRC, into the queue. If the queue is full, the packet is
  /// lost. Returns false if the payload is not accessible.
  [[nodiscard]] bool put(const datagram_addresses& ends, const packet& what) noexcept;
  /// Puts a management datagram.
  void put_message(const management_addresses& ends, management_view message) noexcept;
  /// Sends the packets in the queue. Returns false if the kernel does not have room for all of
  /// them.
  bool flush() noexcept;
  [[nodiscard]] bool empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }

  [[nodiscard]] packet_sender_counters counters() noexcept;
  /// Returns true once, after the first packet that was not sent because libcrypto failed.
  [[nodiscard]] bool take_signing_failure() noexcept {
    return signing_.failed.load(std::memory_order_relaxed) &&
           !std::exchange(signing_.reported, true);
  }
  /// Called in the child of a fork.
  void close() noexcept { socket_.close(); }

 private:
  static constexpr std::size_t capacity = 64;
  static_assert(capacity <= udp_socket::most_divided);
  /// A packet. The slot of the first packet of a train also has the addresses of the train.
  struct slot {
    datagram_addresses ends;
    sockaddr_storage name;
    udp_socket::control control;
    std::array<std::byte, max_datagram_bytes> bytes;
  };
  struct signing {
    std::optional<packet_signer> signer;
    std::atomic<bool> failed{false};
    bool reported = false;  ///< of the thread that calls take_signing_failure()
  };
  /// The trains in the queue.
  struct train_ring {
    std::size_t first = 0;  ///< the message of the first train
    std::size_t count = 0;
  };
  /// The train to which the next packet can be added.
  struct open_train {
    bool exists = false;
    std::size_t first = 0;   ///< the slot of its first packet
    std::size_t length = 0;  ///< of each datagram
    std::size_t bytes = 0;
  };

  packet_sender(udp_socket socket, std::uint16_t port, std::optional<packet_signer> signer);
  [[nodiscard]] bool flush_locked() noexcept;
  [[nodiscard]] bool joins(std::size_t index, const datagram_addresses& ends,
                           std::size_t length) const noexcept;
  [[nodiscard]] network_header around(const datagram_addresses& ends,
                                      std::size_t place) const noexcept;
  [[nodiscard]] bool complete(const network_header& headers,
                              std::span<std::byte> datagram) noexcept;
  [[nodiscard]] msghdr& last_train() noexcept;
  void begin_train(std::size_t index, const datagram_addresses& ends, std::size_t length) noexcept;
  void extend_train(std::size_t index, std::span<std::byte> datagram) noexcept;
  /// Returns the length of the trailer of each packet.
  [[nodiscard]] std::size_t trailer() const noexcept { return signing_.signer ? trailer_bytes : 0; }
  /// Returns the length of the packet in a datagram.
  [[nodiscard]] std::size_t packet_bytes(const iovec& datagram) const noexcept {
    return datagram.iov_len - trailer();
  }
  [[nodiscard]] int send_trains(std::size_t most) noexcept;
  void show(const datagram_addresses& ends, std::size_t place, const iovec& piece) const noexcept;
  [[nodiscard]] const slot& slot_of(const iovec& piece) const noexcept {
    return slots_[static_cast<std::size_t>(&piece - pieces_.data())];
  }
  [[nodiscard]] std::size_t send_singly(const msghdr& train, int& code) noexcept;

  udp_socket socket_;
  const std::uint16_t port_;
  const std::unique_ptr<slot[]> slots_;
  packet_watcher* watcher_ = nullptr;
  std::mutex mutex_;  ///< guards all members below; while it is held, only the watcher takes a lock
  std::size_t first_ = 0;  ///< the first slot in use
  std::atomic<std::size_t> count_{0};
  train_ring trains_;
  open_train open_;
  bool uses_gso_;  ///< the kernel can segment messages
  std::atomic<std::uint32_t> message_psn_{0};
  packet_sender_counters counters_;
  signing signing_;
  std::array<iovec, capacity> pieces_{};      ///< of the slots with the same index
  std::array<mmsghdr, capacity> messages_{};  ///< one per train
};

}  // namespace verbena::softdev::wire

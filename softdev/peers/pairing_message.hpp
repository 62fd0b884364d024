// SPDX-License-Identifier: MIT
// The messages between two links over their socket. They have a fixed size; their kind determines
// the number of descriptors. Host byte order: both ends are on one machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/ipc/process_memory.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev {

enum class message_kind : std::uint16_t {
  hello = 1,       ///< first message in both directions; 3 descriptors, see hello_descriptor
  refuse_version,  ///< instead of hello; `id` is the sender's layout version
  ask_arena,       ///< id = arena
  give_arena,      ///< id = arena, bytes = its size; 1 descriptor
  refuse_arena,    ///< id = arena
  arena_gone,      ///< id = arena
  ask_channel,     ///< id = wake_channel_id
  give_channel,    ///< id = wake_channel_id; 1 descriptor
  refuse_channel,  ///< id = wake_channel_id
  wake,            ///< no content: the receiver's progress thread must check its rings
};

/// Positions of a hello's descriptors.
enum hello_descriptor : std::uint8_t { hello_public, hello_pair, hello_doorbell };
inline constexpr std::size_t max_descriptors = 3;

/// The content of a message. Unused members are zero.
struct link_message {
  message_kind kind = message_kind::hello;
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  // hello:
  std::uint32_t version = 0;
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  std::uint32_t ring_bytes = 0;
  probe_place probe;
};

/// Returns the number of descriptors that a message of this kind carries.
[[nodiscard]] std::size_t descriptors_of(message_kind kind) noexcept;

enum class send_status : std::uint8_t {
  sent,
  full,     ///< the socket is writable again when the peer has read
  delayed,  ///< the kernel lacks a resource for a while; the socket may be writable: try again
            ///< later
  closed,
};
/// Sends one message; never blocks. Returns `full` if the socket's buffer is full. Thread-safe.
[[nodiscard]] send_status send_message(int socket, const link_message& message,
                                       std::span<const int> descriptors) noexcept;

/// Wakes the receiver of a socket, even if it does not read the socket yet. One system call; never
/// blocks.
void send_wake(int socket) noexcept;

enum class receive_status : std::uint8_t { received, empty, closed, malformed };
struct received_message {
  receive_status status = receive_status::empty;
  link_message message;
  std::array<unique_fd, max_descriptors> descriptors;
};
/// Receives one message; never blocks. A message with a wrong size, magic, kind or number of
/// descriptors is `malformed`; its descriptors are closed. Of a hello or refuse_version of another
/// version, only kind and version are set.
[[nodiscard]] received_message receive_message(int socket) noexcept;

}  // namespace verbena::softdev

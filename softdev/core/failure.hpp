// SPDX-License-Identifier: MIT
// The reasons of failed work requests: a reason code (the completion's vendor error) and the values
// of the failed check. A small log keeps them, so that they can be described later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// The check that failed. The values are the vendor error codes of completions and must not change.
enum class reason : std::uint32_t {
  none = 0,
  // The sender's own checks.
  local_key_unknown = 0x101,       ///< key, address, length
  local_key_other_domain = 0x102,  ///< key, detail = region's domain, extra = queue pair's domain
  local_range = 0x103,             ///< key, address, length; base, limit = region
  local_not_mapped = 0x110,        ///< key, address, length
  local_access_denied = 0x104,     ///< key; detail = rights of the region, extra = rights needed
  message_too_long = 0x105,        ///< length, limit
  atomic_length = 0x106,           ///< length (must be 8)
  no_read_depth = 0x107,           ///< max_rd_atomic is 0; detail = queue pair, extra = opcode
  bad_work_request = 0x108,        ///< detail = opcode, extra = transport
  no_address = 0x109,              ///< a datagram without address handle; detail = queue pair
  // The receiver's checks of its own receive work request.
  receive_too_short = 0x201,  ///< length = message, limit = receive buffers
  // The receiver's checks of a request.
  remote_key_unknown = 0x301,
  remote_key_other_domain = 0x302,
  remote_range = 0x303,
  remote_not_mapped = 0x310,     ///< key, address, length
  remote_access_denied = 0x304,  ///< key; detail = rights of the region, extra = rights needed
  /// key = queue pair number, detail = rights of the queue pair, extra = rights needed
  qp_access_denied = 0x305,
  atomic_misaligned = 0x306,       ///< address
  no_responder_resources = 0x307,  ///< max_dest_rd_atomic is 0; detail = queue pair number
  peer_receive_too_short = 0x308,  ///< length = message, limit = receive buffers
  peer_receive_invalid = 0x309,    ///< the peer's receive buffer failed its checks
  bad_request = 0x30a,             ///< detail = queue pair that sent it, extra = its PSN
  peer_refused = 0x30b,            ///< by a NAK; detail = queue pair, extra = its syndrome
  // No answer. If the requester gave up: length = timeout in nanoseconds, limit = retries made
  // (`never`: not counted).
  peer_unknown = 0x401,        ///< detail = queue pair number
  peer_not_ready = 0x402,      ///< detail = queue pair number, extra = its state
  peer_not_connected = 0x403,  ///< detail = the peer's destination, extra = the requester's number
  psn_mismatch = 0x404,        ///< detail = sent, extra = expected
  peer_gone = 0x405,           ///< detail = queue pair number, extra = pid or 0, key = peer_loss
  peer_unreachable = 0x406,    ///< detail = queue pair number
  /// key = queue pair. If the requester gave up: detail = retries made, extra = RNR timer code,
  /// length = its time in nanoseconds.
  receiver_not_ready = 0x407,
  no_acknowledgement = 0x408,  ///< detail = queue pair number
  port_down = 0x409,           ///< detail = queue pair number
  peer_port_down = 0x40a,      ///< detail = queue pair number
  path_full = 0x40b,           ///< detail = queue pair number, length = nanoseconds without room
  lid_mismatch = 0x40c,        ///< detail = LID addressed, extra = the peer's
  partition_mismatch = 0x40d,  ///< detail = the requester's P_Key, extra = the peer's
  // Dropped without notice to the sender, besides many of the above.
  qkey_mismatch = 0x481,       ///< detail = of the message, extra = of the queue pair
  transport_mismatch = 0x482,  ///< detail = of the message, extra = of the queue pair
  // Consequences.
  flushed_after_error = 0x501,       ///< detail = queue pair number
  flushed_by_modify = 0x502,         ///< detail = queue pair number
  completion_queue_overrun = 0x503,  ///< limit = capacity
  injected_fault = 0x601,            ///< detail = number of the rule
};

/// The cause of the loss of a peer's process; the key of `peer_gone`.
enum class peer_loss : std::uint32_t {
  unknown,
  no_process,      ///< no process holds the number range of the queue pair
  ended,           ///< the process exited, or closed its device
  other_user,      ///< the number range belongs to another user
  other_version,   ///< its device has another version
  malformed_data,  ///< it wrote malformed data
  no_resources,    ///< this process has no descriptors or memory for the pairing
  too_many_links,  ///< it is paired with this process as often as one process may be
  access_timeout,  ///< it stayed within one access to memory of this process
  message_lost,    ///< this process had no memory for one of its messages
};

/// A reason with its values. Trivially copyable, because acknowledgements contain it.
struct failure {
  reason why = reason::none;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t base = 0;   ///< first address of the region
  std::uint64_t limit = 0;  ///< bytes of the region, or the limit that was exceeded
  std::uint32_t detail = 0;
  std::uint32_t extra = 0;
};

/// Writes `what` as a sentence into `text` (at most `capacity` bytes with a terminating zero) and
/// returns the length of the whole sentence, like snprintf. Does not allocate.
std::size_t describe(const failure& what, char* text, std::size_t capacity) noexcept;

/// Keeps the last failures of an engine. Threads: thread-safe. Never allocates.
class failure_log {
 public:
  void record(std::uint32_t qp_num, std::uint64_t wr_id, const failure& what) noexcept;

  /// Describes the latest failure that matches, as `describe` does. Returns 0 if there is no match.
  std::size_t explain(std::uint32_t qp_num, std::uint64_t wr_id, std::uint32_t vendor_error,
                      char* text, std::size_t capacity) const noexcept;

 private:
  struct entry {
    std::uint64_t wr_id = 0;
    std::uint32_t qp_num = 0;
    failure what;
  };
  static constexpr std::size_t capacity_ = 512;

  mutable spin_lock lock_;
  std::uint64_t count_ = 0;
  std::array<entry, capacity_> entries_;
};

}  // namespace verbena::softdev

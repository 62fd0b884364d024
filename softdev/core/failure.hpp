// SPDX-License-Identifier: MIT
// Why a work request failed: a reason code (the completion's vendor error) and the numbers of the
// check that failed, kept in a small log from which a sentence can be made later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// The check that failed. The numbers are the vendor error codes of completions: stable.
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
  no_read_depth = 0x107,           ///< max_rd_atomic is 0
  bad_work_request = 0x108,        ///< detail = opcode
  no_address = 0x109,              ///< a datagram without address handle
  // The receiver's checks of its own receive work request.
  receive_too_short = 0x201,  ///< length = message, limit = receive buffers
  // The receiver's checks of a request.
  remote_key_unknown = 0x301,
  remote_key_other_domain = 0x302,
  remote_range = 0x303,
  remote_not_mapped = 0x310,       ///< key, address, length
  remote_access_denied = 0x304,    ///< key; detail = rights of the region, extra = rights needed
  qp_access_denied = 0x305,        ///< detail = rights of the queue pair, extra = rights needed
  atomic_misaligned = 0x306,       ///< address
  no_responder_resources = 0x307,  ///< max_dest_rd_atomic is 0
  peer_receive_too_short = 0x308,  ///< length = message, limit = receive buffers
  peer_receive_invalid = 0x309,    ///< the peer's receive buffer failed its checks
  bad_request = 0x30a,             ///< garbage from the peer; detail = what
  // No answer.
  peer_unknown = 0x401,        ///< detail = queue pair number
  peer_not_ready = 0x402,      ///< detail = queue pair number, extra = its state
  peer_not_connected = 0x403,  ///< detail = the peer's destination, extra = our number
  psn_mismatch = 0x404,        ///< detail = sent, extra = expected
  peer_gone = 0x405,           ///< detail = queue pair number
  peer_unreachable = 0x406,    ///< detail = queue pair number
  receiver_not_ready = 0x407,  ///< detail = retries made, extra = timer code
  no_acknowledgement = 0x408,  ///< detail = queue pair number
  port_down = 0x409,           ///< detail = queue pair number
  peer_port_down = 0x40a,      ///< detail = queue pair number
  path_full = 0x40b,           ///< detail = queue pair number; the path took nothing for a while
  lid_mismatch = 0x40c,        ///< detail = LID addressed, extra = the peer's
  partition_mismatch = 0x40d,  ///< detail = our P_Key, extra = the peer's
  // Dropped without a word to the sender, besides many of the above.
  qkey_mismatch = 0x481,       ///< detail = of the message, extra = of the queue pair
  transport_mismatch = 0x482,  ///< detail = of the message, extra = of the queue pair
  // Consequences.
  flushed_after_error = 0x501,
  flushed_by_modify = 0x502,
  completion_queue_overrun = 0x503,  ///< limit = capacity
  injected_fault = 0x601,            ///< detail = number of the rule
};

/// A reason with its numbers. Trivially copyable: it travels in acknowledgements.
struct failure {
  reason why = reason::none;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t base = 0;   ///< first address of the region
  std::uint64_t limit = 0;  ///< bytes of the region, or the limit that was passed
  std::uint32_t detail = 0;
  std::uint32_t extra = 0;
};

/// Writes `what` as a sentence into `text` (at most `capacity` bytes with a terminating zero) and
/// returns the length of the whole sentence, as snprintf. Does not allocate.
std::size_t describe(const failure& what, char* text, std::size_t capacity) noexcept;

/// The last failures of an engine. Threads: thread-safe. Never allocates.
class failure_log {
 public:
  void record(std::uint32_t qp_num, std::uint64_t wr_id, const failure& what) noexcept;

  /// The latest failure that fits, written as `describe` does; 0 when none is known.
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

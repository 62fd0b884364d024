// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/enum_bits.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/completion_status.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
/// What a failed completion reports; nothing else of it is defined.
struct failed_completion {
  std::uint64_t id;
  completion_status status;
  queue_pair_number queue_pair;
  std::uint32_t vendor_error;
};
/// The error that says so in words; out of line, so that callers stay small.
[[nodiscard]] result<void> completion_failure(const failed_completion& failed);
}  // namespace detail

/// The end of one work request, as `completion_queue::poll` writes it. It has the layout of ibv_wc
/// and is left uninitialised until it is polled: arrays of it cost nothing to make.
///
/// When the request failed, only id(), status(), queue_pair() and vendor_error() are defined
/// (ibv_poll_cq(3)).
/// Threads: one thread at a time.
class completion {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): poll() writes it
  completion() noexcept = default;
  /// The same thing in the C API.
  // NOLINTNEXTLINE(google-explicit-constructor): the same thing in the C API
  completion(const ibv_wc& native) noexcept : wc_(native) {}

  /// The number that the work request was posted with.
  [[nodiscard]] std::uint64_t id() const noexcept { return wc_.wr_id; }
  /// Whether the request succeeded.
  [[nodiscard]] bool ok() const noexcept { return status() == completion_status::success; }
  /// How the request ended.
  [[nodiscard]] completion_status status() const noexcept {
    return enum_from_bits<completion_status>(wc_.status);
  }
  /// The queue pair of this side.
  [[nodiscard]] queue_pair_number queue_pair() const {
    return queue_pair_number(wc_.qp_num & queue_pair_number::max);
  }
  /// What the device says about a failure, in its own numbers.
  [[nodiscard]] std::uint32_t vendor_error() const noexcept { return wc_.vendor_err; }

  /// What the request did. Defined if ok().
  [[nodiscard]] completion_opcode opcode() const noexcept {
    check_defined();
    return enum_from_bits<completion_opcode>(wc_.opcode);
  }
  /// True for the completion of a receive. Defined if ok().
  [[nodiscard]] bool is_receive() const noexcept {
    return (static_cast<std::uint32_t>(opcode()) & IBV_WC_RECV) != 0;
  }
  /// Bytes received, or moved by a read or an atomic. Defined if ok() and not a send or write.
  [[nodiscard]] std::uint32_t byte_length() const noexcept {
    check_defined();
    return wc_.byte_len;
  }
  /// What else it says. Defined if ok().
  [[nodiscard]] completion_flags flags() const noexcept {
    return completion_flags::from_mask(wc_.wc_flags);
  }
  /// The number that the sender added, in host order; nothing if it added none or if !ok().
  [[nodiscard]] std::optional<std::uint32_t> immediate() const noexcept {
    if (!ok() || (wc_.wc_flags & IBV_WC_WITH_IMM) == 0) return std::nullopt;
    return network_order(wc_.imm_data);
  }

  /// The key of the window or region that the sender's message took away here; nothing if it took
  /// none or if !ok().
  [[nodiscard]] std::optional<remote_key> invalidated_key() const noexcept {
    if (!ok() || (wc_.wc_flags & IBV_WC_WITH_INV) == 0) return std::nullopt;
    return remote_key(wc_.invalidated_rkey);
  }

  /// The sender of a datagram. This and what follows is defined if ok(), for receives of datagrams.
  [[nodiscard]] queue_pair_number source_queue_pair() const {
    return queue_pair_number(wc_.src_qp & queue_pair_number::max);
  }
  /// True when the first 40 bytes of the received datagram are a global route header.
  [[nodiscard]] bool has_global_route_header() const noexcept {
    return (wc_.wc_flags & IBV_WC_GRH) != 0;
  }
  /// Where it came from on InfiniBand; 0 on Ethernet.
  [[nodiscard]] lid source_lid() const noexcept { return lid(wc_.slid); }
  /// The service level that it came with, on InfiniBand.
  [[nodiscard]] std::uint8_t service_level() const noexcept { return wc_.sl; }
  /// The low bits of the LID that it was sent to, for ports with several.
  [[nodiscard]] std::uint8_t destination_path_bits() const noexcept { return wc_.dlid_path_bits; }
  /// Where the partition key lies in the port's table.
  [[nodiscard]] std::uint16_t pkey_index() const noexcept { return wc_.pkey_index; }

  /// Success, or an error with the request, the status, the vendor error and the likely cause.
  [[nodiscard]] verbena::result<void> result() const {
    if (ok()) return {};
    return detail::completion_failure({id(), status(), queue_pair(), vendor_error()});
  }

  /// The completion of the C API.
  [[nodiscard]] const ibv_wc& native() const noexcept { return wc_; }

 private:
  void check_defined() const noexcept {
    VERBENA_CHECK(ok(),
                  "what a request did is asked of a completion that succeeded: one that failed has "
                  "its number, status, queue pair and vendor error alone");
  }

  ibv_wc wc_;
};

static_assert(sizeof(completion) == sizeof(ibv_wc) && alignof(completion) == alignof(ibv_wc));
static_assert(std::is_standard_layout_v<completion> && std::is_trivially_copyable_v<completion>);

/// One line: `work request 2 on queue pair 0x11: SEND of 5 bytes`, or how it failed.
[[nodiscard]] std::string to_string(const completion& done);

}  // namespace verbena::inline VERBENA_ABI

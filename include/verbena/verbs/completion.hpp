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
/// The defined members of a failed completion.
struct failed_completion {
  std::uint64_t id;
  completion_status status;
  queue_pair_number queue_pair;
  std::uint32_t vendor_error;
};
/// Returns the error of a failed completion; out of line, so that callers stay small.
[[nodiscard]] result<void> completion_failure(const failed_completion& failed);
}  // namespace detail

/// The completion of one work request, from completion_queue::poll(). Source: ibv_poll_cq(3).
///
/// The class has the layout of `ibv_wc`. Default initialisation does not write the members, so
/// arrays cost nothing; `completion{}` is zero. If the request failed, only id(), status(),
/// queue_pair() and vendor_error() are defined.
/// Threads: one thread at a time.
class completion {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): poll() writes it
  completion() noexcept = default;
  /// Copies a completion of the C API.
  // NOLINTNEXTLINE(google-explicit-constructor): the same thing in the C API
  completion(const ibv_wc& native) noexcept : wc_(native) {}

  /// Returns the id of the work request.
  [[nodiscard]] std::uint64_t id() const noexcept { return wc_.wr_id; }
  /// Returns whether the request succeeded.
  [[nodiscard]] bool ok() const noexcept { return status() == completion_status::success; }
  /// Returns the status of the request.
  [[nodiscard]] completion_status status() const noexcept {
    return enum_from_bits<completion_status>(wc_.status);
  }
  /// Returns the class of the status.
  [[nodiscard]] completion_status_class status_class() const noexcept { return class_of(status()); }
  /// Returns the number of the local queue pair.
  [[nodiscard]] queue_pair_number queue_pair() const {
    return queue_pair_number(wc_.qp_num & queue_pair_number::max);
  }
  /// Returns the vendor error of a failure, a number defined by the device.
  [[nodiscard]] std::uint32_t vendor_error() const noexcept { return wc_.vendor_err; }

  /// Returns the operation of the request. Defined if ok().
  [[nodiscard]] completion_opcode opcode() const noexcept {
    check_defined();
    return enum_from_bits<completion_opcode>(wc_.opcode);
  }
  /// Returns whether a receive completed. Defined if ok().
  [[nodiscard]] bool is_receive() const noexcept {
    return (static_cast<std::uint32_t>(opcode()) & IBV_WC_RECV) != 0;
  }
  /// Returns the number of bytes of a receive, read or atomic. Defined if ok(), for these
  /// operations.
  [[nodiscard]] std::uint32_t byte_length() const noexcept {
    check_defined();
    return wc_.byte_len;
  }
  /// Returns the flags. Defined if ok().
  [[nodiscard]] completion_flags flags() const noexcept {
    return completion_flags::from_mask(wc_.wc_flags);
  }
  /// Returns the immediate data in host byte order; `nullopt` if there is none or if !ok().
  [[nodiscard]] std::optional<std::uint32_t> immediate() const noexcept {
    if (!ok() || (wc_.wc_flags & IBV_WC_WITH_IMM) == 0) return std::nullopt;
    return network_order(wc_.imm_data);
  }

  /// Returns the rkey that a SEND with invalidate invalidated; `nullopt` if there is none or if
  /// !ok().
  [[nodiscard]] std::optional<remote_key> invalidated_key() const noexcept {
    if (!ok() || (wc_.wc_flags & IBV_WC_WITH_INV) == 0) return std::nullopt;
    return remote_key(wc_.invalidated_rkey);
  }

  /// Returns the queue pair that sent a datagram. Defined if ok(), for receives of datagrams.
  [[nodiscard]] queue_pair_number source_queue_pair() const {
    return queue_pair_number(wc_.src_qp & queue_pair_number::max);
  }
  /// Returns whether the first 40 bytes of a received datagram are a GRH. Defined if ok().
  [[nodiscard]] bool has_global_route_header() const noexcept {
    return (wc_.wc_flags & IBV_WC_GRH) != 0;
  }
  /// Returns the LID of the sender of a datagram on InfiniBand; 0 on Ethernet.
  [[nodiscard]] lid source_lid() const noexcept { return lid(wc_.slid); }
  /// Returns the service level of a received datagram on InfiniBand.
  [[nodiscard]] std::uint8_t service_level() const noexcept { return wc_.sl; }
  /// Returns the low bits of the destination LID of a datagram, for ports with several LIDs. Not
  /// defined for multicast.
  [[nodiscard]] std::uint8_t destination_path_bits() const noexcept { return wc_.dlid_path_bits; }
  /// Returns the P_Key index of a received datagram. Defined only for the GSI queue pair.
  [[nodiscard]] std::uint16_t pkey_index() const noexcept { return wc_.pkey_index; }

  /// Returns success, or an error with request, status, vendor error and likely cause.
  [[nodiscard]] verbena::result<void> result() const {
    if (ok()) return {};
    return detail::completion_failure({id(), status(), queue_pair(), vendor_error()});
  }

  /// Returns the completion of the C API.
  [[nodiscard]] const ibv_wc& native() const noexcept { return wc_; }

 private:
  void check_defined() const noexcept {
    VERBENA_CHECK(ok(),
                  "a member that a failed completion does not define was read; only id, status, "
                  "queue pair and vendor error are defined");
  }

  ibv_wc wc_;
};

static_assert(sizeof(completion) == sizeof(ibv_wc) && alignof(completion) == alignof(ibv_wc));
static_assert(std::is_standard_layout_v<completion> && std::is_trivially_copyable_v<completion>);

/// Returns `work request 2 on queue pair 0x11: RECV of 5 bytes`, or the message of the failure.
[[nodiscard]] std::string to_string(const completion& done);

}  // namespace verbena::inline VERBENA_ABI

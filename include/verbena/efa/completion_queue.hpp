// SPDX-License-Identifier: MIT
// Identifies the sender of a received message on EFA. SRD messages have no GRH. The device looks up
// the sender among the address handles of the receiving queue pair's protection domain. The
// completion contains the number of the matching address handle. If no address handle matches, the
// completion contains the sender's GID.
//
//   for (const auto& done : cq.poll()) {
//     if (!done.ok() || !done.is_receive()) continue;
//     if (const auto number = efa::known_sender(done)) { … }      // compare with number_of(handle)
//     else if (const auto gid = cq.source_gid(done)) { … }        // create an address handle
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/sys/layouts.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"

namespace verbena::inline VERBENA_ABI::efa {

/// The address handle number (AHN) that the device assigned to an address handle. Address handles
/// for the same remote GID can have the same number.
using address_handle_number = strong_id<struct address_handle_number_tag, std::uint16_t>;

/// Returns the address handle number of `handle`: efadv_query_ah(3). Does not block, except that
/// the first call loads libefa. Errors: `not_supported` for address handles of other devices, and
/// if the program was linked without the EFA driver; `unavailable` if libefa cannot be loaded.
[[nodiscard]] result<address_handle_number> number_of(const address_handle& handle);

/// Returns the number of the sender's address handle, or `nullopt` if no address handle matches.
///
/// Preconditions: `received` is a receive and is ok(). The queue was created with
/// completion_field::source_lid, because EFA reports the address handle number in this field. If
/// the queue was created without this field, the library stops the program.
[[nodiscard]] inline std::optional<address_handle_number> known_sender(
    const lazy_completion& received) {
  constexpr std::uint16_t unknown = 0xffff;
  const std::uint16_t number = received.source_lid().value();
  if (number == unknown) return std::nullopt;
  return address_handle_number(number);
}

/// The completion fields of a receive, including those that identify the sender.
inline constexpr completion_fields sender_fields =
    completion_field::byte_length | completion_field::immediate | completion_field::queue_pair |
    completion_field::source_queue_pair | completion_field::source_lid;

/// A completion queue that returns the GIDs of unknown senders. Created by efa::create_cq().
///
/// Threads: one thread at a time may use each object of this class; see
/// verbena::extended_completion_queue.
class completion_queue : public extended_completion_queue {
 public:
  /// Returns the sender's GID if no address handle matches the sender, otherwise `nullopt`. The
  /// device searches the address handles of the receiving queue pair's protection domain.
  ///
  /// Preconditions: `received` is the current completion of a poll() of this queue, is a receive,
  /// and is ok().
  [[nodiscard]] std::optional<gid> source_gid(const lazy_completion& received) const;

  /// Destroys the queue. If a queue pair or another object still uses the queue, or if
  /// ibv_destroy_cq(3) fails, returns the queue with the error.
  [[nodiscard]] close_result<completion_queue> close() &&;

 private:
  friend result<completion_queue> create_cq(const context& of, std::uint32_t capacity,
                                            const extended_completion_queue_options& options);
  completion_queue(extended_completion_queue queue, efadv_cq* efa_queue) noexcept
      : extended_completion_queue(std::move(queue)), efa_queue_(efa_queue) {}

  verbena::detail::native_pointer<efadv_cq> efa_queue_;
};

/// Creates a completion queue for SRD and UD queue pairs: efadv_create_cq(3). For known_sender(),
/// `options.fields` must contain completion_field::source_lid. Allocates; may block in the kernel.
///
/// Errors: `not_supported` for a device that is not an EFA device or lacks
/// efa::capability::source_gid; `unavailable` if libefa cannot be loaded; otherwise those of
/// context::create_extended_cq().
[[nodiscard]] result<completion_queue> create_cq(
    const context& of, std::uint32_t capacity,
    const extended_completion_queue_options& options = {.fields = sender_fields});

}  // namespace verbena::inline VERBENA_ABI::efa

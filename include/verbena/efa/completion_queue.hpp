// SPDX-License-Identifier: MIT
// The sender of a received SRD message. SRD messages have no GRH. The device compares the sender
// with the address handles of this process: the completion has the number of the matching handle,
// or the sender's GID if no handle matches.
//
//   for (const auto& done : cq.poll())
//     if (const auto number = efa::known_sender(done)) { … }      // compare with number_of(handle)
//     else if (const auto gid = cq.source_gid(done)) { … }        // for a new handle
#pragma once

#include <infiniband/efadv.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"

namespace verbena::inline VERBENA_ABI::efa {

/// The device's address handle number (AHN). Handles for one remote GID can have the same number.
using address_handle_number = strong_id<struct address_handle_number_tag, std::uint16_t>;

/// Returns the number of `way`: efadv_query_ah(3). Does not block. Errors: `not_supported` for
/// handles of other devices; `unavailable` if libefa cannot be loaded.
[[nodiscard]] result<address_handle_number> number_of(const address_handle& way);

/// Returns the number of the sender's address handle; `nullopt` if no address handle
/// matches. Needs
/// completion_field::source_lid, which has the number on EFA. Precondition: a receive that is ok().
[[nodiscard]] inline std::optional<address_handle_number> known_sender(
    const lazy_completion& received) {
  constexpr std::uint16_t unknown = 0xffff;
  const std::uint16_t number = received.source_lid().value();
  if (number == unknown) return std::nullopt;
  return address_handle_number(number);
}

/// The fields of a receive, and those that identify its sender.
inline constexpr completion_fields sender_fields =
    completion_field::byte_length | completion_field::immediate | completion_field::queue_pair |
    completion_field::source_queue_pair | completion_field::source_lid;

/// A completion queue with the GIDs of unknown senders, from efa::create_cq().
/// Threads: as verbena::extended_completion_queue.
class completion_queue : public extended_completion_queue {
 public:
  /// Returns the GID of a sender without an address handle in this process; `nullopt` for known
  /// senders. Precondition: `received` is the current completion of a poll() of this queue, a
  /// receive that is ok().
  [[nodiscard]] std::optional<gid> source_gid(const lazy_completion& received) const;

  /// Destroys the queue. If it is shared, or if the verb fails, returns it with the error.
  [[nodiscard]] close_result<completion_queue> close() &&;

 private:
  friend result<completion_queue> create_cq(const context& of, std::uint32_t capacity,
                                            const extended_completion_queue_options& options);
  completion_queue(extended_completion_queue queue, efadv_cq* reader) noexcept
      : extended_completion_queue(std::move(queue)), reader_(reader) {}

  verbena::detail::native_pointer<efadv_cq> reader_;
};

/// Creates a completion queue for queue pairs of SRD and UD: efadv_create_cq(3). known_sender()
/// needs completion_field::source_lid in `options.fields`. Allocates; may block in the kernel.
///
/// Errors: `not_supported` for a device that is not an EFA or lacks efa::capability::source_gid;
/// `unavailable` if libefa cannot be loaded; otherwise those of context::create_extended_cq().
[[nodiscard]] result<completion_queue> create_cq(
    const context& of, std::uint32_t capacity,
    const extended_completion_queue_options& options = {.fields = sender_fields});

}  // namespace verbena::inline VERBENA_ABI::efa

// SPDX-License-Identifier: MIT
// Who sent what was received. In front of a scalable reliable datagram there is no header that says
// it: the device compares the sender with the address handles of this process. It tells the number
// of the one that fits, or, where there is none yet, the sender's GID.
//
//   for (const auto& done : cq.poll())
//     if (const auto number = efa::known_sender(done)) { … }      // of efa::number_of(handle)
//     else if (const auto gid = cq.source_gid(done)) { … }        // make a handle to answer
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

/// The device's number of a way to a port; handles of one way share it.
using address_handle_number = strong_id<struct address_handle_number_tag, std::uint16_t>;

/// The number of `way`: efadv_query_ah(3). Does not block. Errors: `not_supported` for handles of
/// another device; `unavailable` when libefa cannot be loaded.
[[nodiscard]] result<address_handle_number> number_of(const address_handle& way);

/// The number of the sender's address handle; nothing when this process has none. Needs
/// completion_field::source_lid, in which EFA puts the number. Defined for receives that are ok().
[[nodiscard]] inline std::optional<address_handle_number> known_sender(
    const lazy_completion& received) {
  constexpr std::uint16_t unknown = 0xffff;
  const std::uint16_t number = received.source_lid().value();
  if (number == unknown) return std::nullopt;
  return address_handle_number(number);
}

/// Fields that say who sent, besides the usual ones.
inline constexpr completion_fields sender_fields =
    completion_field::byte_length | completion_field::immediate | completion_field::queue_pair |
    completion_field::source_queue_pair | completion_field::source_lid;

/// A completion queue that tells the GIDs of unknown senders, from efa::create_completion_queue().
/// Threads: as verbena::completion_queue.
class completion_queue : public extended_completion_queue {
 public:
  /// The GID of the sender, if this process had no address handle for it; nothing for known
  /// senders. `received` is a completion of this queue, of a receive that is ok().
  [[nodiscard]] std::optional<gid> source_gid(const lazy_completion& received) const;

  /// Destroys the queue now, or hands it back with the reason.
  [[nodiscard]] close_result<completion_queue> close() && { return close_handle(std::move(*this)); }

 private:
  friend result<completion_queue> create_completion_queue(
      const context& of, std::uint32_t capacity, const extended_completion_queue_options& options);
  completion_queue(extended_completion_queue queue, efadv_cq* reader) noexcept
      : extended_completion_queue(std::move(queue)), reader_(reader) {}

  verbena::detail::native_pointer<efadv_cq> reader_;
};

/// Creates a completion queue by efadv_create_cq(3); queue pairs of all transports complete into
/// it. Allocates; may block in the kernel.
///
/// Errors: `not_supported` for a device that is no EFA or does not tell GIDs
/// (efa::capability::source_gid); `unavailable` when libefa cannot be loaded; otherwise those of
/// context::create_extended_cq().
[[nodiscard]] result<completion_queue> create_completion_queue(
    const context& of, std::uint32_t capacity,
    const extended_completion_queue_options& options = {.fields = sender_fields});

}  // namespace verbena::inline VERBENA_ABI::efa

// SPDX-License-Identifier: MIT
// Address handles and destinations of datagrams. Source: ibv_create_ah(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/address_vector.hpp"
#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/handle.hpp"
#include "verbena/verbs/ownership.hpp"

namespace verbena::inline VERBENA_ABI {

class protection_domain;

/// The destination of a datagram: address handle, queue pair number and Q_Key, with the layout of
/// `ibv_send_wr::wr.ud`. The address handle must exist while requests to the destination are
/// outstanding. Threads: immutable value.
class destination {
 public:
  /// Makes a destination from an address handle of the C API.
  destination(ibv_ah* way, queue_pair_number number, queue_key key) noexcept
      : way_(way), number_(number), key_(key) {}

  /// Returns the address handle.
  [[nodiscard]] ibv_ah* native() const noexcept { return way_; }
  /// Returns the number of the destination queue pair.
  [[nodiscard]] queue_pair_number number() const noexcept { return number_; }
  /// Returns the Q_Key of the datagram.
  [[nodiscard]] queue_key key() const noexcept { return key_; }

  /// Returns whether address handle, queue pair number and Q_Key are equal.
  friend bool operator==(const destination&, const destination&) noexcept = default;

 private:
  ibv_ah* way_;
  queue_pair_number number_;
  queue_key key_;
};
static_assert(std::is_standard_layout_v<destination> && std::is_trivially_copyable_v<destination>);

namespace detail {
/// Checks in checked builds that the address handle and the queue pair have one protection domain.
inline void check_same_domain([[maybe_unused]] const destination& to,
                              [[maybe_unused]] const ibv_qp* queue) {
  VERBENA_CHECK(
      to.native() != nullptr && to.native()->pd == queue->pd,
      "the address handle of a datagram and the queue pair belong to different protection domains");
}
}  // namespace detail

/// An address handle (AH), created by protection_domain::create_ah(). All datagram queue pairs of
/// the protection domain can use the handle. The handle keeps the domain alive.
///
/// Copies share the object of the C API, which is destroyed after the last copy.
/// Threads: thread-safe for const use; other members by one thread at a time.
class address_handle : public handle<detail::address_handle_state> {
 public:
  /// Adopts an address handle of the C API. Precondition: it belongs to `pd`.
  [[nodiscard]] static address_handle adopt(ibv_ah* native, const protection_domain& pd,
                                            ownership owner);

  /// Returns the destination of datagrams to queue pair `number`. `key` must be the Q_Key of that
  /// queue pair. If the top bit of `key` is set, the device sends the Q_Key of the sending queue
  /// pair instead.
  ///
  /// *Contract.* The handle must exist until the completion of each request to the destination has
  /// been polled. Except on SRD, the completion of a later request of the same send queue is
  /// sufficient.
  [[nodiscard]] verbena::destination destination(queue_pair_number number, queue_key key) const& {
    return {native(), number, key};
  }
  /// Deleted: a temporary handle is destroyed before the request is sent.
  verbena::destination destination(queue_pair_number number, queue_key key) const&& = delete;

  /// Destroys the address handle: ibv_destroy_ah(3). If the handle is shared, or if the verb fails,
  /// returns the handle with the error.
  [[nodiscard]] close_result<address_handle> close() &&;

 private:
  friend struct detail::internals;
  using handle::handle;
};

}  // namespace verbena::inline VERBENA_ABI

/// Hashes address handle, queue pair number and Q_Key.
template <>
struct std::hash<verbena::destination> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::destination& of) const noexcept;
};

// SPDX-License-Identifier: MIT
// The base class of prepared queue pairs of all transports.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "verbena/base/attributes.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/address_vector.hpp"
#include "verbena/verbs/detail/queue_pair_request.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/verbs/queue_pair_base.hpp"

namespace verbena::inline VERBENA_ABI {

class completion_queue;
class shared_receive_queue;

namespace detail {

/// The completion queues and the SRQ of a queue pair.
struct queue_pair_queues {
  const completion_queue& send;
  const completion_queue& receive;
  const shared_receive_queue* shared = nullptr;
};

/// The local values of a connection, determined at creation.
struct local_side {
  verbena::endpoint endpoint;
  gid_index source_gid_index;
  std::uint8_t initiator_depth =
      0;  ///< the smaller of the requested depth and the limit of the device
};

/// A new queue pair in the state RESET.
struct prepared_parts {
  created_queue_pair made;
  local_side local;
  queue_pair_request request;
};

/// Checks the request, creates the queue pair and queries the port. Errors: those of
/// protection_domain::create_qp().
[[nodiscard]] result<prepared_parts> prepare_queue_pair(const protection_domain& pd,
                                                        const queue_pair_queues& queues,
                                                        const queue_pair_request& request);

}  // namespace detail

/// The base class of prepared_queue_pair. Threads: one thread at a time.
class prepared_queue_pair_base : public queue_pair_base {
 public:
  /// Returns the endpoint, which the peer needs to connect.
  [[nodiscard]] const verbena::endpoint& endpoint() const noexcept VERBENA_LIFETIMEBOUND {
    return local_.endpoint;
  }
  /// Returns the address of `remote`, with the options of the route and the local GID of
  /// endpoint().
  ///
  /// Errors: `invalid_argument` if only one side has a GID.
  [[nodiscard]] result<address_vector> address_of(const verbena::endpoint& remote) const;

 protected:
  explicit prepared_queue_pair_base(detail::prepared_parts parts) noexcept
      : queue_pair_base(std::move(parts.made)), local_(parts.local), request_(parts.request) {}

  [[nodiscard]] queue_pair_attributes connected_init() const;
  [[nodiscard]] result<queue_pair_attributes> connected_rtr(const verbena::endpoint& remote) const;
  [[nodiscard]] queue_pair_attributes connected_rts(const verbena::endpoint& remote) const;
  [[nodiscard]] result<void> connect(const verbena::endpoint& remote);

  [[nodiscard]] queue_pair_attributes datagram_init(queue_key key) const;
  [[nodiscard]] queue_pair_attributes datagram_rtr() const;
  [[nodiscard]] queue_pair_attributes datagram_rts() const;
  [[nodiscard]] result<void> open(queue_key key);

 private:
  detail::local_side local_;
  detail::queue_pair_request request_;
};

}  // namespace verbena::inline VERBENA_ABI

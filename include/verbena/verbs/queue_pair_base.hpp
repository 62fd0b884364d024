// SPDX-License-Identifier: MIT
// The base class of queue pairs of all transports, in all states.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <utility>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/detail/native_pointer.hpp"
#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/handle.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/verbs/queue_pair_options.hpp"
#include "verbena/verbs/request_details.hpp"

namespace verbena::inline VERBENA_ABI {

class queue_pair_base;

namespace detail {

/// A new or adopted queue pair of any transport.
struct created_queue_pair {
  std::shared_ptr<queue_pair_state_object> state;
  ibv_qp_ex* extended = nullptr;  ///< nullptr: no extended interface
  bool prefers_classic = false;   ///< the extended interface has a defect: with_poster() avoids it
  queue_sizes granted;
};

/// Attaches `which` to a multicast group: ibv_attach_mcast(3).
[[nodiscard]] result<void> attach_to_group(queue_pair_base& which, const gid& group, lid group_lid);
/// Detaches `which` from a multicast group: ibv_detach_mcast(3).
[[nodiscard]] result<void> detach_from_group(queue_pair_base& which, const gid& group,
                                             lid group_lid);

/// Adopts a queue pair of the C API. Precondition: it belongs to `pd`.
[[nodiscard]] created_queue_pair adopt_queue_pair(ibv_qp* native, const protection_domain& pd,
                                                  ownership owner, ibv_qp_type type);
/// Adopts a queue pair of the C API with its extended interface. Precondition: it belongs to `pd`.
[[nodiscard]] created_queue_pair adopt_queue_pair(ibv_qp_ex* native, const protection_domain& pd,
                                                  ownership owner, ibv_qp_type type);

}  // namespace detail

/// The base class of prepared_queue_pair and queue_pair. Threads: one thread at a time.
class queue_pair_base : public handle<detail::queue_pair_state_object> {
 public:
  /// Takes the queue pair of the other object, which must not be used afterwards.
  queue_pair_base(queue_pair_base&&) noexcept = default;
  /// Destroys its own queue pair and takes that of the other object. The other object must not be
  /// used afterwards.
  queue_pair_base& operator=(queue_pair_base&&) noexcept = default;
  ~queue_pair_base() = default;

  /// Returns the queue pair number.
  [[nodiscard]] queue_pair_number number() const;
  /// Returns the sizes of the queues that the device granted; each is at least the requested size.
  /// For an adopted queue pair all sizes are 0; query() of queue_pair_attribute::capabilities
  /// returns them.
  [[nodiscard]] const queue_sizes& capabilities() const noexcept { return granted_; }
  /// Returns whether the queue pair has the extended interface.
  [[nodiscard]] bool is_extended() const noexcept { return extended_.get() != nullptr; }
  /// Returns the extended queue pair of the C API; nullptr if !is_extended().
  [[nodiscard]] ibv_qp_ex* native_extended() const noexcept { return extended_.get(); }

  /// Modifies attributes: ibv_modify_qp(3). After an error all attributes are unchanged. May block
  /// in the kernel while the peer's address is resolved.
  ///
  /// Errors: the errno of the verb. The message of EINVAL names missing and excess attributes of
  /// the transition, or the value out of range. If the peer's address cannot be resolved, the
  /// message has the route.
  [[nodiscard]] result<void> modify(const queue_pair_attributes& changes);
  /// Moves the queue pair to the state RESET: ibv_modify_qp(3). May block in the kernel.
  ///
  /// The outstanding requests are discarded and do not complete. Their memory is not in flight when
  /// the call returns, and the checker no longer tracks it. Completions that were not polled before
  /// may be lost, depending on the provider. Receives that are posted to an SRQ stay in the SRQ.
  /// All attributes are cleared: to connect the queue pair again, modify() it to INIT, RTR and RTS.
  ///
  /// Errors: the errno of the verb; the requests then stay outstanding.
  [[nodiscard]] result<void> reset();

  /// Queries the attributes in `wanted`: ibv_query_qp(3). May block in the kernel. Errors: the
  /// errno of the verb.
  [[nodiscard]] result<queue_pair_attributes> query(queue_pair_attribute_mask wanted) const;
  /// Queries the state of the queue pair. Errors: those of query().
  [[nodiscard]] result<queue_pair_state> current_state() const;

  /// Describes a failed completion of this queue pair: the peer and its address, the reason of the
  /// device, and the usual causes. Allocates; queries the device, which may block in the kernel.
  /// Precondition: !failed.ok().
  [[nodiscard]] error describe(const completion& failed, const request_details& known = {}) const;
  /// Describes why posting a send request failed: the state of the queue pair, or the exceeded
  /// limit. Allocates; queries the device, which may block in the kernel.
  /// Precondition: !refused.has_value().
  [[nodiscard]] error describe_refused_send(const post_status& refused,
                                            const request_shape& posted = {}) const;
  /// Describes why posting a receive request failed, like describe_refused_send().
  /// Precondition: !refused.has_value().
  [[nodiscard]] error describe_refused_receive(const post_status& refused,
                                               const request_shape& posted = {}) const;

 protected:
  explicit queue_pair_base(detail::created_queue_pair made) noexcept
      : handle(std::move(made.state)),
        queue_(handle::native()),
        extended_(made.extended),
        poster_(made.prefers_classic ? nullptr : made.extended),
        granted_(made.granted) {}

  // Returns the queue pair of the C API without an indirection through the shared state.
  [[nodiscard]] ibv_qp* qp() const noexcept {
    VERBENA_CHECK(queue_.get() != nullptr, "a moved-from queue pair was used");
    return queue_.get();
  }
  [[nodiscard]] ibv_qp_ex* extended_or_null() const noexcept { return extended_.get(); }
  // Returns the extended interface if with_poster() uses it, otherwise nullptr.
  [[nodiscard]] ibv_qp_ex* extended_poster_or_null() const noexcept { return poster_.get(); }

 private:
  friend result<void> detail::attach_to_group(queue_pair_base&, const gid&, lid);
  friend result<void> detail::detach_from_group(queue_pair_base&, const gid&, lid);

  detail::native_pointer<ibv_qp> queue_;
  detail::native_pointer<ibv_qp_ex> extended_;
  detail::native_pointer<ibv_qp_ex> poster_;
  queue_sizes granted_;
};

}  // namespace verbena::inline VERBENA_ABI

// SPDX-License-Identifier: MIT
// What queue pairs of all transports can do in all states.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <utility>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/detail/handle.hpp"
#include "verbena/verbs/detail/native_pointer.hpp"
#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/verbs/queue_pair_options.hpp"
#include "verbena/verbs/request_details.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A created queue pair, before it has a type.
struct created_queue_pair {
  std::shared_ptr<queue_pair_state_object> state;
  ibv_qp_ex* extended = nullptr;  ///< nullptr: the provider has no extended interface
  queue_pair_capabilities granted;
};

/// Base of prepared_queue_pair and queue_pair. Threads: one thread at a time.
class queue_pair_base : public handle<queue_pair_state_object> {
 public:
  /// Takes over the queue pair of the other, which must not be used afterwards.
  queue_pair_base(queue_pair_base&&) noexcept = default;
  /// Drops its own queue pair and takes over that of the other.
  queue_pair_base& operator=(queue_pair_base&&) noexcept = default;
  ~queue_pair_base() = default;

  /// Its number on its device.
  [[nodiscard]] queue_pair_number number() const;
  /// What it was granted; at least what was asked. Zero for adopted queue pairs: query() knows.
  [[nodiscard]] const queue_pair_capabilities& capabilities() const noexcept { return granted_; }
  /// Whether it can be posted to by the extended interface.
  [[nodiscard]] bool is_extended() const noexcept { return extended_.get() != nullptr; }
  /// The extended object of the C API; nullptr if !is_extended().
  [[nodiscard]] ibv_qp_ex* native_extended() const noexcept { return extended_.get(); }

  /// Changes the attributes in `changes`, by ibv_modify_qp(3). A refused change changes nothing.
  ///
  /// Errors: the verb's errno. EINVAL says which attributes are missing or not allowed for the
  /// change of state; a time-out or an unreachable network while the peer's address is resolved
  /// says what the route was. May block in the kernel.
  [[nodiscard]] result<void> modify(const queue_pair_attributes& changes);

  /// Asks the device for the attributes in `wanted`, by ibv_query_qp(3); it may give more.
  [[nodiscard]] result<queue_pair_attributes> query(queue_pair_attribute_mask wanted) const;
  /// The state that the device says it is in.
  [[nodiscard]] result<queue_pair_state> current_state() const;

  /// The error of `failed`, a completion of this queue pair, with what only the queue pair knows:
  /// to which peer it was, at which address; what the device says; the usual causes. Asks the
  /// device, may block in the kernel. Precondition: !failed.ok().
  [[nodiscard]] error describe(const completion& failed, const request_details& known = {}) const;
  /// The error of a send request that was refused when it was posted, with the state or the limit
  /// that it broke. Asks the device. Precondition: !refused.ok().
  [[nodiscard]] error describe_refused_send(const post_status& refused,
                                            const request_shape& posted = {}) const;
  /// The same for a receive request.
  [[nodiscard]] error describe_refused_receive(const post_status& refused,
                                               const request_shape& posted = {}) const;

 protected:
  explicit queue_pair_base(created_queue_pair made) noexcept
      : handle(std::move(made.state)),
        queue_(handle::native()),
        extended_(made.extended),
        granted_(made.granted) {}

  // Next to the data path: one load away from the handle.
  [[nodiscard]] ibv_qp* queue() const noexcept {
    VERBENA_CHECK(queue_.get() != nullptr, "a moved-from queue pair must not be used");
    return queue_.get();
  }
  [[nodiscard]] ibv_qp_ex* extended_or_null() const noexcept { return extended_.get(); }

 private:
  friend result<void> attach_to_group(queue_pair_base&, const gid&, lid);
  friend result<void> detach_from_group(queue_pair_base&, const gid&, lid);

  native_pointer<ibv_qp> queue_;
  native_pointer<ibv_qp_ex> extended_;
  queue_pair_capabilities granted_;
};

/// Attaches the queue pair to a multicast group, or ends that; by the verbs of the C API.
[[nodiscard]] result<void> attach_to_group(queue_pair_base& which, const gid& group, lid where);
/// The reverse.
[[nodiscard]] result<void> detach_from_group(queue_pair_base& which, const gid& group, lid where);

/// Takes a queue pair of the C API, made from `pd`, into a handle of ours.
[[nodiscard]] created_queue_pair adopt_queue_pair(ibv_qp* native, const protection_domain& pd,
                                                  ownership owner, ibv_qp_type type);
/// The same with its extended interface.
[[nodiscard]] created_queue_pair adopt_queue_pair(ibv_qp_ex* native, const protection_domain& pd,
                                                  ownership owner, ibv_qp_type type);

}  // namespace verbena::inline VERBENA_ABI::detail

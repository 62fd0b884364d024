// SPDX-License-Identifier: MIT
// Where datagrams go: the way to a port, which is resolved once, and the queue pair there.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/address_vector.hpp"
#include "verbena/verbs/detail/handle.hpp"
#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/ownership.hpp"

namespace verbena::inline VERBENA_ABI {

class protection_domain;

/// To whom a datagram goes, laid out as in `ibv_send_wr::wr.ud`. It borrows the address handle, for
/// as long as requests that name it are under way. Threads: immutable value.
class destination {
 public:
  /// By a handle of the C API.
  destination(ibv_ah* way, queue_pair_number number, queue_key key) noexcept
      : way_(way), number_(number), key_(key) {}

  /// The way to the port.
  [[nodiscard]] ibv_ah* native() const noexcept { return way_; }
  /// The queue pair at the end of the way.
  [[nodiscard]] queue_pair_number number() const noexcept { return number_; }
  /// The key that the datagram carries.
  [[nodiscard]] queue_key key() const noexcept { return key_; }

 private:
  ibv_ah* way_;
  queue_pair_number number_;
  queue_key key_;
};
static_assert(std::is_standard_layout_v<destination> && std::is_trivially_copyable_v<destination>);

namespace detail {
/// The rule of addressed requests that checked builds hold.
inline void check_same_domain([[maybe_unused]] const destination& to,
                              [[maybe_unused]] const ibv_qp* queue) {
  VERBENA_CHECK(to.native() != nullptr && to.native()->pd == queue->pd,
                "a datagram is addressed by an address handle of its queue pair's protection "
                "domain");
}
}  // namespace detail

/// The way to a port, made by protection_domain::create_address_handle. A cheap handle: copies
/// share the native object, which is destroyed when the last one goes; it keeps its protection
/// domain alive. It serves all datagram queue pairs of that domain.
/// Threads: one handle by one thread at a time; copies may be used by several.
class address_handle : public detail::handle<detail::address_handle_state> {
 public:
  /// Takes over or borrows a handle that the C API made from `pd`.
  [[nodiscard]] static address_handle adopt(ibv_ah* native, const protection_domain& pd,
                                            ownership owner);

  /// The queue pair `number` at the end of this way, which lets in datagrams with its own `key`. A
  /// key with the top bit set stands for the key of the queue pair that sends.
  ///
  /// *Contract.* The handle must outlive the requests that are sent there: until the completion of
  /// each, or of a later one of its queue, was polled.
  [[nodiscard]] verbena::destination destination(queue_pair_number number, queue_key key) const& {
    return {native(), number, key};
  }
  /// A temporary handle is gone before the request is sent.
  verbena::destination destination(queue_pair_number number, queue_key key) const&& = delete;

  /// Destroys the native object now. Hands the handle back when it is shared, or when the verb
  /// refuses.
  [[nodiscard]] close_result<address_handle> close() && { return close_handle(std::move(*this)); }

 private:
  friend struct detail::internals;
  using handle::handle;
};

}  // namespace verbena::inline VERBENA_ABI

// SPDX-License-Identifier: MIT
// Queue pairs with completion queues, and posting by both interfaces, for tests of all transports
// except RC.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "tests/conformance/tested_device.hpp"
#include "tests/conformance/traffic.hpp"
#include "verbena/verbs/address_vector.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/global_route_header.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena::conformance {

/// A prepared queue pair with its completion queues. Threads: one thread at a time.
template <transport Transport>
struct prepared_end {
  completion_queue sends;
  completion_queue receives;
  prepared_queue_pair<Transport> queue;
};

/// A queue pair with its completion queues. Threads: one thread at a time.
template <transport Transport>
struct end {
  completion_queue sends;
  completion_queue receives;
  queue_pair<Transport> queue;
};

/// Creates queue pairs of the device under test. Threads: one thread at a time.
template <transport Transport>
class maker {
 public:
  using options = queue_pair_options<Transport>;

  [[nodiscard]] const verbena::context& context() const { return tested().context; }
  [[nodiscard]] const protection_domain& pd() const { return pd_; }

  [[nodiscard]] prepared_end<Transport> prepare(const options& with) const {
    auto [sends, receives] = queues();
    return {sends, receives, pd_.create_qp<Transport>(sends, receives, with).value()};
  }
  [[nodiscard]] prepared_end<Transport> prepare(const shared_receive_queue& from,
                                                const options& with) const {
    auto [sends, receives] = queues();
    return {sends, receives, pd_.create_qp<Transport>(sends, receives, from, with).value()};
  }
  /// Connects two ends with each other.
  [[nodiscard]] std::pair<end<Transport>, end<Transport>> join(prepared_end<Transport> a,
                                                               prepared_end<Transport> b) const
    requires connected_transport<Transport>
  {
    const endpoint to_a = a.queue.endpoint();
    const endpoint to_b = b.queue.endpoint();
    end<Transport> first{a.sends, a.receives, std::move(a.queue).handshake(to_b).value()};
    end<Transport> second{b.sends, b.receives, std::move(b.queue).handshake(to_a).value()};
    return {std::move(first), std::move(second)};
  }
  /// Connects an end with itself.
  [[nodiscard]] end<Transport> loop(prepared_end<Transport> a) const
    requires connected_transport<Transport>
  {
    const endpoint itself = a.queue.endpoint();
    return {a.sends, a.receives, std::move(a.queue).handshake(itself).value()};
  }

 private:
  [[nodiscard]] std::pair<completion_queue, completion_queue> queues() const {
    return {context().create_cq(64).value(), context().create_cq(64).value()};
  }

  protection_domain pd_ = tested().context.allocate_pd().value();
};

/// Returns the GRH in front of a received datagram. On InfiniBand a datagram within the subnet has
/// none.
[[nodiscard]] inline std::optional<global_route_header> header_of(
    const completion& arrived, std::span<const std::byte> received) {
  if (!arrived.flags().contains(completion_flag::global_route_header)) return std::nullopt;
  return global_route_header::decode(received).value();
}
/// Expects the GRH of a datagram from `from` to `to`, or the LID of `from` where there is no GRH.
inline void expect_source(const completion& arrived, std::span<const std::byte> received,
                          const endpoint& from, const endpoint& to) {
  const auto header = header_of(arrived, received);
  EXPECT_EQ(header.has_value(), !is_infiniband());
  if (!header) {
    EXPECT_EQ(lid(arrived.native().slid), from.lid);
    return;
  }
  EXPECT_EQ(header->source, from.gid);
  EXPECT_EQ(header->destination, to.gid);
}
/// Returns whether `sender` is the address of `from`: its GID, or within an InfiniBand subnet its
/// LID.
[[nodiscard]] inline ::testing::AssertionResult is_address_of(const address_vector& sender,
                                                              const endpoint& from) {
  const bool equal = sender.gid ? sender.gid == from.gid : sender.lid == from.lid;
  if (equal && (sender.gid || is_infiniband())) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << to_string(sender) << " is not " << to_string(from);
}

/// Submits a batch of `queue` by the interface `by`. `add` adds the requests.
template <transport Transport, class Add>
void post_by(interface_kind by, queue_pair<Transport>& queue, Add&& add) {
  if (by == interface_kind::classic) {
    auto batch = queue.start_send();
    add(batch);
    batch.submit().value();
    return;
  }
  auto poster = queue.extended().value();
  auto batch = poster.start_send();
  add(batch);
  batch.submit().value();
}

}  // namespace verbena::conformance

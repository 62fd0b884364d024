// SPDX-License-Identifier: MIT
// Queue pairs with completion queues, and posting by both interfaces, for tests of all transports
// except RC.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "tests/conformance/tested_device.hpp"
#include "tests/conformance/traffic.hpp"
#include "verbena/verbs/completion_queue.hpp"
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

// SPDX-License-Identifier: MIT
// Misconfigurations: shared receive queues, and addresses of senders.
#include <optional>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/misconfigurations/produce.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena::misconfigurations {
namespace {

using testing_support::open_soft;

protection_domain new_domain() { return open_soft().allocate_pd().value(); }

shared_receive_queue small_queue() {
  return new_domain().create_srq({.max_wr = 16, .max_sge = 1}).value();
}

}  // namespace

error shared_queue_without_room() { return error_of(new_domain().create_srq({.max_wr = 0})); }
error shared_queue_too_long() { return error_of(new_domain().create_srq({.max_wr = 10'000'000})); }
error shared_queue_limit_beyond() { return error_of(small_queue().arm_limit(5'000)); }
error shared_queue_resized_beyond() { return error_of(small_queue().resize(10'000'000)); }
error receive_beside_shared_queue() {
  const auto pd = new_domain();
  const auto cq = pd.context().create_cq(16).value();
  const auto shared = pd.create_srq({.max_wr = 16, .max_sge = 1}).value();
  auto prepared = pd.create_qp<rc>(cq, cq, shared).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  const auto memory = pd.allocate(64, access::local_write).value();
  // The library does not have such a function, so the C API posts the request.
  ibv_sge into{.addr = memory.slice().address(), .length = 64, .lkey = memory.local_key().value()};
  ibv_recv_wr request{};
  request.sg_list = &into;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  return queue.describe_refused_receive(
      post_status(refused_post{.code = ibv_post_recv(queue.native(), &request, &refused)}));
}
error sender_of_a_failure() {
  ibv_wc failed{};
  failed.status = IBV_WC_WR_FLUSH_ERR;
  return error_of(new_domain().sender_address(completion(failed), port_number(1), std::nullopt));
}

}  // namespace verbena::misconfigurations

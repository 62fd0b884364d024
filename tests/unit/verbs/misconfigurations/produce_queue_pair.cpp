// SPDX-License-Identifier: MIT
// Misconfigurations: creation and connection of queue pairs, and posts.
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/misconfigurations/produce.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena::misconfigurations {
namespace {

using attribute = queue_pair_attribute;
using state = queue_pair_state;
using testing_support::open_soft;

// A queue pair in RESET, with the objects that it needs.
struct bench {
  explicit bench(const queue_pair_options<rc>& options = {})
      : device(open_soft()),
        pd(device.allocate_pd().value()),
        cq(device.create_cq(64).value()),
        prepared(pd.create_qp<rc>(cq, cq, options).value()),
        self(prepared.endpoint()) {}

  // Returns the attributes of the transition to RTR, with the queue pair as its own peer.
  [[nodiscard]] queue_pair_attributes to_rtr() const {
    return prepared.rtr_attributes(self).value();
  }
  void initialise() { prepared.modify(prepared.init_attributes()).value(); }
  void receive_ready() {
    initialise();
    prepared.modify(to_rtr()).value();
  }
  error refused(const queue_pair_attributes& changes) { return error_of(prepared.modify(changes)); }
  // A queue pair in INIT.
  error refused_in_init(const queue_pair_attributes& changes) {
    initialise();
    return refused(changes);
  }

  context device;
  protection_domain pd;
  completion_queue cq;
  prepared_queue_pair<rc> prepared;
  endpoint self;
};

error creating(const queue_pair_options<rc>& options) {
  const auto device = open_soft();
  const auto cq = device.create_cq(4).value();
  return error_of(device.allocate_pd().value().create_qp<rc>(cq, cq, options));
}

// Returns the error of the transition to RTR with another address vector.
error rtr_to(address_vector (*change)(address_vector)) {
  bench made;
  auto attributes = made.to_rtr();
  attributes.set_address(change(*attributes.address()));
  return made.refused_in_init(attributes);
}

std::vector<local_slice> five_slices(const memory_region& of) {
  return {of.slice(0, 8), of.slice(8, 8), of.slice(16, 8), of.slice(24, 8), of.slice(32, 8)};
}

// Posts a message with these slices, which is refused.
template <class Slices>
post_status send_once(queue_pair<rc>& queue, const Slices& data) {
  auto batch = queue.start_send();
  batch.send({.id = 1, .signaled = true}, data);
  return batch.submit();
}

}  // namespace

error send_queue_too_long() { return creating({.queues = {.max_send_wr = 20000}}); }
error receive_queue_too_long() { return creating({.queues = {.max_recv_wr = 20000}}); }
error too_many_send_slices() { return creating({.queues = {.max_send_sge = 64}}); }
error too_many_receive_slices() { return creating({.queues = {.max_recv_sge = 64}}); }
error too_much_inline_data() { return creating({.queues = {.max_inline_data = 100000}}); }
error retry_count_beyond() { return creating({.reliability = {.retry_count = 8}}); }
error service_level_beyond() { return creating({.route = {.service_level = 16}}); }
error queue_pair_on_port_zero() { return creating({.route = {.port = port_number(0)}}); }
error mtu_that_does_not_exist() { return creating({.route = {.path_mtu = static_cast<mtu>(9)}}); }
error queues_of_another_context() {
  const auto cq = open_soft().create_cq(4).value();
  return error_of(open_soft().allocate_pd().value().create_qp<rc>(cq, cq));
}
error queue_pairs_exhausted() {
  const auto device = open_soft();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(1).value();
  const queue_pair_options<rc> smallest{.queues = {.max_send_wr = 1, .max_recv_wr = 1},
                                        .extended = false};
  std::vector<prepared_queue_pair<rc>> kept;
  for (std::size_t i = 0; i <= 16384; ++i) {
    auto made = pd.create_qp<rc>(cq, cq, smallest);
    if (!made) return std::move(made).error();
    kept.push_back(*std::move(made));
  }
  return error(error_kind::os, 0, "nothing failed");
}

error reset_to_rts() {
  bench made;
  return made.refused(made.prepared.rts_attributes(made.self));
}
error rts_to_init() {
  bench made;
  made.receive_ready();
  made.prepared.modify(made.prepared.rts_attributes(made.self)).value();
  return made.refused(made.prepared.init_attributes());
}
error init_without_port() {
  bench made;
  return made.refused(made.prepared.init_attributes().remove(attribute::port));
}
error rtr_without_path() {
  bench made;
  return made.refused_in_init(made.to_rtr().remove(attribute::path_mtu | attribute::min_rnr_timer));
}
error init_with_queue_key() {
  bench made;
  return made.refused(made.prepared.init_attributes().set_qkey(queue_key(1)));
}
error rtr_with_timeout() {
  bench made;
  return made.refused_in_init(made.to_rtr().set_timeout({}));
}
error init_on_absent_port() {
  bench made;
  return made.refused(made.prepared.init_attributes().set_port(port_number(3)));
}
error init_with_pkey_beyond() {
  bench made;
  return made.refused(made.prepared.init_attributes().set_pkey_index(5));
}
error rtr_without_gid() {
  return rtr_to([](address_vector to) {
    to.gid.reset();
    to.lid = lid(1);
    return to;
  });
}
error rtr_from_empty_gid() {
  return rtr_to([](address_vector to) {
    to.source_gid_index = gid_index(63);
    return to;
  });
}
error rtr_from_gid_beyond() {
  return rtr_to([](address_vector to) {
    to.source_gid_index = gid_index(200);
    return to;
  });
}
error rtr_to_another_host() {
  return rtr_to([](address_vector to) {
    to.gid = parse_gid("192.0.2.77");
    return to;
  });
}
error rtr_to_number_zero() {
  bench made;
  return made.refused_in_init(made.to_rtr().set_destination(queue_pair_number(0)));
}
error rtr_with_reads_beyond() {
  bench made;
  return made.refused_in_init(made.to_rtr().set_responder_resources(200));
}
error rts_with_reads_beyond() {
  bench made;
  made.receive_ready();
  return made.refused(made.prepared.rts_attributes(made.self).set_initiator_depth(200));
}
error address_not_resolved() {
  provider other = *soft_provider().value();
  other.origin = provider_origin::system;
  failing_provider failing(other);
  const auto device = open_soft(failing.get()).value();
  const auto cq = device.create_cq(4).value();
  auto prepared = device.allocate_pd().value().create_qp<rc>(cq, cq).value();
  prepared.modify(prepared.init_attributes()).value();
  const auto to_rtr = prepared.rtr_attributes(prepared.endpoint()).value();
  failing.fail_verb("ibv_modify_qp", ETIMEDOUT);
  error failed = error_of(prepared.modify(to_rtr));
  failing.fail_call(0, 0);
  return failed;
}
error peer_without_gid() {
  bench made;
  made.self.gid.reset();
  return error_of(std::move(made.prepared).handshake(made.self));
}

error send_in_reset() {
  bench made;
  const auto memory = made.pd.allocate(64, access::local_write).value();
  auto queue = std::move(made.prepared).into_queue_pair();
  return queue.describe_refused_send(send_once(queue, memory.slice()));
}
error send_in_init() {
  bench made;
  made.initialise();
  const auto memory = made.pd.allocate(64, access::local_write).value();
  auto queue = std::move(made.prepared).into_queue_pair();
  return queue.describe_refused_send(send_once(queue, memory.slice()));
}
error receive_in_reset() {
  bench made;
  const auto memory = made.pd.allocate(64, access::local_write).value();
  auto queue = std::move(made.prepared).into_queue_pair();
  return queue.describe_refused_receive(queue.post_receive({.id = 1}, memory.slice()));
}
error send_queue_full() {
  // Messages without a receive stay in the send queue.
  bench made({.queues = {.max_send_wr = 2}, .reliability = {.rnr_retry_count = 7}});
  const auto memory = made.pd.allocate(64, access::local_write).value();
  auto queue = std::move(made.prepared).handshake(made.self).value();
  post_status last;
  for (int i = 0; i < 64 && last.has_value(); ++i) last = send_once(queue, memory.slice());
  return queue.describe_refused_send(last);
}
error receive_queue_full() {
  bench made({.queues = {.max_recv_wr = 2}});
  const auto memory = made.pd.allocate(64, access::local_write).value();
  auto queue = std::move(made.prepared).handshake(made.self).value();
  post_status last;
  for (int i = 0; i < 64 && last.has_value(); ++i)
    last = queue.post_receive({.id = 1}, memory.slice(static_cast<std::size_t>(i), 1));
  return queue.describe_refused_receive(last);
}
error send_with_too_many_slices() {
  test::loopback pair;
  const auto memory = pair.memory(64);
  const auto slices = five_slices(memory);
  auto& queue = pair.a().queue;
  return queue.describe_refused_send(send_once(queue, slices), {.slices = 5});
}
error receive_with_too_many_slices() {
  test::loopback pair;
  const auto memory = pair.memory(64);
  const auto slices = five_slices(memory);
  auto& queue = pair.a().queue;
  return queue.describe_refused_receive(queue.post_receive({.id = 1}, slices), {.slices = 5});
}
error send_with_too_much_inline_data() {
  test::loopback pair;
  auto& queue = pair.a().queue;
  const std::vector<std::byte> bytes(queue.capabilities().max_inline_data + 1);
  return queue.describe_refused_send(send_once(queue, inline_data(bytes)),
                                     {.inline_bytes = bytes.size()});
}

}  // namespace verbena::misconfigurations

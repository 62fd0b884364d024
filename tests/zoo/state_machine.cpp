// SPDX-License-Identifier: MIT
// Queue pair states: from RESET to RTS, to the error state, and back.
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace state_machine_entries {
namespace {

const std::string old_text(64, 'o');
const std::string new_text(64, 'n');

/// Two unconnected queue pairs with one completion queue.
struct unconnected {
  explicit unconnected(const queue_pair_options<rc>& options = fast_failure_options())
      : options_of_both(options) {}
  /// Options with which failures are reported quickly.
  static queue_pair_options<rc> fast_failure_options() {
    return {.access = access::remote_read | access::remote_write,
            .reliability = {.timeout = ack_timeout::at_least(1ms), .retry_count = 1}};
  }
  prepared_queue_pair<rc> prepare() const {
    return pd.create_qp<rc>(cq, cq, options_of_both).value();
  }
  queue_pair_options<rc> options_of_both;
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, all_access).value();
  completion_queue cq = device.create_cq(64).value();
  prepared_queue_pair<rc> a = prepare();
  prepared_queue_pair<rc> b = prepare();
};

int post_raw_send(ibv_qp* queue, const local_slice& of) {
  check::posted_elsewhere(queue);
  ibv_sge piece = of.native();
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  return ibv_post_send(queue, &request, &refused);
}

void send_before_the_handshake() {
  unconnected with;
  with.a.modify(with.a.init_attributes()).value();
  static_cast<void>(post_raw_send(with.a.native(), with.memory.slice(0, 64)));
  if (take(with.cq, 1, short_deadline()).empty())
    harmed("a send that was posted in INIT never completes");
}
void send_after_the_handshake() {
  unconnected with(queue_pair_options<rc>{});
  const auto to_a = with.a.endpoint();
  const auto to_b = with.b.endpoint();
  auto sender = std::move(with.a).handshake(to_b).value();
  auto receiver = std::move(with.b).handshake(to_a).value();
  receiver.post_receive({.id = 1}, with.memory.slice(64, 64)).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  take_successful(with.cq, 2);
}

// Modifies a to RTS. Omits the attributes `omitted` in the transition to RTR.
result<void> modify_to_rts(unconnected& with, queue_pair_attribute_mask omitted) {
  const auto peer = with.b.endpoint();
  VERBENA_TRY_VOID(with.a.modify(with.a.init_attributes()));
  VERBENA_TRY(auto to_rtr, with.a.rtr_attributes(peer));
  VERBENA_TRY_VOID(with.a.modify(to_rtr.remove(omitted)));
  return with.a.modify(with.a.rts_attributes(peer));
}
void omit_attribute_in_c() {
  unconnected with;
  const auto peer = with.b.endpoint();
  const auto& verbs = with.a.provider().verbs;
  for (auto step : {with.a.init_attributes(), with.a.rtr_attributes(peer).value(),
                    with.a.rts_attributes(peer)}) {
    step.remove(queue_pair_attribute::min_rnr_timer);
    ibv_qp_attr attributes = step.native();
    static_cast<void>(
        verbs.modify_qp(with.a.native(), &attributes, static_cast<int>(step.mask().mask())));
  }
  static_cast<void>(post_raw_send(with.a.native(), with.memory.slice(0, 64)));
  if (take(with.cq, 1, short_deadline()).empty())
    harmed("two transitions failed, the queue pair remains in INIT, and the send never completes");
}
void omit_attribute() {
  unconnected with;
  const auto outcome = modify_to_rts(with, queue_pair_attribute::min_rnr_timer);
  require(!outcome, "the transition succeeded");
  reported(outcome.error().message());
}
void set_all_attributes() {
  unconnected with;
  modify_to_rts(with, {}).value();
  require(
      with.a.query(queue_pair_attribute::state).value().state() == queue_pair_state::ready_to_send,
      "the queue pair is in another state");
}

// Writes with an invalid rkey and then informs the peer's program by a pipe.
void ignore_completion_status() {
  pair with;
  put(with.at(0, 64), new_text);
  put(with.at(4096, 64), old_text);
  const remote_region stale({.address = with.memory.remote().address() + 4096,
                             .length = 64,
                             .key = remote_key(with.memory.remote_key().value() ^ 0x5A5A00U)});
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 64), stale);
  batch.submit().value();
  const auto ended = take(with.a->sends, 1);  // the mistake: the status is ignored
  require(ended.size() == 1, "the write did not complete");
  const auto seen = text_at(with.at(4096, 64), 64);
  if (seen != new_text) harmed("the peer uses old bytes as the result: " + seen);
}
void check_operation_result() {
  channels with;
  put(with.at(0, 64), new_text);
  const auto outcome = with.a->write(
      source(with.memory, 0, 64), with.memory.remote().slice(4096, 64), abort_at(long_deadline()));
  require(outcome.has_value() && text_at(with.at(4096, 64), 64) == new_text, "the write failed");
}

void reset_and_wait() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
  if (take(with.b->receives, 1, short_deadline()).empty())
    harmed("a reset discards requests, and they never complete");
}
void flush_of_a_channel() {
  channels with;
  const auto pool = with.pool();
  auto receiving = with.b->post_receive(*pool.take(64));
  with.b->flush();
  require(receiving.poll() != nullptr && !receiving.poll()->has_value(),
          "the operation did not complete");
  require(!receiving.take_buffer().empty(), "the buffer was not returned");
  verified("the receive completed: " + receiving.poll()->error().message());
}
void flush_and_wait() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  const auto flushed = take(with.b->receives, 1);
  require(flushed.size() == 1 && flushed[0].status() == completion_status::flushed,
          "the receive was not flushed");
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
}

// One side uses another first PSN than its endpoint states.
void connect_with_wrong_psn() {
  unconnected with;
  const auto to_a = with.a.endpoint();
  const auto to_b = with.b.endpoint();
  auto sender = std::move(with.a).handshake(to_b).value();
  with.b.modify(with.b.init_attributes()).value();
  auto to_rtr = with.b.rtr_attributes(to_a).value();
  to_rtr.set_receive_psn(
      packet_sequence_number((to_rtr.receive_psn()->value() + 1000) & packet_sequence_number::max));
  with.b.modify(to_rtr).value();
  with.b.modify(with.b.rts_attributes(to_a)).value();
  auto receiver = std::move(with.b).into_queue_pair();
  receiver.post_receive({.id = 1}, with.memory.slice(64, 64)).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  const auto ended = take(with.cq, 1);
  require(ended.size() == 1, "the send did not complete");
  if (!ended[0].ok()) harmed("no message arrives: " + to_string(ended[0].status()));
}
// The first PSN is part of the endpoint; handshake() accepts no other PSN.
template <class Number>
concept handshake_accepts =
    requires(prepared_channel made, Number number) { std::move(made).handshake(number); };
static_assert(!handshake_accepts<packet_sequence_number> && handshake_accepts<endpoint>);
void connect_with_psn_of_endpoint() {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto memory = pd.allocate(64, all_access).value();
  for (const std::uint32_t first : {0U, 1U, 0x7fffffU, packet_sequence_number::max}) {
    auto one = pd.create_channel({.first_psn = packet_sequence_number(first)}).value();
    auto two = pd.create_channel().value();
    const auto to_one = one.endpoint();
    const auto to_two = two.endpoint();
    auto a = std::move(one).handshake(to_two).value();
    auto b = std::move(two).handshake(to_one).value();
    const auto received = b.scope(abort_at(long_deadline()), [&](operation_scope& serving) {
      const auto message = serving.receive(sink(memory, 0, 32));
      a.send(source(memory, 32, 32), abort_at(long_deadline())).value();
    });
    require(received.has_value(), "a message does not arrive");
  }
  verified("messages arrive with every first PSN");
}

// One side sends when it is ready, before the peer is ready.
void send_before_peer_is_ready() {
  unconnected with;
  const auto to_b = with.b.endpoint();
  auto sender = std::move(with.a).handshake(to_b).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  const auto ended = take(with.cq, 1);  // b is still in RESET
  require(ended.size() == 1, "the send did not complete");
  if (!ended[0].ok())
    harmed("the first message failed before the peer was ready: " + to_string(ended[0].status()));
}
void send_after_ready_handshake() {
  unconnected with(queue_pair_options<rc>{});
  auto listening = bringup::listener::open({.host = "127.0.0.1", .port = 0}).value();
  std::optional<queue_pair<rc>> receiver;
  std::thread peer([&] {
    auto stream = listening.accept(long_deadline()).value();
    receiver.emplace(
        bringup::connect_queue_pair(
            std::move(with.b), stream, long_deadline(),
            [&](queue_pair<rc>& ready) -> result<void> {
              return ready.post_receive({.id = 1}, with.memory.slice(64, 64)).has_value()
                         ? result<void>{}
                         : error::unavailable(0, "post", "", "the receive");
            })
            .value());
  });
  auto stream =
      bringup::stream::connect({.host = "127.0.0.1", .port = listening.port()}, long_deadline())
          .value();
  auto sender = bringup::connect_queue_pair(std::move(with.a), stream, long_deadline()).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  peer.join();
  take_successful(with.cq, 2);
  verified("connect_queue_pair returned after the peer was ready to receive");
}
void send_with_retries_until_peer_is_ready() {
  unconnected with({.reliability = {.timeout = ack_timeout::at_least(200ms)}});
  const auto to_a = with.a.endpoint();
  const auto to_b = with.b.endpoint();
  auto sender = std::move(with.a).handshake(to_b).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  auto receiver = std::move(with.b).handshake(to_a).value();
  receiver.post_receive({.id = 1}, with.memory.slice(64, 64)).value();
  take_successful(with.cq, 2);
}

constexpr std::array entries = {
    entry{
        .name = "send_posted_before_the_handshake",
        .kind = "state machine",
        .mistake = "a send is posted to a queue pair that is not in RTS, and the status is ignored",
        .seen = "ibv_modify_qp(3): sends are posted in RTS",
        .does = harm::hang,
        .caught_by = level::compiler,
        .words = "verbs/prepared_queue_pair_cannot_post",
        .ibverbs = {answer::yes, "PreparedQueuePair does not post"},
        .ibverbs_rs = {answer::yes, "PreparedQueuePair does not post"},
        .rrddmma = {answer::no, "one type for all states"},
        .harmful = &send_before_the_handshake,
        .caught = nullptr,
        .twin = &send_after_the_handshake},
    entry{.name = "attribute_missing_in_modify_qp",
          .kind = "state machine",
          .mistake = "ibv_modify_qp without a required attribute: EINVAL without a cause",
          .seen = "ibv_modify_qp(3), its tables; rust-ibverbs lib.rs:4852 for the same reason",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "MIN_RNR_TIMER",
          .ibverbs = {answer::yes, "after EINVAL it names the missing bits"},
          .ibverbs_rs = {answer::yes, "handshake sets all attributes, and there is no modify"},
          .rrddmma = {answer::yes, "bind_peer sets all attributes"},
          .harmful = &omit_attribute_in_c,
          .caught = &omit_attribute,
          .twin = &set_all_attributes},
    entry{.name = "completion_status_ignored",
          .kind = "state machine",
          .mistake =
              "completions are counted without their status: a failed write is considered complete",
          .seen = "mlx PR #3152: silent corruption, because the status was never checked",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "channel/operation_result_must_be_used",
          .ibverbs = {answer::no, "a completion can be taken without its status"},
          .ibverbs_rs = {answer::yes, "operations return a Result, which must be used"},
          .rrddmma = {answer::no, "a completion can be taken without its status"},
          .harmful = &ignore_completion_status,
          .caught = nullptr,
          .twin = &check_operation_result},
    entry{.name = "reset_instead_of_flush",
          .kind = "state machine",
          .mistake = "a queue pair is reset to flush its requests, which discards them",
          .seen = "monarch #3804: flush the queue pair when an operation times out",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the receive completed: ",
          .ibverbs = {answer::no, "modify to RESET is safe"},
          .ibverbs_rs = {answer::absent, "there is no address_handle_of_self to change the state"},
          .rrddmma = {answer::no, "reset() is safe"},
          .harmful = &reset_and_wait,
          .caught = &flush_of_a_channel,
          .twin = &flush_and_wait},
    entry{.name = "first_psns_do_not_match",
          .kind = "state machine",
          .mistake = "rq_psn of one side differs from sq_psn of the peer",
          .seen = "ibverbs 0.9.2: sq_psn is 0, and set_rq_psn may be called",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "messages arrive with every first PSN",
          .ibverbs = {answer::no, "0.9.2 always sends from 0"},
          .ibverbs_rs = {answer::no, "send_psn and recv_psn are set separately on each side"},
          .rrddmma = {answer::yes, "both are 0, always"},
          .harmful = &connect_with_wrong_psn,
          .caught = &connect_with_psn_of_endpoint,
          .twin = &send_after_the_handshake,
          .in_c_verbs = "RETRY_EXC_ERR"},
    entry{.name = "first_message_before_the_peer_is_ready",
          .kind = "state machine",
          .mistake =
              "one side sends when it is in RTS, and its retries end before the peer is in RTR",
          .seen = "ibverbs-rs channel/builder.rs:80: nothing waits for the peer; timeout 66 us",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "connect_queue_pair returned after the peer was ready to receive",
          .ibverbs = {answer::no, "handshake does not wait for the peer's"},
          .ibverbs_rs = {answer::no, "handshake does not wait for the peer's"},
          .rrddmma = {answer::no, "the connecter does not wait for the peer's RTS"},
          .harmful = &send_before_peer_is_ready,
          .caught = &send_after_ready_handshake,
          .twin = &send_with_retries_until_peer_is_ready,
          .in_c_verbs = "RETRY_EXC_ERR"},
};

}  // namespace
}  // namespace state_machine_entries

std::span<const entry> state_machine() { return state_machine_entries::entries; }

}  // namespace verbena::zoo

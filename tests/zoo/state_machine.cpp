// SPDX-License-Identifier: MIT
// The way of a queue pair from RESET to RTS, to the error state, and back.
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

/// Two queue pairs that are not connected, of one completion queue.
struct unconnected {
  explicit unconnected(const queue_pair_options<rc>& options = quick())
      : options_of_both(options) {}
  /// Failures come soon.
  static queue_pair_options<rc> quick() {
    return {.access = access::remote_read | access::remote_write,
            .reliability = {.timeout = ack_timeout::at_least(1ms), .retry_count = 1}};
  }
  prepared_queue_pair<rc> prepare() const {
    return pd.create_qp<rc>(cq, cq, options_of_both).value();
  }
  queue_pair_options<rc> options_of_both;
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, every_right).value();
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
  if (take(with.cq, 1, briefly()).empty())
    harmed("a message that was posted in INIT never completes");
}
void send_after_the_handshake() {
  unconnected with(queue_pair_options<rc>{});
  const auto to_a = with.a.endpoint();
  const auto to_b = with.b.endpoint();
  auto sender = std::move(with.a).handshake(to_b).value();
  auto receiver = std::move(with.b).handshake(to_a).value();
  receiver.post_receive({.id = 1}, with.memory.slice(64, 64)).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  take_good(with.cq, 2);
}

// Brings a up by hand. `forgotten` is left out on the way to RTR.
result<void> go_up(unconnected& with, queue_pair_attribute_mask forgotten) {
  const auto peer = with.b.endpoint();
  VERBENA_TRY_VOID(with.a.modify(with.a.init_attributes()));
  VERBENA_TRY(auto to_rtr, with.a.rtr_attributes(peer));
  VERBENA_TRY_VOID(with.a.modify(to_rtr.remove(forgotten)));
  return with.a.modify(with.a.rts_attributes(peer));
}
void attribute_forgotten_in_c() {
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
  if (take(with.cq, 1, briefly()).empty())
    harmed("two steps were refused, the queue pair stays in INIT, and no message completes");
}
void attribute_forgotten() {
  unconnected with;
  const auto outcome = go_up(with, queue_pair_attribute::min_rnr_timer);
  require(!outcome, "the step was taken");
  told(outcome.error().message());
}
void nothing_forgotten() {
  unconnected with;
  go_up(with, {}).value();
  require(
      with.a.query(queue_pair_attribute::state).value().state() == queue_pair_state::ready_to_send,
      "the queue pair is in another state");
}

// Writes by a key that the peer does not know, and then tells the peer's program by a pipe.
void write_unseen() {
  pair with;
  put(with.at(0, 64), new_text);
  put(with.at(4096, 64), old_text);
  const remote_region stale({.address = with.memory.remote().address() + 4096,
                             .length = 64,
                             .key = remote_key(with.memory.remote_key().value() ^ 0x5A5A00U)});
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 64), stale);
  batch.submit().value();
  const auto ended = take(with.a->sends, 1);  // "it is complete"
  require(ended.size() == 1, "the write did not end");
  const auto seen = text_at(with.at(4096, 64), 64);
  if (seen != new_text) harmed("the peer takes what was there before for the result: " + seen);
}
void write_looked_at() {
  channels with;
  put(with.at(0, 64), new_text);
  const auto outcome = with.a->write(source(with.memory, 0, 64),
                                     with.memory.remote().slice(4096, 64), abort_at(patiently()));
  require(outcome.has_value() && text_at(with.at(4096, 64), 64) == new_text, "the write");
}

void reset_and_wait() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
  if (take(with.b->receives, 1, briefly()).empty())
    harmed("a reset forgets requests, and their completions never come");
}
void flush_of_a_channel() {
  channels with;
  const auto pool = with.pool();
  auto receiving = with.b->post_receive(*pool.take(64));
  with.b->flush();
  require(receiving.poll() != nullptr && !receiving.poll()->has_value(),
          "the operation did not end");
  require(!receiving.take_buffer().empty(), "the buffer did not come back");
  held("the receive ended: " + receiving.poll()->error().message());
}
void flush_and_wait() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(0, 64)).value();
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  const auto flushed = take(with.b->receives, 1);
  require(flushed.size() == 1 && flushed[0].status() == completion_status::flushed, "the flush");
  with.b->queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
}

// Both sides choose a number to begin with, and one of them tells another one than it uses.
void numbers_that_do_not_fit() {
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
  require(ended.size() == 1, "the message did not end");
  if (!ended[0].ok()) harmed("no message gets through: " + to_string(ended[0].status()));
}
// An endpoint has the number in it: there is no other way to give one.
template <class Number>
concept may_begin_with =
    requires(prepared_channel made, Number number) { std::move(made).handshake(number); };
static_assert(!may_begin_with<packet_sequence_number> && may_begin_with<endpoint>);
void numbers_in_endpoints() {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto memory = pd.allocate(64, every_right).value();
  for (const std::uint32_t first : {0U, 1U, 0x7fffffU, packet_sequence_number::max}) {
    auto one = pd.create_channel({.first_psn = packet_sequence_number(first)}).value();
    auto two = pd.create_channel().value();
    const auto to_one = one.endpoint();
    const auto to_two = two.endpoint();
    auto a = std::move(one).handshake(to_two).value();
    auto b = std::move(two).handshake(to_one).value();
    const auto received = b.scope(abort_at(patiently()), [&](operation_scope& serving) {
      const auto message = serving.receive(sink(memory, 0, 32));
      a.send(source(memory, 32, 32), abort_at(patiently())).value();
    });
    require(received.has_value(), "a message does not get through");
  }
  held("messages get through with every first number");
}

// One side thinks that the other one is up, because it is itself.
void first_message_too_early() {
  unconnected with;
  const auto to_b = with.b.endpoint();
  auto sender = std::move(with.a).handshake(to_b).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  const auto ended = take(with.cq, 1);  // b is busy elsewhere, and has not even gone to INIT
  require(ended.size() == 1, "the message did not end");
  if (!ended[0].ok())
    harmed("the first message ended the connection before the peer was there: " +
           to_string(ended[0].status()));
}
void first_message_after_both_are_ready() {
  unconnected with(queue_pair_options<rc>{});
  auto listening = bringup::listener::open({.host = "127.0.0.1", .port = 0}).value();
  std::optional<queue_pair<rc>> receiver;
  std::thread peer([&] {
    auto stream = listening.accept(patiently()).value();
    receiver.emplace(
        bringup::connect_queue_pair(
            std::move(with.b), stream, patiently(),
            [&](queue_pair<rc>& ready) -> result<void> {
              return ready.post_receive({.id = 1}, with.memory.slice(64, 64)).has_value()
                         ? result<void>{}
                         : error::unavailable(0, "post", "", "the receive");
            })
            .value());
  });
  auto stream =
      bringup::stream::connect({.host = "127.0.0.1", .port = listening.port()}, patiently())
          .value();
  auto sender = bringup::connect_queue_pair(std::move(with.a), stream, patiently()).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  peer.join();
  take_good(with.cq, 2);
  held("connect_queue_pair came back when the peer could receive");
}
void first_message_to_a_late_peer() {
  unconnected with({.reliability = {.timeout = ack_timeout::at_least(200ms)}});
  const auto to_a = with.a.endpoint();
  const auto to_b = with.b.endpoint();
  auto sender = std::move(with.a).handshake(to_b).value();
  send(sender, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  auto receiver = std::move(with.b).handshake(to_a).value();
  receiver.post_receive({.id = 1}, with.memory.slice(64, 64)).value();
  take_good(with.cq, 2);
}

constexpr std::array entries = {
    entry{.name = "message_posted_before_the_handshake",
          .kind = "state machine",
          .mistake = "a send is posted to a queue pair that is not in RTS, and the status dropped",
          .seen = "ibv_modify_qp(3): sends are posted in RTS",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/prepared_queue_pair_cannot_post",
          .ibverbs = {answer::yes, "PreparedQueuePair does not post"},
          .ibverbs_rs = {answer::yes, "PreparedQueuePair does not post"},
          .rrddmma = {answer::no, "one type from creation on; bring-up is by methods"},
          .harmful = &send_before_the_handshake,
          .caught = nullptr,
          .twin = &send_after_the_handshake},
    entry{.name = "attribute_forgotten_on_the_way_up",
          .kind = "state machine",
          .mistake = "ibv_modify_qp without an attribute that the step needs: EINVAL, and no more",
          .seen = "ibv_modify_qp(3), its tables; rust-ibverbs lib.rs:4852 for the same reason",
          .does = harm::hang,
          .caught_by = level::value,
          .words = "MIN_RNR_TIMER",
          .ibverbs = {answer::yes, "after EINVAL it names the bits that are missing"},
          .ibverbs_rs = {answer::yes, "handshake sets them all, and there is no modify"},
          .rrddmma = {answer::yes, "bind_peer sets them all"},
          .harmful = &attribute_forgotten_in_c,
          .caught = &attribute_forgotten,
          .twin = &nothing_forgotten},
    entry{.name = "status_of_a_completion_not_looked_at",
          .kind = "state machine",
          .mistake = "completions are counted and not looked at: a failed write passes for done",
          .seen = "mlx PR #3152: silent corruption, since the status was never checked",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "channel/outcome_of_an_operation_is_looked_at",
          .ibverbs = {answer::no, "a completion can be taken without its status"},
          .ibverbs_rs = {answer::yes, "operations return a Result, which must be used"},
          .rrddmma = {answer::no, "a completion can be taken without its status"},
          .harmful = &write_unseen,
          .caught = nullptr,
          .twin = &write_looked_at},
    entry{.name = "reset_in_place_of_a_flush",
          .kind = "state machine",
          .mistake = "a queue pair is reset to get its requests back, which forgets them",
          .seen = "monarch #3804: flush the queue pair when an operation times out",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the receive ended: ",
          .ibverbs = {answer::no, "modify to RESET is safe"},
          .ibverbs_rs = {answer::absent, "there is no way to change the state"},
          .rrddmma = {answer::no, "reset() is safe"},
          .harmful = &reset_and_wait,
          .caught = &flush_of_a_channel,
          .twin = &flush_and_wait},
    entry{.name = "sequence_numbers_that_do_not_fit",
          .kind = "state machine",
          .mistake = "rq_psn of one side is not the sq_psn of the other one",
          .seen = "ibverbs 0.9.2: sq_psn is 0, and set_rq_psn may be called",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "messages get through with every first number",
          .ibverbs = {answer::no, "0.9.2 sends from 0 whatever the peer was told to expect"},
          .ibverbs_rs = {answer::no, "send_psn and recv_psn are set apart, on each side"},
          .rrddmma = {answer::yes, "both are 0, always"},
          .harmful = &numbers_that_do_not_fit,
          .caught = &numbers_in_endpoints,
          .twin = &send_after_the_handshake},
    entry{.name = "first_message_before_the_peer_is_ready",
          .kind = "state machine",
          .mistake = "who is in RTS first sends, and gives up before the peer is in RTR",
          .seen = "ibverbs-rs channel/builder.rs:80: nothing waits for the peer; timeout 66 us",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "connect_queue_pair came back when the peer could receive",
          .ibverbs = {answer::no, "handshake does not wait for the peer's"},
          .ibverbs_rs = {answer::no, "handshake does not wait for the peer's"},
          .rrddmma = {answer::no, "the connecter does not wait for the peer's RTS"},
          .harmful = &first_message_too_early,
          .caught = &first_message_after_both_are_ready,
          .twin = &first_message_to_a_late_peer},
};

}  // namespace
}  // namespace state_machine_entries

std::span<const entry> state_machine() { return state_machine_entries::entries; }

}  // namespace verbena::zoo

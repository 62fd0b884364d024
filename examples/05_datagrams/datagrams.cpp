// SPDX-License-Identifier: MIT
// Ping-pong with datagrams. The responder takes the sender's address from the received message.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace {

using verbena::global_route_header;

constexpr verbena::queue_key key(0x1234);  // the Q_Key of both sides
constexpr std::size_t room = 4096;

// One side: a queue pair, its completion queue, and memory for one message in each direction.
struct player {
  explicit player(const verbena::protection_domain& pd)
      : cq(pd.context().create_cq(16).value()),
        prepared(pd.create_qp<verbena::ud>(cq, cq).value()),
        endpoint(prepared.endpoint()),
        inbox(pd.allocate(room, verbena::access::local_write).value()),
        outbox(pd.allocate(room, verbena::access::local_write).value()) {}

  // Sends `text` and waits for the completion.
  void say(verbena::queue_pair<verbena::ud>& qp, std::string_view text,
           const verbena::destination& to) {
    std::ranges::copy(verbena::bytes_of(text), outbox.bytes().begin());
    qp.post_send({.signaled = true}, outbox.slice(0, text.size()), to).value();
    static_cast<void>(wait());
  }
  // Waits for the next completion.
  verbena::completion wait() {
    std::array<verbena::completion, 1> room_for_one;
    static_cast<void>(cq.wait(room_for_one, verbena::deadline::never()).value());
    room_for_one[0].result().value();
    return room_for_one[0];
  }
  // Returns the message, which follows the GRH.
  [[nodiscard]] bool heard(std::string_view text) const {
    const auto message = inbox.bytes().subspan(global_route_header::encoded_size, text.size());
    return std::ranges::equal(message, verbena::bytes_of(text));
  }

  verbena::completion_queue cq;
  verbena::prepared_queue_pair<verbena::ud> prepared;
  verbena::endpoint endpoint;  // for the peers that send to this side
  verbena::memory_region inbox;
  verbena::memory_region outbox;
};

}  // namespace

int main() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  player alice(pd);
  player bob(pd);

  // Alice has Bob's endpoint. Bob does not have Alice's endpoint.
  auto to_bob = pd.create_ah(alice.prepared.address_of(bob.endpoint).value()).value();
  auto alice_qp = std::move(alice.prepared).activate(key).value();
  auto bob_qp = std::move(bob.prepared).activate(key).value();
  alice_qp.post_receive({}, alice.inbox.slice()).value();
  bob_qp.post_receive({}, bob.inbox.slice()).value();

  alice.say(alice_qp, "ping", to_bob.destination(bob.endpoint.queue_pair, key));

  const auto asked = bob.wait();
  const auto header = global_route_header::decode(bob.inbox.bytes());
  const auto back = pd.sender_address(asked, verbena::port_number(1), header.value()).value();
  auto to_alice = pd.create_ah(back).value();
  const verbena::queue_pair_number sender(asked.native().src_qp);
  bob.say(bob_qp, "pong", to_alice.destination(sender, key));

  static_cast<void>(alice.wait());
  return bob.heard("ping") && alice.heard("pong") ? 0 : 1;
}

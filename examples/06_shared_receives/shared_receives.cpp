// SPDX-License-Identifier: MIT
// A server with more clients than message buffers. Its connections share one receive queue (SRQ).
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t clients = 8;
constexpr std::size_t receives = 4;  // fewer than clients
constexpr std::size_t message_bytes = 64;

struct connection {
  verbena::queue_pair<verbena::rc> client;
  verbena::queue_pair<verbena::rc> server;
};

connection connect(const verbena::protection_domain& pd, const verbena::completion_queue& client_cq,
                   const verbena::completion_queue& server_cq,
                   const verbena::shared_receive_queue& shared) {
  // If no receive is posted, the client retries without limit (7).
  auto client =
      pd.create_qp<verbena::rc>(client_cq, client_cq, {.reliability = {.rnr_retry_count = 7}})
          .value();
  auto server = pd.create_qp<verbena::rc>(server_cq, server_cq, shared).value();
  const auto to_client = client.endpoint();
  const auto to_server = server.endpoint();
  return {std::move(client).handshake(to_server).value(),
          std::move(server).handshake(to_client).value()};
}

}  // namespace

int main() {
  using namespace std::chrono_literals;
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  auto client_cq = context.create_cq(clients).value();
  auto server_cq = context.create_cq(2 * clients).value();
  // The memory must outlive the queue pairs that access it.
  auto inbox = pd.allocate(receives * message_bytes, verbena::access::local_write).value();
  auto outbox = pd.allocate(clients, verbena::access::local_write).value();
  auto shared = pd.create_srq({.max_wr = receives}).value();

  auto batch = shared.start_receive();
  for (std::size_t slot = 0; slot < receives; ++slot)
    batch.receive({.id = slot}, inbox.slice(slot * message_bytes, message_bytes));
  batch.submit().value();

  std::vector<connection> connections;
  connections.reserve(clients);
  for (std::size_t i = 0; i < clients; ++i)
    connections.push_back(connect(pd, client_cq, server_cq, shared));
  for (std::size_t i = 0; i < clients; ++i) {
    outbox.bytes()[i] = static_cast<std::byte>(i + 1);
    auto sends = connections[i].client.start_send();
    sends.send({.id = i, .signaled = true}, outbox.slice(i, 1));
    sends.submit().value();
  }

  // The server. The completion contains the number of the connection's queue pair. The slot is
  // posted again.
  std::size_t served = 0;
  std::size_t sum = 0;
  std::array<verbena::completion, 8> completions;
  const auto until = verbena::deadline::after(10s);
  while (served < clients) {
    for (const auto& done : server_cq.wait(completions, until).value()) {
      done.result().value();
      const bool known = std::ranges::any_of(connections, [&](const connection& each) {
        return each.server.number() == done.queue_pair();
      });
      if (!known) return 1;
      const std::size_t at = done.id() * message_bytes;
      sum += std::to_integer<std::size_t>(inbox.bytes()[at]);
      shared.post_receive({.id = done.id()}, inbox.slice(at, message_bytes)).value();
      ++served;
    }
  }
  for (std::size_t pending = clients; pending > 0;)
    for (const auto& done : client_cq.wait(completions, until).value()) {
      done.result().value();
      --pending;
    }
  return sum == clients * (clients + 1) / 2 ? 0 : 1;
}

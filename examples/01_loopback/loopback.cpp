// SPDX-License-Identifier: MIT
// A queue pair connected to itself sends five bytes and receives them.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <utility>

int main() {
  auto context = verbena::open_device().value();  // hardware if there is any, else soft0
  auto pd = context.allocate_pd().value();
  auto cq = context.create_cq(16).value();

  auto prepared = pd.create_queue_pair<verbena::rc>(cq, cq).value();
  auto endpoint = prepared.endpoint();  // bytes for the peer; here the peer is ourselves
  auto qp = std::move(prepared).handshake(endpoint).value();

  auto inbox = pd.allocate(4096, verbena::access::local_write).value();
  auto outbox = pd.allocate(4096, verbena::access::local_write).value();
  std::ranges::copy(verbena::bytes_of("hello"), outbox.bytes().begin());

  qp.post_receive({.id = 1}, inbox.slice()).value();
  auto batch = qp.start_send();
  batch.send({.id = 2, .signaled = true}, outbox.slice(0, 5));
  batch.submit().value();

  std::array<verbena::completion, 16> completions;
  for (int pending = 2; pending > 0;)
    for (auto& done : cq.poll(completions).value()) {
      done.result().value();  // throws with the verb, the number and the likely cause
      --pending;
    }
  return std::ranges::equal(inbox.bytes().first(5), verbena::bytes_of("hello")) ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// A queue pair connected to itself sends five bytes and receives them.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

int main() {
  using namespace std::chrono_literals;
  auto context = verbena::open_device(verbena::devices::any).value();  // or hardware_only
  auto pd = context.allocate_pd().value();
  auto cq = context.create_cq(16).value();
  auto inbox = pd.allocate(4096, verbena::access::local_write).value();
  auto outbox = pd.allocate(4096, verbena::access::local_write).value();
  std::ranges::copy(verbena::bytes_of("hello"), outbox.bytes().begin());

  // Declared after the memory, so that the queue pair is destroyed first.
  auto prepared = pd.create_qp<verbena::rc>(cq, cq).value();
  auto endpoint = prepared.endpoint();  // for the peer; here the queue pair is its own peer
  auto qp = std::move(prepared).handshake(endpoint).value();

  qp.post_receive({.id = 1}, inbox.slice()).value();
  qp.post_send({.id = 2, .signaled = true}, outbox.slice(0, 5)).value();

  std::array<verbena::completion, 16> completions;
  for (int pending = 2; pending > 0;)
    for (auto& done : cq.wait(completions, verbena::deadline::after(10s)).value()) {
      done.result().value();  // throws with the operation, the status and the likely cause
      --pending;
    }
  return std::ranges::equal(inbox.bytes().first(5), verbena::bytes_of("hello")) ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// A program that is compiled with the headers of one version of rdma-core, and linked with a
// library that was compiled with those of another. It includes every installed header.
// header_versions.py builds it and reads its output.
#include VERBENA_ALL_HEADERS

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

namespace {

// Returns the number of the first check that fails, or 0.
int run() {
  using namespace std::chrono_literals;
  // Structures that later versions extend.
  const auto context = verbena::open_device("soft0").value();
  const auto basic = context.query().value();
  const auto extended = context.query_extended().value();
  if (extended.port_count() != basic.port_count() ||
      extended.basic().max_queue_pairs() != basic.max_queue_pairs())
    return 1;
  const auto port = context.query_port(verbena::port_number(1)).value();
  if (port.number() != verbena::port_number(1) || port.state() != verbena::port_state::active ||
      port.native().gid_tbl_len <= 0)
    return 2;
  // Structures and functions that early versions lack.
  const auto table = context.gid_table().value();
  if (table.empty() || context.query_gid(table[0].port, table[0].index).value() != table[0])
    return 3;
  if (verbena::efa::query_device(context)) return 4;

  // A message by the inline functions of the data path.
  const auto pd = context.allocate_pd().value();
  const auto cq = context.create_cq(16).value();
  auto inbox = pd.allocate(4096, verbena::access::local_write).value();
  auto outbox = pd.allocate(4096, verbena::access::local_write).value();
  std::ranges::copy(verbena::bytes_of("hello"), outbox.bytes().begin());
  auto prepared = pd.create_qp<verbena::rc>(cq, cq).value();
  const auto endpoint = prepared.endpoint();
  auto qp = std::move(prepared).handshake(endpoint).value();
  qp.post_receive({.id = 1}, inbox.slice()).value();
  auto queue = qp.extended().value();
  auto batch = queue.start_send();
  batch.send({.id = 2, .signaled = true}, outbox.slice(0, 5));
  batch.submit().value();
  std::array<verbena::completion, 16> completions;
  for (int pending = 2; pending > 0;)
    for (auto& done : cq.wait(completions, verbena::deadline::after(10s)).value()) {
      done.result().value();
      --pending;
    }
  if (!std::ranges::equal(inbox.bytes().first(5), verbena::bytes_of("hello"))) return 5;
  std::printf("received: hello; %zu GIDs\n", table.size());
  return 0;
}

}  // namespace

int main() {
  const int fault = run();
  if (fault != 0) std::fprintf(stderr, "check %d failed\n", fault);
  return fault;
}

// SPDX-License-Identifier: MIT
#include "verbena/diagnose/device_facts.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "src/verbs/ports.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device_list.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {
namespace {

constexpr std::size_t trial_bytes = 64;

// Three retries of 67 ms each suffice: a working port acknowledges within microseconds.
queue_pair_options<rc> trial_options(port_number port) {
  return {.queues = {.max_send_wr = 1, .max_recv_wr = 1},
          .route = {.port = port},
          .reliability = {.retry_count = 3, .rnr_retry_count = 3}};
}

// Waits for the completions of the message and of its receive.
result<void> await_both(const completion_queue& cq, const queue_pair<rc>& queue) {
  const auto limit = deadline::after(std::chrono::seconds(5));
  std::array<completion, 2> room;
  for (int pending = 2; pending > 0;) {
    const auto polled = cq.poll(room);
    if (!polled) return polled.error();
    for (const auto& done : *polled) {
      if (!done.ok()) return queue.describe(done);
      --pending;
    }
    if ((*polled).empty() && limit.expired())
      return error::timed_out(
          "polling", cq.name(),
          "the device accepted the requests but did not complete them within 5 s");
  }
  return {};
}

bool is_active(const port_attributes& port) { return port.state() == port_state::active; }

result<device_facts> ask(const device& of) {
  device_facts facts{.name = of.name(), .origin = of.origin(), .transport = of.transport()};
  VERBENA_TRY(const auto opened, of.open());
  VERBENA_TRY(const auto ports, verbena::detail::query_ports(opened));
  VERBENA_TRY(const auto gids, opened.gid_table());
  for (const auto& port : ports) {
    port_facts found{.attributes = port, .gids = {}};
    for (const auto& entry : gids)
      if (entry.port == port.number()) found.gids.push_back(entry);
    found.tried = is_active(port) && of.transport() != transport_type::iwarp;
    if (found.tried)
      if (auto outcome = try_port(opened, port.number()); !outcome)
        found.trial_failure = std::move(outcome).error();
    facts.ports.push_back(std::move(found));
  }
  return facts;
}

side_facts ask_side(result<const provider*> from) {
  side_facts side;
  if (!from) {
    side.failure = std::move(from).error();
    return side;
  }
  auto listed = list_devices(**from);
  if (!listed) {
    side.failure = std::move(listed).error();
    return side;
  }
  for (const auto& each : *listed) {
    auto asked = ask(each);
    side.devices.push_back(asked ? *std::move(asked)
                                 : device_facts{.name = each.name(),
                                                .origin = each.origin(),
                                                .transport = each.transport(),
                                                .failure = std::move(asked).error()});
  }
  return side;
}

int shared_memory_error() {
  const unique_fd fd(::memfd_create("verbena-trial", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return fd ? 0 : errno;
}

int remote_copy_error() {
  char from = 1;
  char to = 0;
  const iovec source{&from, 1};
  const iovec target{&to, 1};
  return ::process_vm_readv(::getpid(), &target, 1, &source, 1, 0) == 1 ? 0 : errno;
}

}  // namespace

result<void> try_port(const context& device, port_number port) {
  VERBENA_TRY(const auto pd, device.allocate_pd());
  VERBENA_TRY(const auto cq, device.create_cq(4));
  VERBENA_TRY(const auto memory, pd.allocate(2 * trial_bytes, access::local_write));
  VERBENA_TRY(auto prepared, pd.create_qp<rc>(cq, cq, trial_options(port)));
  const auto self = prepared.endpoint();
  VERBENA_TRY(auto queue, std::move(prepared).handshake(self));
  if (const auto posted = queue.post_receive({.id = 1}, memory.slice(trial_bytes, trial_bytes));
      !posted)
    return queue.describe_refused_receive(posted);
  auto batch = queue.start_send();
  batch.send({.id = 2, .signaled = true}, memory.slice(0, trial_bytes));
  if (const auto posted = batch.submit(); !posted) return queue.describe_refused_send(posted);
  return await_both(cq, queue);
}

devices_facts gather_devices_facts() {
  devices_facts facts;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
  const char* const value = std::getenv("VERBENA_SOFTDEV");
  const std::string_view mode = value != nullptr ? value : "";
  if (auto listed = list_devices();
      !listed && listed.error().kind() == error_kind::invalid_argument)
    facts.mode_failure = std::move(listed).error();
  facts.system.hidden = mode == "only";
  facts.soft.hidden = mode == "off";
  if (!facts.system.hidden) facts.system = ask_side(system_provider());
  if (!facts.soft.hidden) facts.soft = ask_side(soft_provider());
  facts.shared_memory_error = shared_memory_error();
  facts.remote_copy_error = remote_copy_error();
  return facts;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose

// SPDX-License-Identifier: MIT
// Devices, memory regions, queue pair states and errors.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "examples/guide/snippets.hpp"

namespace guide {

void open_a_device() {
  // [list]
  for (const verbena::device& device : verbena::list_devices().value())
    std::cout << to_string(device) << '\n';
  // [/list]

  // [open]
  const auto context = verbena::open_device().value();  // or open_device("mlx5_0")
  const auto port = context.query_port(verbena::port_number(1)).value();
  std::cout << to_string(port) << '\n';
  // [/open]
  require(port.state() == verbena::port_state::active);

  // [gid]
  const auto chosen = context.routable_gid(port.number()).value();
  for (const auto& entry : context.gid_table().value())
    std::cout << (entry == chosen ? "* " : "  ") << to_string(entry) << '\n';
  // [/gid]
}

void memory() {
  const auto context = verbena::open_device().value();
  // [allocate]
  const auto pd = context.allocate_pd().value();
  const auto region =
      pd.allocate(1 << 20, verbena::access::local_write | verbena::access::remote_read).value();
  std::ranges::fill(region.bytes(), std::byte{7});
  // [/allocate]

  // [register]
  std::vector<std::byte> mine(8192);
  const auto registered = pd.register_memory(mine, verbena::access::local_write).value();
  // [/register]
  require(!registered.owns_memory());

  // [slices]
  const verbena::local_slice header = region.slice(0, 64);
  const verbena::local_slice body = region.slice(4096, 1000);
  const std::array message = {header, body};  // one message of two slices
  // [/slices]
  require(message[1].address() == header.address() + 4096);

  // [remote]
  const auto bytes_for_the_peer = region.remote().encode();
  // In the peer's program:
  const auto theirs = verbena::remote_region::decode(bytes_for_the_peer).value();
  const auto second_page = theirs.slice(4096, 4096);
  // [/remote]
  require(second_page.length() == 4096);
}

void state_machine_by_hand() {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  const auto cq = context.create_cq(16).value();
  // [steps]
  auto prepared = pd.create_qp<verbena::rc>(cq, cq).value();
  const verbena::endpoint peer = prepared.endpoint();  // here the queue pair is its own peer
  const auto init = prepared.init_attributes();
  auto rtr = prepared.rtr_attributes(peer).value();
  const auto rts = prepared.rts_attributes(peer);

  auto qp = std::move(prepared).into_queue_pair();  // in state RESET
  qp.modify(init).value();
  rtr.set_min_rnr_timer(verbena::rnr_timer::at_least(std::chrono::milliseconds(1)));
  qp.modify(rtr).value();
  qp.modify(rts).value();
  // [/steps]

  // [query]
  using attribute = verbena::queue_pair_attribute;
  const auto now = qp.query(attribute::state | attribute::timeout).value();
  std::cout << to_string(*now.state()) << ", timeout " << to_string(*now.timeout()) << '\n';
  // [/query]
  require(now.state() == verbena::queue_pair_state::ready_to_send);

  // [refused]
  const auto back = verbena::queue_pair_attributes().set_state(verbena::queue_pair_state::init);
  if (const auto refused = qp.modify(back); !refused)
    std::cout << refused.error().message() << '\n';  // there is no transition from RTS to INIT
  // [/refused]
  require(!qp.modify(back));
}

namespace {
// [try]
verbena::result<verbena::memory_region> open_and_allocate(const std::string& name) {
  VERBENA_TRY(const auto context, verbena::open_device(name));
  VERBENA_TRY(const auto pd, context.allocate_pd());
  return pd.allocate(4096, verbena::access::local_write);
}
// [/try]
}  // namespace

void errors() {
  // [result]
  const auto region = open_and_allocate("no_such_device");
  if (!region) {
    std::cout << region.error().message() << '\n';  // the call, the errno, the likely cause
    require(region.error().is(std::errc::no_such_device));
  }
  // [/result]
  require(!region);

  // [throw]
  try {
    const auto context = verbena::open_device("no_such_device").value();
  } catch (const std::exception& failure) {
    std::cout << failure.what() << '\n';
  }
  // [/throw]
}

}  // namespace guide

// SPDX-License-Identifier: MIT
#include "bench/local/device_side.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace bench {
namespace {
constexpr auto peer_access =
    verbena::access::remote_read | verbena::access::remote_write | verbena::access::remote_atomic;
}  // namespace

device_side::device_side(const process_pair& pair, memory_kind kind, std::size_t bytes)
    : context_(verbena::open_device("soft0").value()),
      pd_(context_.allocate_pd().value()),
      sends_(context_.create_cq(depth).value()),
      channel_(context_.create_completion_channel().value()),
      receives_(context_.create_cq(depth, {.channel = channel_}).value()),
      inbox_(make_memory(pd_, kind, bytes)),
      outbox_(make_memory(pd_, kind, bytes)),
      qp_(connect(pair, pd_, sends_, receives_)),
      peer_(exchange(pair, inbox_.region.remote())) {
  pair.meet();
}

device_side::memory device_side::make_memory(const verbena::protection_domain& pd, memory_kind kind,
                                             std::size_t bytes) {
  const auto access = verbena::access::local_write | peer_access;
  if (kind == memory_kind::shareable) {
    auto region = pd.allocate(bytes, access).value();
    const auto view = region.bytes();
    return {{}, std::move(region), view};
  }
  constexpr std::size_t page = 4096;
  const std::size_t rounded = (bytes + page - 1) / page * page;
  std::unique_ptr<std::byte, release> own(
      static_cast<std::byte*>(std::aligned_alloc(page, rounded)));
  if (own == nullptr) fail("aligned_alloc");
  const std::span<std::byte> view(own.get(), bytes);
  std::ranges::fill(view, std::byte{0});
  auto region = pd.register_memory(view, access).value();
  return {std::move(own), std::move(region), view};
}

verbena::queue_pair<verbena::rc> device_side::connect(const process_pair& pair,
                                                      const verbena::protection_domain& pd,
                                                      const verbena::completion_queue& sends,
                                                      const verbena::completion_queue& receives) {
  auto prepared = pd.create_qp<verbena::rc>(sends, receives,
                                            {.queues = {.max_send_wr = depth, .max_recv_wr = depth},
                                             .access = peer_access})
                      .value();
  pair.send(prepared.endpoint().encode());
  std::array<std::byte, verbena::endpoint::encoded_size> bytes{};
  pair.receive(bytes);
  return std::move(prepared).handshake(verbena::endpoint::decode(bytes).value()).value();
}

verbena::remote_region device_side::exchange(const process_pair& pair,
                                             const verbena::remote_region& mine) {
  pair.send(mine.encode());
  std::array<std::byte, verbena::remote_region::encoded_size> bytes{};
  pair.receive(bytes);
  return verbena::remote_region::decode(bytes).value();
}

}  // namespace bench

// SPDX-License-Identifier: MIT
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "bench/local/device_modes.hpp"
#include "bench/local/measure.hpp"
#include "verbena/verbena.hpp"

namespace bench {
namespace {

using endpoint_bytes = std::array<std::byte, verbena::endpoint::encoded_size>;

// The objects that a process creates once.
struct device_objects {
  verbena::context context = verbena::open_device("soft0").value();
  verbena::protection_domain pd = context.allocate_pd().value();
  verbena::completion_queue sends = context.create_cq(64).value();
  verbena::completion_queue receives = context.create_cq(64).value();
  verbena::memory_region region = pd.allocate(4096, verbena::access::local_write).value();

  [[nodiscard]] verbena::prepared_queue_pair<verbena::rc> prepare() const {
    return pd.create_qp<verbena::rc>(sends, receives).value();
  }
  void post_receive(verbena::queue_pair<verbena::rc>& qp) const {
    auto batch = qp.start_receive();
    batch.receive({}, region.slice(0, 8));
    batch.submit().value();
  }
  void send(verbena::queue_pair<verbena::rc>& qp) const {
    auto batch = qp.start_send();
    batch.send({.signaled = true}, region.slice(64, 8));
    batch.submit().value();
  }
};

// The peer's endpoint comes first, so that the answer says that this side is ready.
verbena::queue_pair<verbena::rc> accept(const process_pair& pair, const device_objects& of) {
  endpoint_bytes bytes{};
  pair.receive_spinning(bytes);
  auto prepared = of.prepare();
  const auto mine = prepared.endpoint().encode();
  auto qp = std::move(prepared).handshake(verbena::endpoint::decode(bytes).value()).value();
  of.post_receive(qp);
  pair.send(mine);
  drain(of.receives, 1);
  of.send(qp);
  return qp;
}

verbena::queue_pair<verbena::rc> connect(const process_pair& pair, const device_objects& of) {
  auto prepared = of.prepare();
  pair.send(prepared.endpoint().encode());
  endpoint_bytes bytes{};
  pair.receive_spinning(bytes);
  auto qp = std::move(prepared).handshake(verbena::endpoint::decode(bytes).value()).value();
  of.post_receive(qp);
  of.send(qp);
  drain(of.receives, 1);
  return qp;
}

}  // namespace

double connection(const process_pair& pair, const device_settings& /*of*/) {
  constexpr repetitions times{.chunks = 500, .per_chunk = 1};
  const device_objects objects;
  std::optional<verbena::queue_pair<verbena::rc>> qp;
  const auto one = [&](std::size_t /*count*/) {
    qp.emplace(pair.is_child() ? accept(pair, objects) : connect(pair, objects));
  };
  const auto disconnect = [&] {
    drain(objects.sends, 1);
    qp.reset();
    pair.meet();
  };
  one(1);  // the processes pair
  disconnect();
  return median_ns(times, one, disconnect);
}

}  // namespace bench

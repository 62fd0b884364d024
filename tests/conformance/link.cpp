// SPDX-License-Identifier: MIT
#include "tests/conformance/link.hpp"

#include <utility>

#include "tests/conformance/tested_device.hpp"

namespace verbena::conformance {
namespace {

class handshake_connector final : public connector {
 public:
  [[nodiscard]] const verbena::context& context() const override { return tested().context; }
  [[nodiscard]] const protection_domain& pd() const override { return pd_; }

  ends connect(const end& first, const end& second) override {
    auto a = prepare(pd_, first, first.options);
    auto b = prepare(pd_, second, second.options);
    const endpoint to_a = a.endpoint();
    const endpoint to_b = b.endpoint();
    auto joined_a = std::move(a).handshake(to_b).value();
    return {std::move(joined_a), std::move(b).handshake(to_a).value()};
  }

 private:
  protection_domain pd_ = tested().context.allocate_pd().value();
};

}  // namespace

std::unique_ptr<connector> make_connector() {
  if (is_iwarp()) return make_iwarp_connector();
  return std::make_unique<handshake_connector>();
}

access_flags all_access() {
  const access_flags data = access::local_write | access::remote_read | access::remote_write;
  const bool has_atomics = tested().context.query().value().atomics() != atomic_scope::none;
  return is_efa() && !has_atomics ? data : data | access::remote_atomic;
}

queue_pair_options<rc> default_options() {
  return {.queues = {.max_send_sge = 4, .max_recv_sge = 4},
          .access = access::remote_read | access::remote_write | access::remote_atomic};
}

link::link(const link_options& options) : connector_(make_connector()) {
  if (options.with_channel) channel_ = context().create_completion_channel().value();
  const queues first = make_queues(options.completions);
  if (options.shape == topology::self) {
    auto prepared = pd().create_qp<rc>(first.sends, first.receives, options.initiator);
    const endpoint itself = prepared.value().endpoint();
    sides_.push_back(
        {first.sends, first.receives, (*std::move(prepared)).handshake(itself).value()});
    return;
  }
  const queues second = make_queues(options.completions);
  auto [a, b] = connector_->connect({first, options.initiator}, {second, options.target});
  sides_.push_back({first.sends, first.receives, std::move(a)});
  sides_.push_back({second.sends, second.receives, std::move(b)});
}

memory_region link::memory(std::size_t bytes, access_flags access) const {
  return pd().allocate(bytes, access).value();
}

queues link::make_queues(std::uint32_t capacity) const {
  const completion_queue_options options{.channel = channel_};
  return {context().create_cq(capacity, options).value(),
          context().create_cq(capacity, options).value()};
}

}  // namespace verbena::conformance

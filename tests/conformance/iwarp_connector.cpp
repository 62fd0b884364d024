// SPDX-License-Identifier: MIT
// Connects queue pairs of iWARP by the connection manager, because ibv_modify_qp cannot connect
// them. All steps run on one thread with one event channel, so the tests can use these queue pairs
// like those of other devices.
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "tests/conformance/link.hpp"
#include "tests/conformance/tested_device.hpp"
#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/identifier.hpp"
#include "verbena/verbs/device_attributes.hpp"

namespace verbena::conformance {
namespace {

using namespace std::chrono_literals;

/// Returns a listening identifier at an address of the device under test. The address selects the
/// device.
cm::identifier listen_on_device(const cm::event_channel& channel) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) raise(error::from_errno(errno, "getifaddrs"));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    auto id = cm::identifier::create(channel).value();
    if (!id.bind(cm::socket_address::from_native(*each->ifa_addr).value()) || !id.port()) continue;
    if (id.context().value().name() != tested().listed.name()) continue;
    id.listen().value();
    return id;
  }
  raise(error::unavailable(0, "rdma_bind_addr", tested().listed.name(),
                           "no IPv4 address of this host belongs to the device"));
}

class iwarp_connector final : public connector {
 public:
  [[nodiscard]] const verbena::context& context() const override { return context_; }
  [[nodiscard]] const protection_domain& pd() const override { return pd_; }

  ends connect(const end& first, const end& second) override {
    using kind = cm::event_kind;
    const auto here = listening_.local_address().value();
    auto active = cm::identifier::create(channel_).value();
    active.resolve_address(here, 2s, here.with_port(0)).value();
    static_cast<void>(expect(kind::address_resolved));
    active.resolve_route(2s).value();
    static_cast<void>(expect(kind::route_resolved));
    auto a = make_queue_pair(active, first);
    active.connect(parameters(a, first.options)).value();
    auto passive = expect(kind::connect_request).take_request().value();
    auto b = make_queue_pair(passive, second);
    passive.accept(parameters(b, second.options)).value();
    static_cast<void>(expect(kind::established));
    static_cast<void>(expect(kind::established));
    ids_.push_back(std::move(active));
    ids_.push_back(std::move(passive));
    return {std::move(a), std::move(b)};
  }

 private:
  // Waits for an event of the given kind.
  [[nodiscard]] cm::event expect(cm::event_kind wanted) const {
    for (;;) {
      auto came = channel_.wait_event(test_deadline()).value();
      if (!came)
        raise(error::timed_out("rdma_get_cm_event", to_string(wanted), "the event did not arrive"));
      if (came->kind() == wanted) return *std::move(came);
      // Ignores events of connections that have ended.
      if (came->kind() != cm::event_kind::disconnected &&
          came->kind() != cm::event_kind::timewait_exit)
        raise(error::protocol("rdma_get_cm_event", to_string(*came),
                              "expected " + to_string(wanted)));
    }
  }

  [[nodiscard]] queue_pair<rc> make_queue_pair(const cm::identifier& id, const end& of) const {
    auto options = of.options;
    options.route.port = id.port().value();
    auto prepared = prepare(pd_, of, options);
    auto changes = id.attributes(queue_pair_state::init).value();
    prepared.modify(changes.set_access(options.access)).value();
    return std::move(prepared).into_queue_pair();
  }

  [[nodiscard]] cm::connection_parameters parameters(const queue_pair<rc>& of,
                                                     const queue_pair_options<rc>& options) const {
    const auto device = context_.query().value();
    const auto limited = [&](int limit) {
      return static_cast<std::uint8_t>(std::min<int>(options.reliability.read_depth, limit));
    };
    return {.responder_resources = limited(device.max_responder_resources()),
            .initiator_depth = limited(device.max_initiator_depth()),
            .retry_count = options.reliability.retry_count,
            .rnr_retry_count =
                options.reliability.rnr_retry_count.value_or(reliability::default_rnr_retry_count),
            .queue_pair = of.number()};
  }

  cm::event_channel channel_ = cm::event_channel::create(*system_provider().value()).value();
  cm::identifier listening_ = listen_on_device(channel_);
  verbena::context context_ = listening_.context().value();
  protection_domain pd_ = context_.allocate_pd().value();
  std::vector<cm::identifier> ids_;
};

}  // namespace

std::unique_ptr<connector> make_iwarp_connector() { return std::make_unique<iwarp_connector>(); }

}  // namespace verbena::conformance

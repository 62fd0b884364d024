// SPDX-License-Identifier: MIT
// Queue pairs of iWARP are connected by the kernel's connection manager and cannot be by
// modification. Everything here happens on one thread, from one event channel.
#include <memory>

#include "tests/conformance/link.hpp"

#ifndef CONFORMANCE_HAS_RDMACM

namespace verbena::conformance {
std::unique_ptr<connector> make_iwarp_connector() {
  raise(error::not_supported("make_iwarp_connector", "",
                             "the suite was built without librdmacm; install librdmacm-dev"));
}
}  // namespace verbena::conformance

#else

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/tested_device.hpp"

namespace verbena::conformance {
namespace {

/// Raises the errno of a call of librdmacm that returned -1.
void check(int outcome, const char* call) {
  if (outcome != 0) raise(error::from_errno(errno, call, tested().listed.name()));
}

struct destroy_channel {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
struct destroy_id {
  void operator()(rdma_cm_id* id) const {
    id->qp = nullptr;  // it belongs to a queue pair of the library
    rdma_destroy_id(id);
  }
};
using unique_channel = std::unique_ptr<rdma_event_channel, destroy_channel>;
using unique_id = std::unique_ptr<rdma_cm_id, destroy_id>;

unique_id new_id(rdma_event_channel& channel) {
  rdma_cm_id* made = nullptr;
  check(rdma_create_id(&channel, &made, nullptr, RDMA_PS_TCP), "rdma_create_id");
  return unique_id(made);
}

/// The IPv4 addresses of this host.
std::vector<sockaddr_in> addresses() {
  ifaddrs* list = nullptr;
  check(getifaddrs(&list), "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<sockaddr_in> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
    if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET)
      found.push_back(*reinterpret_cast<const sockaddr_in*>(each->ifa_addr));
  return found;
}

/// A listening identifier at an address of the device under test. Such an address makes the
/// connection manager choose that device.
unique_id listen_on_device(rdma_event_channel& channel) {
  for (sockaddr_in address : addresses()) {
    auto id = new_id(channel);
    address.sin_port = 0;
    if (rdma_bind_addr(id.get(), reinterpret_cast<sockaddr*>(&address)) != 0) continue;
    if (id->verbs == nullptr || id->verbs->device->name != tested().listed.name()) continue;
    check(rdma_listen(id.get(), 16), "rdma_listen");
    return id;
  }
  raise(error::unavailable(0, "rdma_bind_addr", tested().listed.name(),
                           "no IPv4 address of this host belongs to the device"));
}

class iwarp_connector final : public connector {
 public:
  iwarp_connector()
      : channel_(rdma_create_event_channel()),
        listening_(listen_on_device(*channel_)),
        context_(verbena::context::borrow(listening_->verbs, *system_provider().value(), nullptr)),
        pd_(context_.allocate_pd().value()) {
    const int flags = fcntl(channel_->fd, F_GETFL);
    check(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), "fcntl");
  }

  [[nodiscard]] const verbena::context& context() const override { return context_; }
  [[nodiscard]] const protection_domain& pd() const override { return pd_; }

  ends connect(const end& first, const end& second) override {
    auto active = new_id(*channel_);
    sockaddr_in here = *reinterpret_cast<const sockaddr_in*>(rdma_get_local_addr(listening_.get()));
    sockaddr_in from = here;
    from.sin_port = 0;
    check(rdma_resolve_addr(active.get(), reinterpret_cast<sockaddr*>(&from),
                            reinterpret_cast<sockaddr*>(&here), 2000),
          "rdma_resolve_addr");
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(active.get(), 2000), "rdma_resolve_route");
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    auto a = make_queue_pair(*active, first);
    rdma_conn_param parameters = depths(first.options);
    check(rdma_connect(active.get(), &parameters), "rdma_connect");
    unique_id passive(expect(RDMA_CM_EVENT_CONNECT_REQUEST));
    auto b = make_queue_pair(*passive, second);
    parameters = depths(second.options);
    check(rdma_accept(passive.get(), &parameters), "rdma_accept");
    expect(RDMA_CM_EVENT_ESTABLISHED);
    expect(RDMA_CM_EVENT_ESTABLISHED);
    ids_.push_back(std::move(active));
    ids_.push_back(std::move(passive));
    return {std::move(a), std::move(b)};
  }

 private:
  // Waits for an event of this type and returns its identifier.
  rdma_cm_id* expect(rdma_cm_event_type wanted) {
    const deadline until = patience();
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(channel_.get(), &event) != 0) {
      if (errno != EAGAIN) check(-1, "rdma_get_cm_event");
      if (until.expired())
        raise(error::timed_out("rdma_get_cm_event", rdma_event_str(wanted), "no such event came"));
      pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
      ::poll(&readable, 1, until.poll_timeout_ms());
    }
    const rdma_cm_event_type type = event->event;
    const int status = event->status;
    rdma_cm_id* const id = event->id;
    rdma_ack_cm_event(event);
    if (type == wanted) return id;
    // What ended earlier connections of this connector says so now.
    if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_TIMEWAIT_EXIT)
      return expect(wanted);
    raise(error::from_errno(status < 0 ? -status : EPROTO, rdma_event_str(type),
                            tested().listed.name(),
                            std::string("expected was ") + rdma_event_str(wanted)));
  }

  [[nodiscard]] queue_pair<rc> make_queue_pair(rdma_cm_id& id, const end& of) const {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = of.into.sends.native();
    wanted.recv_cq = of.into.receives.native();
    wanted.cap = {.max_send_wr = of.options.max_send_wr,
                  .max_recv_wr = of.options.max_recv_wr,
                  .max_send_sge = of.options.max_send_sge,
                  .max_recv_sge = of.options.max_recv_sge,
                  .max_inline_data = of.options.max_inline_data};
    wanted.qp_type = IBV_QPT_RC;
    wanted.sq_sig_all = of.options.signal_all ? 1 : 0;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    wanted.pd = pd_.native();
    check(rdma_create_qp_ex(&id, &wanted), "rdma_create_qp_ex");
    return queue_pair<rc>::adopt(id.qp, pd_, ownership::take);
  }

  [[nodiscard]] rdma_conn_param depths(const queue_pair_options<rc>& options) const {
    const auto device = context_.query().value();
    const auto limited = [&](int limit) {
      return static_cast<std::uint8_t>(std::min<int>(options.read_depth, limit));
    };
    return {.responder_resources = limited(device.max_reads_as_target()),
            .initiator_depth = limited(device.max_reads_as_initiator()),
            .retry_count = options.retry_count,
            .rnr_retry_count = options.rnr_retry_count};
  }

  unique_channel channel_;
  unique_id listening_;
  verbena::context context_;
  protection_domain pd_;
  std::vector<unique_id> ids_;
};

}  // namespace

std::unique_ptr<connector> make_iwarp_connector() { return std::make_unique<iwarp_connector>(); }

}  // namespace verbena::conformance

#endif

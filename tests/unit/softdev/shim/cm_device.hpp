// SPDX-License-Identifier: MIT
// Helpers of the tests of the connection manager's C interface: the functions that the library of
// the device exports, and owners of channels, identifiers and events.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {

/// Returns an exported function of the device's library.
template <class Function>
Function* exported(const char* name) {
  static void* const library = dlopen(SOFT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) throw std::runtime_error(std::string("not exported: ") + name);
  return reinterpret_cast<Function*>(found);
}
// lint: allow(macro): uses the name twice
#define CM(name) ::verbena::softdev::testing::exported<decltype(::name)>(#name)

[[nodiscard]] inline sockaddr_in loopback(std::uint16_t port, std::uint32_t host = 0x7f000001) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(host);
  return out;
}
[[nodiscard]] inline sockaddr* generic(sockaddr_in& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

/// An event. The destructor acknowledges it.
class cm_event {
 public:
  explicit cm_event(rdma_cm_event* event) : event_(event) {}
  cm_event(cm_event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  cm_event& operator=(cm_event&&) = delete;
  ~cm_event() { acknowledge(); }
  void acknowledge() {
    if (event_ == nullptr) return;
    EXPECT_EQ(CM(rdma_ack_cm_event)(std::exchange(event_, nullptr)), 0);
  }
  [[nodiscard]] rdma_cm_event* operator->() const { return event_; }

 private:
  rdma_cm_event* event_;
};

/// An event channel.
class cm_channel {
 public:
  cm_channel() : channel_(CM(rdma_create_event_channel)()) {
    if (channel_ == nullptr) throw std::runtime_error(std::strerror(errno));
  }
  cm_channel(const cm_channel&) = delete;
  cm_channel& operator=(const cm_channel&) = delete;
  ~cm_channel() { CM(rdma_destroy_event_channel)(channel_); }

  [[nodiscard]] rdma_event_channel* get() const { return channel_; }
  [[nodiscard]] bool readable(int milliseconds) const {
    pollfd wanted{channel_->fd, POLLIN, 0};
    return poll(&wanted, 1, milliseconds) == 1;
  }
  /// Returns the next event. Throws after 20 seconds.
  [[nodiscard]] cm_event next() const {
    if (!readable(20'000)) throw std::runtime_error("no event came");
    rdma_cm_event* event = nullptr;
    if (CM(rdma_get_cm_event)(channel_, &event) != 0) throw std::runtime_error(strerror(errno));
    return cm_event(event);
  }
  /// Returns the next event. Fails the test if it has another kind.
  cm_event expect(rdma_cm_event_type kind, int status = 0) const {
    cm_event event = next();
    EXPECT_EQ(event->event, kind);
    EXPECT_EQ(event->status, status);
    return event;
  }

 private:
  rdma_event_channel* channel_;
};

/// An identifier. The destructor destroys it and its queue pair.
class cm_id {
 public:
  explicit cm_id(const cm_channel& channel, rdma_port_space space = RDMA_PS_TCP,
                 void* context = nullptr) {
    if (CM(rdma_create_id)(channel.get(), &id_, context, space) != 0)
      throw std::runtime_error(std::strerror(errno));
  }
  explicit cm_id(rdma_cm_id* id) : id_(id) {}
  cm_id(cm_id&& other) noexcept : id_(std::exchange(other.id_, nullptr)) {}
  cm_id& operator=(cm_id&&) = delete;
  ~cm_id() { destroy(); }
  void destroy() {
    if (id_ == nullptr) return;
    if (id_->qp != nullptr) CM(rdma_destroy_qp)(id_);
    EXPECT_EQ(CM(rdma_destroy_id)(std::exchange(id_, nullptr)), 0);
  }
  [[nodiscard]] rdma_cm_id* get() const { return id_; }
  [[nodiscard]] rdma_cm_id* operator->() const { return id_; }

  /// Binds the identifier. Returns 0 or the errno.
  [[nodiscard]] int bind(std::uint16_t port, std::uint32_t host = 0x7f000001) {
    sockaddr_in where = loopback(port, host);
    return CM(rdma_bind_addr)(id_, generic(where)) == 0 ? 0 : errno;
  }
  /// Listens on an unused port; returns the port.
  std::uint16_t listen(int backlog = 0) {
    EXPECT_EQ(bind(0), 0);
    EXPECT_EQ(CM(rdma_listen)(id_, backlog), 0);
    return ntohs(CM(rdma_get_src_port)(id_));
  }
  /// Resolves address and route.
  void resolve(const cm_channel& channel, std::uint16_t port) {
    sockaddr_in to = loopback(port);
    ASSERT_EQ(CM(rdma_resolve_addr)(id_, nullptr, generic(to), 1000), 0);
    channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(CM(rdma_resolve_route)(id_, 1000), 0);
    channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  }
  void create_qp() {
    ibv_qp_init_attr wanted{};
    wanted.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
    wanted.qp_type = id_->qp_type;
    wanted.sq_sig_all = 1;
    ASSERT_EQ(CM(rdma_create_qp)(id_, nullptr, &wanted), 0) << std::strerror(errno);
  }
  [[nodiscard]] int connect(const std::string& data = {}) { return call(CM(rdma_connect), data); }
  [[nodiscard]] int accept(const std::string& data = {}) { return call(CM(rdma_accept), data); }

 private:
  int call(int (*function)(rdma_cm_id*, rdma_conn_param*), const std::string& data) {
    rdma_conn_param wanted{};
    wanted.private_data = data.data();
    wanted.private_data_len = static_cast<std::uint8_t>(data.size());
    wanted.responder_resources = 2;
    wanted.initiator_depth = 3;
    wanted.retry_count = 5;
    wanted.rnr_retry_count = 6;
    if (id_->qp == nullptr) wanted.qp_num = 77;
    return function(id_, &wanted) == 0 ? 0 : errno;
  }
  rdma_cm_id* id_ = nullptr;
};

}  // namespace verbena::softdev::testing

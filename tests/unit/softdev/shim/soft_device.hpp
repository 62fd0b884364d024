// SPDX-License-Identifier: MIT
// Helpers of the tests of the C interface: typed access to the device's table, a context with
// connected queue pairs, and buffers with a pattern.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "verbena/base/soft_entry.hpp"

// verbs.h has macros in front of some functions whose types are needed here.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

namespace verbena::softdev::testing {

/// The table that verbena_soft_entry returns.
const verbena_soft_functions& table();
/// Returns the function `name`, or nullptr if the table does not contain it.
void (*find(std::string_view name))();

/// Returns a function with its type: `call<decltype(::ibv_alloc_pd)>("ibv_alloc_pd")(context)`.
template <class Function>
Function* call(const char* name) {
  auto* const found = find(name);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}
#define SOFT(name) ::verbena::softdev::testing::call<decltype(::name)>(#name)

/// Returns whether a descriptor is readable.
[[nodiscard]] bool readable(int fd);

/// Returns the attributes of the device's port.
[[nodiscard]] ibv_port_attr port_of(ibv_context* context);

/// Returns bytes that depend on a seed and their position.
[[nodiscard]] std::vector<std::byte> pattern(std::uint32_t seed, std::size_t bytes);

/// Registered memory with a pattern.
class buffer {
 public:
  static constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

  buffer(ibv_pd* pd, std::size_t bytes, std::uint32_t seed = 0, int access = all_access);
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer();

  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  [[nodiscard]] std::uint64_t address() { return reinterpret_cast<std::uint64_t>(data()); }
  [[nodiscard]] const ibv_mr& mr() const { return *mr_; }
  [[nodiscard]] ibv_sge slice(std::size_t offset, std::size_t length) {
    return {address() + offset, static_cast<std::uint32_t>(length), mr_->lkey};
  }
  [[nodiscard]] std::vector<std::byte> copy(std::size_t offset, std::size_t length) const {
    const auto at = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {at, at + static_cast<std::ptrdiff_t>(length)};
  }
  /// Returns the eight bytes at `offset` in host order.
  [[nodiscard]] std::uint64_t word(std::size_t offset) const;
  void set_word(std::size_t offset, std::uint64_t value);

 private:
  std::vector<std::byte> bytes_;
  ibv_mr* mr_ = nullptr;
};

/// A context with a protection domain and a completion queue.
class opened_device {
 public:
  explicit opened_device(int cqe = 64);
  opened_device(const opened_device&) = delete;
  opened_device& operator=(const opened_device&) = delete;
  ~opened_device();

  ibv_context* context = nullptr;  ///< nullptr once a test has closed it
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;

  /// Waits for the next completion of `queue`, by default `cq`. Fails the test after ten seconds.
  [[nodiscard]] ibv_wc wait(ibv_cq* queue = nullptr);
  [[nodiscard]] ibv_wc wait_for(std::uint64_t wr_id, ibv_cq* queue = nullptr);
};

struct requested_queue_pair {
  ibv_cq* send_cq = nullptr;  ///< by default that of the device
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp_cap cap{.max_send_wr = 16,
                 .max_recv_wr = 16,
                 .max_send_sge = 4,
                 .max_recv_sge = 4,
                 .max_inline_data = 256};
  bool extended = false;
  int signal_all = 0;
  ibv_qp_type type = IBV_QPT_RC;
};

/// Attributes with which a queue pair is connected.
struct bring_up {
  unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t timeout = 8;
  std::uint8_t retry_count = 3;
  std::uint32_t qkey = 0x1111'1111;
  std::uint16_t pkey_index = 0;
  bool global = true;     ///< with a GRH
  std::uint16_t lid = 0;  ///< LID of the peer; 0: the LID of this process, which Ethernet ignores
};

/// Returns the attributes (ibv_qp_attr_mask) of RC that the transport also has.
[[nodiscard]] int mask_for(ibv_qp_type type, int mask);
/// Returns the operations (ibv_qp_create_send_ops_flags) of the transport.
[[nodiscard]] std::uint64_t operations_of(ibv_qp_type type);

/// A queue pair.
class queue_pair_handle {
 public:
  explicit queue_pair_handle(opened_device& device, const requested_queue_pair& wishes = {});
  queue_pair_handle(const queue_pair_handle&) = delete;
  queue_pair_handle& operator=(const queue_pair_handle&) = delete;
  ~queue_pair_handle();

  [[nodiscard]] ibv_qp* get() const { return qp_; }
  [[nodiscard]] ibv_qp_ex* extended() const { return SOFT(ibv_qp_to_qp_ex)(qp_); }

  void to_init(const bring_up& how = {});
  void to_rtr(std::uint32_t peer, const bring_up& how = {});
  void to_rts(const bring_up& how = {});
  /// Modifies the queue pair to INIT, RTR and RTS, connected to `peer`.
  void connect(std::uint32_t peer, const bring_up& how = {});
  /// Modifies the queue pair to a state that needs no attributes. Returns 0 or the errno.
  [[nodiscard]] int to_state(ibv_qp_state state);
  [[nodiscard]] ibv_qp_state state();

  /// Posts one request. Returns 0 or the errno.
  int send(ibv_send_wr request);
  int receive(std::uint64_t wr_id, std::vector<ibv_sge> sinks);

 private:
  ibv_qp* qp_ = nullptr;
};

/// Connects two queue pairs to each other.
void connect(queue_pair_handle& a, queue_pair_handle& b, const bring_up& how = {});

/// Posts a signaled write of the first 8 bytes of `memory` to the next 8 bytes. The queue pair is
/// connected to itself or to one of the same protection domain. Returns 0 or the errno.
int write_within(queue_pair_handle& qp, buffer& memory, std::uint64_t wr_id);

}  // namespace verbena::softdev::testing

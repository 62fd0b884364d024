// SPDX-License-Identifier: MIT
// What the tests of the C interface share: the device's table with types, a context with queue
// pairs connected in this process, and buffers with a pattern.
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
/// The function of that name; nullptr if there is none.
void (*find(std::string_view name))();

/// The function of that name and type: `call<decltype(::ibv_alloc_pd)>("ibv_alloc_pd")(context)`.
template <class Function>
Function* call(const char* name) {
  auto* const found = find(name);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}
#define SOFT(name) ::verbena::softdev::testing::call<decltype(::name)>(#name)

/// Whether something can be read from a descriptor now.
[[nodiscard]] bool readable(int fd);

/// The attributes of the device's port.
[[nodiscard]] ibv_port_attr port_of(ibv_context* context);

/// Bytes that depend on a seed and their position.
[[nodiscard]] std::vector<std::byte> pattern(std::uint32_t seed, std::size_t bytes);

/// Memory with a pattern, registered while it lives.
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
  /// The eight bytes at `offset`, in host order.
  [[nodiscard]] std::uint64_t word(std::size_t offset) const;
  void set_word(std::size_t offset, std::uint64_t value);

 private:
  std::vector<std::byte> bytes_;
  ibv_mr* mr_ = nullptr;
};

/// A context with a protection domain and a completion queue; closes them.
class opened_device {
 public:
  explicit opened_device(int cqe = 64);
  opened_device(const opened_device&) = delete;
  opened_device& operator=(const opened_device&) = delete;
  ~opened_device();

  ibv_context* context = nullptr;  ///< nullptr once a test has closed it
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;

  /// The next completion of `queue` (of `cq` by default); fails the test after ten seconds.
  [[nodiscard]] ibv_wc wait(ibv_cq* queue = nullptr);
  [[nodiscard]] ibv_wc wait_for(std::uint64_t wr_id, ibv_cq* queue = nullptr);
};

struct queue_pair_wishes {
  ibv_cq* send_cq = nullptr;  ///< the device's by default
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

/// How a queue pair is brought up.
struct bring_up {
  unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t timeout = 8;
  std::uint8_t retry_count = 3;
  std::uint32_t qkey = 0x1111'1111;
  std::uint16_t pkey_index = 0;
  bool global = true;     ///< with a GRH
  std::uint16_t lid = 0;  ///< of the peer; 0: this process's own, which Ethernet does not look at
};

/// The attributes (ibv_qp_attr_mask) of reliable connections that the transport takes, too.
[[nodiscard]] int mask_for(ibv_qp_type type, int mask);
/// The operations (ibv_qp_create_send_ops_flags) that the transport has.
[[nodiscard]] std::uint64_t operations_of(ibv_qp_type type);

/// A queue pair; destroyed at the end.
class queue_pair_handle {
 public:
  explicit queue_pair_handle(opened_device& device, const queue_pair_wishes& wishes = {});
  queue_pair_handle(const queue_pair_handle&) = delete;
  queue_pair_handle& operator=(const queue_pair_handle&) = delete;
  ~queue_pair_handle();

  [[nodiscard]] ibv_qp* get() const { return qp_; }
  [[nodiscard]] ibv_qp_ex* extended() const { return SOFT(ibv_qp_to_qp_ex)(qp_); }

  void to_init(const bring_up& how = {});
  void to_rtr(std::uint32_t peer, const bring_up& how = {});
  void to_rts(const bring_up& how = {});
  /// All three: connected to `peer`.
  void connect(std::uint32_t peer, const bring_up& how = {});
  /// 0 or the errno of the modification to a state that needs no attributes.
  [[nodiscard]] int to_state(ibv_qp_state state);
  [[nodiscard]] ibv_qp_state state();

  /// Posts one request; 0 or the errno.
  int send(ibv_send_wr request);
  int receive(std::uint64_t wr_id, std::vector<ibv_sge> sinks);

 private:
  ibv_qp* qp_ = nullptr;
};

/// Connects two queue pairs to each other.
void connect(queue_pair_handle& a, queue_pair_handle& b, const bring_up& how = {});

/// Posts a signaled write of the first 8 bytes of `memory` to the next 8, by a queue pair that is
/// connected to itself or to one of the same domain; 0 or the errno.
int write_within(queue_pair_handle& qp, buffer& memory, std::uint64_t wr_id);

}  // namespace verbena::softdev::testing

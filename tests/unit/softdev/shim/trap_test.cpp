// SPDX-License-Identifier: MIT
// Calls of the system's libibverbs with objects of the device. Each call succeeds, returns an
// error, or aborts with a message that names the fault.
#include <dlfcn.h>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr const char* message = "this object belongs to Verbena's software device";

// Returns a function of the system's libibverbs.
template <class Function>
Function* system_function(const char* name) {
  static void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define SYSTEM(name) system_function<decltype(::name)>(#name)

class trap_death : public ::testing::Test {
 protected:
  trap_death() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    channel_ = SOFT(ibv_create_comp_channel)(device_.context);
  }
  ~trap_death() override { EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel_), 0); }

  opened_device device_;
  ibv_comp_channel* channel_ = nullptr;
};

TEST_F(trap_death, invalid_call_on_a_context_names_the_fault) {
  EXPECT_DEATH(SYSTEM(ibv_alloc_pd)(device_.context), message);
  EXPECT_DEATH(SYSTEM(ibv_create_cq)(device_.context, 1, nullptr, nullptr, 0), message);
  EXPECT_DEATH(SYSTEM(ibv_close_device)(device_.context), message);
  ibv_device_attr attributes{};
  EXPECT_DEATH(SYSTEM(ibv_query_device)(device_.context, &attributes), message);
  ibv_port_attr port{};
  EXPECT_DEATH(
      SYSTEM(ibv_query_port)(device_.context, 1, reinterpret_cast<_compat_ibv_port_attr*>(&port)),
      message);
}

TEST_F(trap_death, invalid_call_on_memory_names_the_fault) {
  buffer memory(device_.pd, 64);
  EXPECT_DEATH(SYSTEM(ibv_reg_mr)(device_.pd, memory.data(), 64, 0), message);
  EXPECT_DEATH(SYSTEM(ibv_reg_mr_iova2)(device_.pd, memory.data(), 64, 0, 0), message);
  EXPECT_DEATH(SYSTEM(ibv_dereg_mr)(const_cast<ibv_mr*>(&memory.mr())), message);
  EXPECT_DEATH(SYSTEM(ibv_dealloc_pd)(device_.pd), message);
}

TEST_F(trap_death, invalid_call_on_a_queue_names_the_fault) {
  EXPECT_DEATH(SYSTEM(ibv_destroy_cq)(device_.cq), message);
  EXPECT_DEATH(SYSTEM(ibv_resize_cq)(device_.cq, 10), message);
  queue_pair_handle qp(device_);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  EXPECT_DEATH(SYSTEM(ibv_modify_qp)(qp.get(), &attributes, IBV_QP_STATE), message);
  EXPECT_DEATH(SYSTEM(ibv_query_qp)(qp.get(), &attributes, IBV_QP_STATE, &created), message);
  EXPECT_DEATH(SYSTEM(ibv_destroy_qp)(qp.get()), message);
  created = {};
  created.send_cq = created.recv_cq = device_.cq;
  created.qp_type = IBV_QPT_RC;
  EXPECT_DEATH(SYSTEM(ibv_create_qp)(device_.pd, &created), message);
  ibv_srq_init_attr srq{};
  EXPECT_DEATH(SYSTEM(ibv_create_srq)(device_.pd, &srq), message);
  ibv_ah_attr address{};
  EXPECT_DEATH(SYSTEM(ibv_create_ah)(device_.pd, &address), message);
}

TEST_F(trap_death, message_names_the_called_function) {
  EXPECT_DEATH(SYSTEM(ibv_alloc_pd)(device_.context), "ibv_alloc_pd");
}

// These functions do not use the private table. Each call must return.
TEST_F(trap_death, unsupported_calls_return_an_error) {
  EXPECT_EQ(in_child([&] {
              ibv_gid gid{};
              const bool refused = SYSTEM(ibv_query_gid)(device_.context, 1, 0, &gid) == -1;
              return refused ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([&] {
              ibv_gid_entry entry{};
              return SYSTEM(_ibv_query_gid_ex)(device_.context, 1, 0, &entry, 0, sizeof entry) != 0
                         ? 0
                         : 1;
            }),
            0);
  EXPECT_EQ(
      in_child([&] { return SYSTEM(ibv_create_comp_channel)(device_.context) == nullptr ? 0 : 1; }),
      0);
  EXPECT_EQ(in_child([&] {
              ibv_device* const device = device_.context->device;
              const bool named = std::strcmp(SYSTEM(ibv_get_device_name)(device), "soft0") == 0;
              SYSTEM(ibv_get_device_guid)(device);
              SYSTEM(ibv_get_device_index)(device);
              return named && SYSTEM(ibv_open_device)(device) == nullptr ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([&] {
              ibv_cq* cq = nullptr;
              void* cookie = nullptr;
              return SYSTEM(ibv_get_cq_event)(channel_, &cq, &cookie) == -1 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([&] {
              ibv_device** const list = SOFT(ibv_get_device_list)(nullptr);
              SYSTEM(ibv_free_device_list)(list);
              return 0;
            }),
            0);
}

TEST_F(trap_death, extended_interface_is_found_through_both_lookups) {
  queue_pair_handle extended(device_, {.extended = true});
  queue_pair_handle plain(device_);
  EXPECT_EQ(SYSTEM(ibv_qp_to_qp_ex)(extended.get()), extended.extended());
  EXPECT_EQ(SYSTEM(ibv_qp_to_qp_ex)(plain.get()), nullptr);
}

}  // namespace
}  // namespace verbena::softdev::testing

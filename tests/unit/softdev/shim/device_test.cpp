// SPDX-License-Identifier: MIT
// Attributes of the device and its table of functions.
#include <dlfcn.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

// Not declared by verbs.h: a private function of rdma-core that ibv_devinfo calls.
extern "C" int ibv_query_gid_type(ibv_context* context, std::uint8_t port_num, unsigned index,
                                  int* type);

namespace verbena::softdev::testing {
namespace {

TEST(soft_table, table_is_sorted_and_each_name_has_one_function) {
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < table().count; ++i) {
    const auto& entry = table().functions[i];
    EXPECT_NE(entry.function, nullptr) << entry.name;
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    if (i > 0) {
      EXPECT_LT(std::string_view(table().functions[i - 1].name), std::string_view(entry.name));
    }
  }
  EXPECT_EQ(table().abi, verbena::soft_abi);
}

// Functions of libibverbs without parameters of the device are not required in the table.
bool is_pure(const std::string& name) {
  static const std::set<std::string> pure = {"ibv_copy_ah_attr_from_kern",
                                             "ibv_copy_path_rec_from_kern",
                                             "ibv_copy_path_rec_to_kern",
                                             "ibv_copy_qp_attr_from_kern",
                                             "ibv_dofork_range",
                                             "ibv_dontfork_range",
                                             "ibv_event_type_str",
                                             "ibv_fork_init",
                                             "ibv_get_sysfs_path",
                                             "ibv_is_fork_initialized",
                                             "ibv_node_type_str",
                                             "ibv_port_state_str",
                                             "ibv_rate_to_mbps",
                                             "ibv_rate_to_mult",
                                             "ibv_read_sysfs_file",
                                             "ibv_register_driver",
                                             "ibv_wc_status_str",
                                             "mbps_to_ibv_rate",
                                             "mult_to_ibv_rate"};
  return pure.contains(name);
}

// Returns the file that the loader uses for libibverbs.so.1.
std::string installed_libibverbs() {
  void* const library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const function = library != nullptr ? ::dlsym(library, "ibv_open_device") : nullptr;
  Dl_info where{};
  if (function == nullptr || ::dladdr(function, &where) == 0) return {};
  return where.dli_fname;
}

TEST(soft_table, table_has_every_public_function_of_libibverbs) {
  const std::string library = installed_libibverbs();
  ASSERT_FALSE(library.empty()) << "this test needs the package libibverbs1";
  const std::string symbols = output_of("nm -D --defined-only '" + library + "'");
  std::size_t checked = 0;
  for (const std::string& line : lines_of(symbols)) {
    const auto at = line.find('@');
    if (at == std::string::npos || line.find("PRIVATE") != std::string::npos) continue;
    const std::string name = line.substr(line.rfind(' ', at) + 1, at - line.rfind(' ', at) - 1);
    if (name.rfind("IBVERBS_", 0) == 0 || is_pure(name)) continue;
    EXPECT_NE(find(name), nullptr) << name;
    ++checked;
  }
  EXPECT_GT(checked, 50U);
}

TEST(soft_device, device_is_listed_with_a_stable_name_and_guid) {
  int count = 0;
  ibv_device** const list = SOFT(ibv_get_device_list)(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(list[1], nullptr);
  EXPECT_STREQ(SOFT(ibv_get_device_name)(list[0]), "soft0");
  EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
  EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
  const auto guid = SOFT(ibv_get_device_guid)(list[0]);
  EXPECT_NE(guid, 0U);
  EXPECT_EQ(SOFT(ibv_get_device_guid)(list[0]), guid);
  EXPECT_EQ(SOFT(ibv_get_device_index)(list[0]), -1);
  SOFT(ibv_free_device_list)(list);
}

TEST(soft_device, environment_can_hide_the_device) {
  EXPECT_EQ(in_child([] {
              setenv("VERBENA_SOFTDEV", "off", 1);
              int count = -1;
              ibv_device** const list = SOFT(ibv_get_device_list)(&count);
              return list != nullptr && list[0] == nullptr ? count : 99;
            }),
            0);
}

TEST(soft_device, device_attributes_match_its_capabilities) {
  opened_device device;
  ibv_device_attr plain{};
  ASSERT_EQ(SOFT(ibv_query_device)(device.context, &plain), 0);
  EXPECT_EQ(plain.phys_port_cnt, 1);
  EXPECT_EQ(plain.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_GE(plain.max_sge, 30);
  EXPECT_GE(plain.max_qp_wr, 16384);
  EXPECT_GT(plain.max_srq, 0);
  EXPECT_GE(plain.max_srq_wr, 1024);
  EXPECT_GT(plain.max_srq_sge, 1);
  EXPECT_NE(plain.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0U);
  EXPECT_EQ(plain.max_mw, 0);
  EXPECT_STRNE(plain.fw_ver, "");
  ibv_device_attr_ex extended{};
  const auto query = verbs_get_ctx(device.context)->query_device_ex;
  ASSERT_EQ(query(device.context, nullptr, &extended, sizeof extended), 0);
  // Both structures were zeroed, including padding.
  const auto bytes = [](const ibv_device_attr& of) {
    return std::string_view(reinterpret_cast<const char*>(&of), sizeof of);
  };
  EXPECT_EQ(bytes(extended.orig_attr), bytes(plain));
  EXPECT_NE(extended.completion_timestamp_mask, 0U);
  ibv_query_device_ex_input input{};
  input.comp_mask = 1;
  EXPECT_EQ(verbs_get_ctx(device.context)
                ->query_device_ex(device.context, &input, &extended, sizeof extended),
            EINVAL);
}

// A queue pair of reliable connection whose queues hold one request.
ibv_qp* create_small_queue_pair(opened_device& device) {
  ibv_qp_init_attr asked{};
  asked.qp_type = IBV_QPT_RC;
  asked.send_cq = device.cq;
  asked.recv_cq = device.cq;
  asked.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  return SOFT(ibv_create_qp)(device.pd, &asked);
}

// parity: semantics-136
TEST(soft_device, max_qp_queue_pairs_can_be_created_and_no_more) {
  opened_device device;
  ibv_device_attr attributes{};
  ASSERT_EQ(SOFT(ibv_query_device)(device.context, &attributes), 0);
  std::vector<ibv_qp*> created;
  for (int i = 0; i < attributes.max_qp; ++i) {
    created.push_back(create_small_queue_pair(device));
    ASSERT_NE(created.back(), nullptr) << "queue pair " << i << " of " << attributes.max_qp;
  }
  errno = 0;
  EXPECT_EQ(create_small_queue_pair(device), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  for (ibv_qp* const qp : created) EXPECT_EQ(SOFT(ibv_destroy_qp)(qp), 0);
}

// parity: semantics-56
TEST(soft_device, modify_with_values_outside_their_enumerations_returns_einval) {
  opened_device device;
  ibv_qp* const qp = create_small_queue_pair(device);
  ASSERT_NE(qp, nullptr);
  // As a C program sets them: with integers.
  const auto modified = [qp](std::size_t offset, std::uint32_t value, int mask) {
    ibv_qp_attr attributes{};
    std::memcpy(reinterpret_cast<std::byte*>(&attributes) + offset, &value, sizeof value);
    return SOFT(ibv_modify_qp)(qp, &attributes, mask);
  };
  for (const std::uint32_t value : {7U, 77U, 0x7fffffffU, 0xffffffffU}) {
    EXPECT_EQ(modified(offsetof(ibv_qp_attr, qp_state), value, IBV_QP_STATE), EINVAL) << value;
    EXPECT_EQ(modified(offsetof(ibv_qp_attr, cur_qp_state), value, IBV_QP_STATE | IBV_QP_CUR_STATE),
              EINVAL)
        << value;
    EXPECT_EQ(modified(offsetof(ibv_qp_attr, path_mtu), value, IBV_QP_PATH_MTU), EINVAL) << value;
    EXPECT_EQ(modified(offsetof(ibv_qp_attr, path_mig_state), value, IBV_QP_PATH_MIG_STATE), EINVAL)
        << value;
  }
  EXPECT_EQ(SOFT(ibv_destroy_qp)(qp), 0);
}

TEST(soft_device, query_respects_the_size_of_the_callers_struct) {
  opened_device device;
  struct {
    ibv_device_attr_ex known;
    unsigned char newer[64];
  } later;
  std::memset(&later, 0xee, sizeof later);
  const auto query = verbs_get_ctx(device.context)->query_device_ex;
  ASSERT_EQ(query(device.context, nullptr, &later.known, sizeof later), 0);
  EXPECT_EQ(later.newer[0], 0);
  EXPECT_EQ(later.newer[63], 0);
  std::memset(&later, 0xee, sizeof later);
  const std::size_t earlier = offsetof(ibv_device_attr_ex, tso_caps);
  ASSERT_EQ(query(device.context, nullptr, &later.known, earlier), 0);
  EXPECT_EQ(reinterpret_cast<const unsigned char*>(&later)[earlier], 0xee);
  EXPECT_EQ(query(device.context, nullptr, &later.known, 8), EINVAL);
}

TEST(soft_device, device_has_one_active_ethernet_port) {
  opened_device device;
  const auto query = verbs_get_ctx(device.context)->query_port;
  ibv_port_attr port{};
  ASSERT_EQ(query(device.context, 1, &port, sizeof port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.phys_state, 5);
  EXPECT_EQ(port.pkey_tbl_len, 1);
  EXPECT_EQ(query(device.context, 0, &port, sizeof port), EINVAL);
  EXPECT_EQ(query(device.context, 2, &port, sizeof port), EINVAL);

  // The exported function uses the old structure, which ends with `flags`.
  std::memset(&port, 0xee, sizeof port);
  ASSERT_EQ(
      SOFT(ibv_query_port)(device.context, 1, reinterpret_cast<_compat_ibv_port_attr*>(&port)), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.flags, 0);
  EXPECT_EQ(port.port_cap_flags2, 0xeeee);
}

TEST(soft_device, gid_table_starts_link_local_and_has_the_loopback_address) {
  opened_device device;
  struct wide {
    ibv_gid_entry entry;
    unsigned char newer[24];
  };
  std::vector<wide> entries(64);
  std::memset(entries.data(), 0xee, entries.size() * sizeof(wide));
  const auto query = SOFT(_ibv_query_gid_table);
  const ssize_t count = query(device.context, &entries[0].entry, entries.size(), 0, sizeof(wide));
  ASSERT_GE(count, 2);
  EXPECT_EQ(entries[0].entry.gid.raw[0], 0xfe);
  EXPECT_EQ(entries[0].entry.gid.raw[1], 0x80);
  const unsigned char loopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  bool has_loopback = false;
  for (ssize_t i = 0; i < count; ++i) {
    const auto& [entry, newer] = entries[static_cast<std::size_t>(i)];
    EXPECT_EQ(entry.gid_index, static_cast<std::uint32_t>(i));
    EXPECT_EQ(entry.port_num, 1U);
    EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
    EXPECT_NE(entry.ndev_ifindex, 0U);
    EXPECT_EQ(newer[0], 0);
    has_loopback |= std::memcmp(entry.gid.raw, loopback, 16) == 0;
    ibv_gid_entry one{};
    EXPECT_EQ(SOFT(_ibv_query_gid_ex)(device.context, 1, entry.gid_index, &one, 0, sizeof one), 0);
    EXPECT_EQ(std::memcmp(&one, &entry, sizeof one), 0);
    ibv_gid gid{};
    EXPECT_EQ(SOFT(ibv_query_gid)(device.context, 1, static_cast<int>(i), &gid), 0);
    EXPECT_EQ(std::memcmp(&gid, &entry.gid, sizeof gid), 0);
    int type = -1;
    EXPECT_EQ(SOFT(ibv_query_gid_type)(device.context, 1, entry.gid_index, &type), 0);
    EXPECT_EQ(type, 1);
  }
  EXPECT_TRUE(has_loopback);
  EXPECT_EQ(query(device.context, &entries[0].entry, 1, 0, sizeof(wide)), -EINVAL);
}

// Returns the GIDs that reach other hosts, as bits.
int reaching_gids(const char* setting) {
  return in_child([&] {
    setenv("VERBENA_SOFTDEV_WIRE", setting, 1);
    opened_device device;
    const auto reaches =
        reinterpret_cast<verbena_soft_reaches_hosts_function>(find("verbena_soft_reaches_hosts"));
    int found = 0;
    for (int index = 0; index < 64; ++index) {
      if (reaches(device.context, 1, index) == 0) continue;
      ibv_gid gid{};
      if (SOFT(ibv_query_gid)(device.context, 1, index, &gid) != 0) return 99;
      const bool loopback = gid.raw[11] == 0xff && gid.raw[12] == 127;
      found |= index == 0 ? 1 : loopback ? 2 : 4;
    }
    for (const int outside : {-1, 64, 1'000'000})
      if (reaches(device.context, 1, outside) != 0) return 98;
    return reaches(device.context, 2, 1) != 0 ? 97 : found;
  });
}

TEST(soft_device, gids_that_the_setting_permits_reach_other_hosts) {
  EXPECT_EQ(reaching_gids("off"), 0);
  EXPECT_EQ(reaching_gids("127.0.0.1"), 2);
  EXPECT_EQ(reaching_gids("on") & 3, 2) << "the generated GID of index 0 reaches no host";
}

TEST(soft_device, empty_and_out_of_range_gid_index_return_different_errors) {
  opened_device device;
  ibv_gid gid;
  std::memset(&gid, 0xee, sizeof gid);
  EXPECT_EQ(SOFT(ibv_query_gid)(device.context, 1, 63, &gid), 0);
  EXPECT_EQ(gid.global.interface_id, 0U);
  EXPECT_EQ(SOFT(ibv_query_gid)(device.context, 1, 64, &gid), -1);
  EXPECT_EQ(SOFT(ibv_query_gid)(device.context, 2, 0, &gid), -1);
  EXPECT_EQ(SOFT(ibv_query_gid)(device.context, 1, -1, &gid), -1);
  ibv_gid_entry entry{};
  const auto query = SOFT(_ibv_query_gid_ex);
  EXPECT_EQ(query(device.context, 1, 63, &entry, 0, sizeof entry), ENODATA);
  EXPECT_EQ(query(device.context, 1, 64, &entry, 0, sizeof entry), EINVAL);
  EXPECT_EQ(query(device.context, 1, 0, &entry, 1, sizeof entry), EINVAL);
}

TEST(soft_device, device_has_only_the_default_pkey) {
  opened_device device;
  __be16 pkey = 0;
  EXPECT_EQ(SOFT(ibv_query_pkey)(device.context, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(SOFT(ibv_query_pkey)(device.context, 1, 1, &pkey), -1);
  EXPECT_EQ(SOFT(ibv_get_pkey_index)(device.context, 1, 0xffff), 0);
  EXPECT_EQ(SOFT(ibv_get_pkey_index)(device.context, 1, 0x7fff), -1);
}

TEST(soft_device, unsupported_function_fails_in_its_documented_way) {
  opened_device device;
  errno = 0;
  ibv_xrcd_init_attr xrcd{};
  EXPECT_EQ(ibv_open_xrcd(device.context, &xrcd), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(ibv_alloc_mw(device.pd, IBV_MW_TYPE_1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_td_init_attr td{};
  EXPECT_EQ(ibv_alloc_td(device.context, &td), nullptr);
}

TEST(soft_device, completion_queue_is_resized_within_the_limits) {
  opened_device device(3);
  EXPECT_EQ(SOFT(ibv_resize_cq)(device.cq, 7), 0);
  EXPECT_EQ(device.cq->cqe, 7);
  EXPECT_EQ(SOFT(ibv_resize_cq)(device.cq, 0), EINVAL);
  EXPECT_EQ(SOFT(ibv_resize_cq)(device.cq, 4'194'304), EINVAL);
  queue_pair_handle qp(device);
  ASSERT_EQ(qp.to_state(IBV_QPS_RESET), 0);
  qp.to_init();
  for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(qp.receive(id, {}), 0);
  ASSERT_EQ(qp.to_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(SOFT(ibv_resize_cq)(device.cq, 3), EINVAL);  // the queue contains four completions
  EXPECT_EQ(device.cq->cqe, 7);
  EXPECT_EQ(SOFT(ibv_resize_cq)(device.cq, 4), 0);
  for (std::uint64_t id = 0; id < 4; ++id) EXPECT_EQ(device.wait().wr_id, id);
}

// Programs rely on the cleanup by the kernel.
TEST(soft_device, closing_a_context_stops_its_objects) {
  opened_device kept;
  queue_pair_handle peer(kept);
  buffer source(kept.pd, 64, 1);
  std::vector<std::byte> bytes(64);

  ibv_context* const context = SOFT(ibv_open_device)(kept.context->device);
  ASSERT_NE(context, nullptr);
  ibv_pd* const pd = SOFT(ibv_alloc_pd)(context);
  ibv_cq* const cq = SOFT(ibv_create_cq)(context, 16, nullptr, nullptr, 0);
  ibv_mr* const mr = SOFT(ibv_reg_mr)(pd, bytes.data(), bytes.size(),
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  wanted.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = SOFT(ibv_create_qp)(pd, &wanted);
  ASSERT_NE(qp, nullptr);
  const std::uint32_t key = mr->rkey;
  EXPECT_EQ(SOFT(ibv_close_device)(context), 0);

  // The memory is inaccessible, and the objects can be destroyed in any permitted order.
  peer.connect(peer.get()->qp_num);
  ibv_sge data = source.slice(0, 64);
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  write.send_flags = IBV_SEND_SIGNALED;
  write.sg_list = &data;
  write.num_sge = 1;
  write.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(bytes.data());
  write.wr.rdma.rkey = key;
  ASSERT_EQ(peer.send(write), 0);
  EXPECT_EQ(kept.wait().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(bytes, std::vector<std::byte>(64));
  EXPECT_EQ(SOFT(ibv_destroy_qp)(qp), 0);
  EXPECT_EQ(SOFT(ibv_dereg_mr)(mr), 0);
  EXPECT_EQ(SOFT(ibv_destroy_cq)(cq), 0);
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(pd), 0);
}

TEST(soft_device, closing_a_context_moves_its_queue_pairs_to_the_error_state) {
  opened_device kept;
  queue_pair_handle peer(kept);
  opened_device other;
  queue_pair_handle lost(other);
  connect(peer, lost, {.retry_count = 0});
  EXPECT_EQ(SOFT(ibv_close_device)(other.context), 0);
  other.context = nullptr;
  EXPECT_EQ(lost.state(), IBV_QPS_ERR);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(peer.send(request), 0);
  EXPECT_EQ(kept.wait().status, IBV_WC_RETRY_EXC_ERR);
}

// A registration takes 10 ms or more after the process has started threads.
TEST(soft_device, opening_registers_the_process_for_membarrier) {
  const auto call = [](int command) { return ::syscall(SYS_membarrier, command, 0, 0); };
  const auto supported = call(MEMBARRIER_CMD_QUERY);
  if (supported < 0 || (supported & MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
    GTEST_SKIP() << "the kernel does not have this command of membarrier(2)";
  const int status = in_child([&] {
    const opened_device device;
    return call(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(soft_device, contexts_can_be_opened_many_times) {
  opened_device first;
  opened_device second;
  EXPECT_NE(first.context, second.context);
  EXPECT_EQ(first.context->device, second.context->device);
  // Objects of two contexts cannot be combined.
  ibv_qp_init_attr attributes{};
  attributes.send_cq = first.cq;
  attributes.recv_cq = second.cq;
  attributes.qp_type = IBV_QPT_RC;
  errno = 0;
  EXPECT_EQ(SOFT(ibv_create_qp)(first.pd, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbena::softdev::testing

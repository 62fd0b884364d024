// SPDX-License-Identifier: MIT
// A program of the library that also calls verbs on the native handles of the library's objects.
// `--list` prints the devices of the library instead.
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "verbena/verbena.hpp"

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "%s failed\n", what);
}

int list() {
  const auto devices = verbena::list_devices().value();
  for (const auto& device : devices) std::printf("%s\n", device.name().c_str());
  return 0;
}

void use_raw_verbs() {
  auto context = verbena::open_device("soft0").value();
  auto pd = context.allocate_pd().value();
  auto cq = context.create_cq(8).value();

  ibv_device_attr device{};
  expect(ibv_query_device(context.native(), &device) == 0, "ibv_query_device");
  expect(device.max_qp > 0, "reading max_qp");
  expect(ibv_get_device_name(context.native()->device) == std::string_view("soft0"),
         "ibv_get_device_name");
  ibv_port_attr port{};
  expect(ibv_query_port(context.native(), 1, &port) == 0, "ibv_query_port");
  std::array<ibv_gid_entry, 16> gids{};
  expect(ibv_query_gid_table(context.native(), gids.data(), gids.size(), 0) > 0,
         "ibv_query_gid_table");

  std::array<std::byte, 256> memory{};
  const int access = IBV_ACCESS_LOCAL_WRITE;  // int: a macro combines it with another enum
  ibv_mr* const mr = ibv_reg_mr(pd.native(), memory.data(), memory.size(), access);
  expect(mr != nullptr, "ibv_reg_mr");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq.native();
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd.native(), &wanted);
  expect(qp != nullptr, "ibv_create_qp");
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = 1;
  expect(ibv_modify_qp(qp, &state,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "ibv_modify_qp");
  ibv_qp_init_attr created{};
  expect(ibv_query_qp(qp, &state, IBV_QP_STATE, &created) == 0, "ibv_query_qp");
  expect(state.qp_state == IBV_QPS_INIT, "reading the state");
  // Functions that the device does not support return their documented errors.
  expect(ibv_query_ece(qp, nullptr) == EOPNOTSUPP, "refusing ibv_query_ece");
  expect(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
  expect(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--list") return list();
  use_raw_verbs();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

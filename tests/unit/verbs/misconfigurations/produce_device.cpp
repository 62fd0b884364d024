// SPDX-License-Identifier: MIT
// Misconfigurations: libraries, devices, ports and their tables.
#include "tests/unit/sys/fresh_process.hpp"
#include "tests/unit/verbs/misconfigurations/produce.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/sys/library.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::misconfigurations {
namespace {

using testing_support::environment;
using testing_support::open_soft;

error loading(sys::rdma_library which, const char* variable, const char* file) {
  const environment set(variable, file);
  return error_of(sys::load_system_library(which));
}

// Returns the error of opening soft0 if `verb` fails.
error opening_with(const char* verb, int code) {
  failing_provider failing(*soft_provider().value());
  failing.fail_verb(verb, code);
  return error_of(open_soft(failing.get()));
}

}  // namespace

error absent_libibverbs() {
  return loading(sys::rdma_library::ibverbs, "VERBENA_LIBIBVERBS", "/nonexistent/libibverbs.so.1");
}
error absent_librdmacm() {
  return loading(sys::rdma_library::rdmacm, "VERBENA_LIBRDMACM", "/nonexistent/librdmacm.so.1");
}
error absent_libefa() {
  return loading(sys::rdma_library::efa, "VERBENA_LIBEFA", "/nonexistent/libefa.so.1");
}
error absent_soft_device() {
  const environment set("VERBENA_SOFTDEV_LIBRARY", "/nonexistent/soft.so");
  return error_of(sys::load_soft_device_library());
}
error wrong_soft_mode() {
  const environment set("VERBENA_SOFTDEV", "maybe");
  return error_of(list_devices());
}
error no_such_device() {
  const environment set("VERBENA_SOFTDEV", "only");
  return error_of(open_device("mlx5_7"));
}
error module_not_loaded() { return opening_with("ibv_get_device_list", ENOSYS); }
error listing_forbidden() { return opening_with("ibv_get_device_list", EPERM); }
error opening_forbidden() { return opening_with("ibv_open_device", EACCES); }
error device_file_absent() { return opening_with("ibv_open_device", ENOENT); }
error no_descriptors_to_open() { return opening_with("ibv_open_device", EMFILE); }
error control_group_of_handles() { return opening_with("ibv_open_device", ENOMEM); }
error device_unplugged() {
  failing_provider failing(*soft_provider().value());
  const auto device = open_soft(failing.get()).value();
  failing.fail_verb("ibv_query_port", ENODEV);
  return error_of(device.query_port(port_number(1)));
}

error port_zero() { return error_of(open_soft().query_port(port_number(0))); }
error port_beyond() { return error_of(open_soft().query_port(port_number(2))); }
error gid_empty() { return error_of(open_soft().query_gid(port_number(1), gid_index(63))); }
error gid_beyond() { return error_of(open_soft().query_gid(port_number(1), gid_index(200))); }
error pkey_beyond() { return error_of(open_soft().query_pkey(port_number(1), 7)); }
error route_from_absent_port() { return error_of(open_soft().routable_gid(port_number(9))); }

}  // namespace verbena::misconfigurations

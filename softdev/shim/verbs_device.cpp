// SPDX-License-Identifier: MIT
// Devices and contexts.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "softdev/core/spin_wait.hpp"
#include "softdev/host/settings.hpp"
#include "softdev/host/warn_once.hpp"
#include "softdev/ipc/eventfd.hpp"
#include "softdev/shim/cm_wire.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/functions.hpp"
#include "softdev/shim/guard.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/objects.hpp"
#include "softdev/shim/operations.hpp"
#include "softdev/shim/script.hpp"
#include "softdev/shim/trap.hpp"
#include "verbena/base/log.hpp"

#undef ibv_get_device_list
#undef ibv_query_port

namespace verbena::softdev {
namespace {

void copy_text(char* out, std::size_t capacity, const char* text) noexcept {
  std::strncpy(out, text, capacity - 1);
}

void set_kind(device_object& device, persona_kind persona) noexcept {
  const bool efa = persona == persona_kind::efa;
  device.node_type = efa ? IBV_NODE_UNSPECIFIED : IBV_NODE_CA;
  device.transport_type = efa ? IBV_TRANSPORT_UNSPECIFIED : IBV_TRANSPORT_IB;
}

device_object* make_device() {
  auto* const device = new device_object{};
  set_kind(*device, current_settings().persona);
  copy_text(device->name, sizeof device->name, device_identity::name);
  // The kernel does not use this number. The forwarders present files with these names
  // (kernel_files.cpp).
  copy_text(device->dev_name, sizeof device->dev_name, "uverbs9999");
  copy_text(device->dev_path, sizeof device->dev_path, "/sys/class/infiniband_verbs/uverbs9999");
  copy_text(device->ibdev_path, sizeof device->ibdev_path, "/sys/class/infiniband/soft0");
  device->functions = trap_table();
  device->description = empty_description();
  return device;
}

void fill(context_object& object) noexcept {
  verbs_context& context = object;
  context.sz = sizeof(verbs_context);
  context.priv = static_cast<verbs_ex_private*>(trap_table());
  fill_not_supported(context);
  context.query_port = guarded<&query_port, convention::code>::call;
  context.query_device_ex = guarded<&query_device_ex, convention::code>::call;
  context.query_rt_values = guarded<&query_rt_values, convention::code>::call;
  context.advise_mr = guarded<&advise_mr, convention::code>::call;
  context.modify_cq = guarded<&modify_cq, convention::code>::call;
  context.create_cq_ex = guarded<&create_cq_ex, convention::null>::call;
  context.create_qp_ex = guarded<&create_qp_ex, convention::null>::call;
  context.create_srq_ex = guarded<&create_srq_ex, convention::null>::call;

  ibv_context& base = context.context;
  base.device = &the_device();
  base.cmd_fd = -1;
  base.async_fd = object.events->fd();
  base.num_comp_vectors = object_limits::completion_vectors;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&base.mutex, nullptr);
  base.ops._compat_query_device = &::ibv_query_device;
  base.ops._compat_query_port = &::ibv_query_port;
  base.ops.poll_cq = &poll_cq;
  base.ops.req_notify_cq = &req_notify_cq;
  base.ops.post_send = is_efa(base) ? &post_send_to_efa : &post_send;
  base.ops.post_recv = &post_receive;
  base.ops.post_srq_recv = &post_shared_receive;
}

// Calls `action` with each queue pair until it has returned true for each. A report keeps those
// that are left. Returns false if queue pairs are left: a thread has an open batch. It may need the
// lock of the working objects, for instance to deregister memory, before it closes the batch.
template <class Action>
bool try_each_queue_pair(context_object& object, event_report& report, Action action) {
  const std::lock_guard lock(object.working.lock);
  const auto& existing = object.working.queue_pairs;
  auto& left = report.waiting;
  if (!std::exchange(report.has_begun, true)) left.assign(existing.begin(), existing.end());
  std::erase_if(left, [&](void* each) {
    auto* const qp = static_cast<qp_object*>(each);
    return !existing.contains(qp) || action(*qp);
  });
  return left.empty();
}

bool end_queue_pair(qp_object& qp) {
  if (!qp.core->try_follow(device_change::failure)) return false;
  withdraw_completion_queues(qp);
  return true;
}

// Disables the objects of a context, as a kernel does when the file of the context is closed.
void end_work(context_object& object) {
  object.host->adapter().listeners().remove(&object);
  event_report report;
  for (spin_wait pause; !try_each_queue_pair(object, report, end_queue_pair);) pause.once();
  const std::lock_guard lock(object.working.lock);
  for (mr_object* mr : object.working.regions) {
    object.host->deregister_region(mr->region);
    mr->region.key = 0;
  }
  object.working.regions.clear();
}

std::nullptr_t not_opened(const error& reason) {
  warn_once("soft0 cannot be opened: " + reason.message());
  errno = reason.code() != 0 ? reason.code() : ENODEV;
  return nullptr;
}

}  // namespace

device_object& the_device() {
  static device_object* const device = make_device();
  return *device;
}

// Returns whether peers must see the event. Other events are also raised by the device's thread,
// which must not wait for an open batch.
static bool decides_what_arrives(device_event what) noexcept {
  return what == device_event::port_active || what == device_event::port_error ||
         what == device_event::lid_change || what == device_event::pkey_change;
}

bool notify_context(event_report& report) {
  const device_event what = report.what.what;
  auto& object = *static_cast<context_object*>(report.context);
  if (what == device_event::fatal) {
    object.failed.store(true, std::memory_order_release);
    if (!try_each_queue_pair(object, report, end_queue_pair)) return false;
  }
  const auto follow = [](qp_object& qp) { return qp.core->try_follow(device_change::port); };
  if (decides_what_arrives(what) && !try_each_queue_pair(object, report, follow)) return false;
  if (object.events->push_any(object.device_events, kind_of(report.what))) return true;
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    log(log_level::warning,
        "soft0: the program does not read the asynchronous events of its context "
        "(ibv_get_async_event); "
        "further events are lost");
  return true;
}

namespace {

class contexts final : public device_observer {
  bool event(event_report& report) override { return notify_context(report); }
};
constinit contexts the_contexts;

}  // namespace

void leave(context_object& context) noexcept {
  if (!context.users.remove()) return;
  pthread_mutex_destroy(&context.context.mutex);
  delete &context;
}

bool working(const context_object& context) noexcept {
  if (!usable(context)) return false;
  if (!context.failed.load(std::memory_order_acquire)) return true;
  errno = EIO;
  return false;
}

bool usable(const context_object& context) noexcept {
  if (context.host->usable()) return true;
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) {
    log(log_level::warning,
        "soft0: the device cannot be used in a child process after fork() (ENODEV); open it in the "
        "child");
  }
  errno = ENODEV;
  return false;
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_device** ibv_get_device_list(int* num_devices) {
  const int count = current_settings().listed == listing::on ? 1 : 0;
  auto** const list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (count != 0) list[0] = &the_device();
  if (num_devices != nullptr) *num_devices = count;
  return list;
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

__be64 ibv_get_device_guid(ibv_device* /*device*/) {
  __be64 guid = 0;
  std::memcpy(&guid, process_persona().node_guid.data(), sizeof guid);
  return guid;
}

// The kernel numbers its devices from 0; soft0 is not a device of the kernel.
int ibv_get_device_index(ibv_device* /*device*/) { return -1; }

ibv_device* verbena_soft_device() { return &the_device(); }

ibv_context* ibv_open_device(ibv_device* device) {
  if (device != &the_device()) {
    errno = ENODEV;
    return nullptr;
  }
  auto host = host::instance();
  auto event_fd = create_eventfd(when_empty::wait);
  if (!host || !event_fd) return not_opened(!host ? host.error() : event_fd.error());
  auto made = std::make_unique<context_object>();
  context_object* const object = made.get();
  object->host = *host;
  object->events = std::make_unique<event_queue>(*std::move(event_fd));
  object->users.add();
  prepare_events(*object);
  // A forked child may have another persona than its parent.
  const persona_kind persona = (*host)->persona().kind;
  if ((persona == persona_kind::efa) != (device->node_type == IBV_NODE_UNSPECIFIED))
    set_kind(the_device(), persona);
  fill(*object);
  // Needed without a connection manager, too: this process may receive the messages for another
  // process of the user that listens.
  static_cast<void>(cm_wire_of(**host));
  (*host)->adapter().listeners().add(object, the_contexts);
  [[maybe_unused]] const auto* const kept = made.release();  // closing the device destroys it
  if (const auto run = run_script_of_environment(**host); !run) {
    ibv_close_device(&object->context);
    return not_opened(run.error());
  }
  return &object->context;
}

// Objects that the program has not destroyed yet can still be destroyed, but no longer work.
int ibv_close_device(ibv_context* context) {
  context_object& object = object_of(context);
  if (object.host->usable()) end_work(object);
  leave(object);
  return 0;
}

}  // extern "C"

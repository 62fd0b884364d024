// SPDX-License-Identifier: MIT
#include "verbena/cm/event_channel.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "src/cm/event_texts.hpp"
#include "src/cm/states.hpp"
#include "src/verbs/descriptor.hpp"
#include "src/verbs/device_choice.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/verbs/detail/call.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

constexpr const char* kernel_device = "/dev/infiniband/rdma_cm";

// Acknowledges an event in its destructor.
struct acknowledging {
  const sys::cm_table& calls;
  rdma_cm_event* pending;
  ~acknowledging() { calls.ack_cm_event(pending); }
};

bool has_served_hardware(const verbena::provider& system) {
  if (!cm_functions(system) || ::access(kernel_device, F_OK) != 0) return false;
  const auto devices = list_devices(system);
  return devices && !devices->empty();
}

result<const verbena::provider*> choose_provider() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
  VERBENA_TRY(const auto mode, verbena::detail::parse_soft_mode(std::getenv("VERBENA_SOFTDEV")));
  if (mode == verbena::detail::soft_mode::only) return soft_provider();
  auto system = system_provider();
  if (mode == verbena::detail::soft_mode::off) return system;
  if (system && has_served_hardware(**system)) return system;
  return soft_provider();
}

}  // namespace

result<const verbena::provider*> default_provider() {
  static std::mutex mutex;
  static const verbena::provider* chosen = nullptr;
  const std::lock_guard lock(mutex);
  if (chosen == nullptr) {
    VERBENA_TRY(chosen, choose_provider());
  }
  return chosen;
}

result<event_channel> event_channel::create() {
  VERBENA_TRY(const verbena::provider* const from, default_provider());
  return create(*from);
}

result<event_channel> event_channel::create(const verbena::provider& from) {
  VERBENA_TRY(const sys::cm_table* const calls, cm_functions(from));
  const auto made = verbena::detail::call_create(calls->create_event_channel);
  if (!made)
    return detail::call_failed(made.code, calls->create_event_channel.name(),
                               to_string(from.origin));
  struct guard {
    const sys::cm_table& calls;
    rdma_event_channel* native;
    ~guard() {
      if (native != nullptr) calls.destroy_event_channel(native);
    }
  } unowned{*calls, made.native};
  // From here on, the state object destroys the channel if a later step fails.
  auto state = std::make_shared<detail::channel_state>(from, made.native);
  unowned.native = nullptr;
  if (const int code = verbena::detail::make_non_blocking(made.native->fd); code != 0)
    return error::from_errno(code, "fcntl", "event channel");
  return event_channel(std::move(state));
}

const std::shared_ptr<detail::channel_state>& event_channel::state() const {
  VERBENA_ASSERT(state_ != nullptr, "a moved-from event_channel was used");
  return state_;
}

int event_channel::fd() const { return native()->fd; }

rdma_event_channel* event_channel::native() const { return state()->native(); }

const verbena::provider& event_channel::provider() const { return state()->provider(); }

result<std::optional<event>> event_channel::poll_event() const {
  const auto& calls = *provider().cm;
  rdma_cm_event* pending = nullptr;
  const auto status = verbena::detail::call(calls.get_cm_event, native(), &pending);
  if (!status.failed) {
    const acknowledging afterwards{calls, pending};
    const bool has_request = pending->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    return std::optional<event>(
        event(*pending, has_request ? detail::own_identifier(state(), pending->id) : nullptr));
  }
  if (status.code == EAGAIN || status.code == EWOULDBLOCK || status.code == EINTR)
    return std::optional<event>();
  return detail::call_failed(status.code, calls.get_cm_event.name(), "event channel");
}

result<std::optional<event>> event_channel::wait_event(deadline until) const {
  for (;;) {
    VERBENA_TRY(auto taken, poll_event());
    if (taken) return taken;
    VERBENA_TRY(const bool readable, wait_for_fd(fd(), POLLIN, until));
    if (!readable) return std::optional<event>();
  }
}

}  // namespace verbena::inline VERBENA_ABI::cm

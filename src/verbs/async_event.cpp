// SPDX-License-Identifier: MIT
#include "verbena/verbs/async_event.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <limits>

#include "src/verbs/descriptor.hpp"
#include "src/verbs/text.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Acknowledges an event in its destructor.
struct acknowledging {
  const sys::verbs_table& verbs;
  ibv_async_event& pending;
  ~acknowledging() { verbs.ack_async_event(&pending); }
};

// The kind of object of an event, which selects the member of ibv_async_event::element.
enum class subject : std::uint8_t { device, port, queue_pair, completion_queue, srq, work_queue };

struct kind_text {
  std::string_view name;
  subject about;
  std::string_view meaning;
};

// Indexed by ibv_event_type. Meanings: ibv_get_async_event(3) and InfiniBand Architecture
// Specification 11.6.3.
constexpr std::array<kind_text, 21> kinds = {{
    {"CQ_ERR", subject::completion_queue,
     "the completion queue overflowed; it and its queue pairs are no longer usable: create it with "
     "an entry for each work request that can be outstanding"},
    {"QP_FATAL", subject::queue_pair,
     "the queue pair failed and is in the error state: its last completions may be missing"},
    {"QP_REQ_ERR", subject::queue_pair,
     "a peer sent a request that is not valid; the queue pair is in the error state"},
    {"QP_ACCESS_ERR", subject::queue_pair,
     "a request of the peer violated the key, range or access flags of a memory region; the queue "
     "pair is in the error state"},
    {"COMM_EST", subject::queue_pair, "the first message arrived before the queue pair was in RTS"},
    {"SQ_DRAINED", subject::queue_pair,
     "all requests that were posted before the send queue was stopped are complete"},
    {"PATH_MIG", subject::queue_pair, "the connection uses its alternate path now"},
    {"PATH_MIG_ERR", subject::queue_pair, "the connection could not migrate to its alternate path"},
    {"DEVICE_FATAL", subject::device,
     "the device failed or was removed: close it and all objects created from it"},
    {"PORT_ACTIVE", subject::port, "the link is up"},
    {"PORT_ERR", subject::port, "the link is down"},
    {"LID_CHANGE", subject::port, "the LID of the port changed: send the new LID to the peers"},
    {"PKEY_CHANGE", subject::port, "the P_Key table changed: query the indices again"},
    {"SM_CHANGE", subject::port, "the subnet manager changed"},
    {"SRQ_ERR", subject::srq, "the shared receive queue failed: no more receives can be posted"},
    {"SRQ_LIMIT_REACHED", subject::srq,
     "the number of receives is below the armed limit: post receives and arm the limit again"},
    {"QP_LAST_WQE_REACHED", subject::queue_pair,
     "a queue pair in the error state takes no more receives from its shared receive queue"},
    {"CLIENT_REREGISTER", subject::port, "the subnet manager requests all registrations again"},
    {"GID_CHANGE", subject::port, "the GID table changed: query the indices again"},
    {"WQ_FATAL", subject::work_queue, "the work queue failed"},
    {"DEVICE_SPEED_CHANGE", subject::device, "the device's speed changed"},
}};
static_assert(kinds[IBV_EVENT_WQ_FATAL].name == "WQ_FATAL");

const kind_text* text_of(async_event_kind kind) noexcept {
  const auto index = static_cast<std::uint32_t>(kind);
  return index < kinds.size() ? &kinds[index] : nullptr;
}

bool is_about_a(subject wanted, async_event_kind kind) noexcept {
  const kind_text* const text = text_of(kind);
  return text != nullptr && text->about == wanted;
}

std::string object_of(const ibv_async_event& pending, async_event_kind kind,
                      std::string_view device) {
  const kind_text* const text = text_of(kind);
  switch (text != nullptr ? text->about : subject::device) {
    case subject::port:
      return fmt::format("port {} of {}", pending.element.port_num, device);
    case subject::queue_pair:
      return pending.element.qp == nullptr
                 ? fmt::format("a queue pair on {}", device)
                 : fmt::format("queue pair {:#x} on {}", pending.element.qp->qp_num, device);
    case subject::completion_queue:
      return fmt::format("completion queue of {}", device);
    case subject::srq:
      return fmt::format("shared receive queue of {}", device);
    case subject::work_queue:
      return fmt::format("work queue of {}", device);
    case subject::device:
      break;
  }
  return std::string(device);
}

}  // namespace

std::string to_string(async_event_kind kind) {
  const kind_text* const text = text_of(kind);
  return text != nullptr ? std::string(text->name)
                         : detail::unknown_value(static_cast<std::uint32_t>(kind));
}

std::string_view describe(async_event_kind kind) noexcept {
  const kind_text* const text = text_of(kind);
  return text != nullptr ? text->meaning : std::string_view();
}

async_event::async_event(const ibv_async_event& pending, std::string_view device)
    : native_(pending), object_(object_of(pending, kind(), device)) {
  has_queue_pair_ = is_about_a(subject::queue_pair, kind()) && pending.element.qp != nullptr;
  if (has_queue_pair_)
    queue_pair_ = queue_pair_number(pending.element.qp->qp_num & queue_pair_number::max);
}

std::optional<queue_pair_number> async_event::queue_pair() const noexcept {
  return has_queue_pair_ ? std::optional(queue_pair_) : std::nullopt;
}

std::optional<port_number> async_event::port() const noexcept {
  const int number = native_.element.port_num;
  if (!is_about_a(subject::port, kind()) || number < 0 ||
      number > std::numeric_limits<std::uint8_t>::max())
    return std::nullopt;
  return port_number(static_cast<std::uint8_t>(number));
}

bool async_event::is_about(const ibv_qp* queue) const noexcept {
  return is_about_a(subject::queue_pair, kind()) && native_.element.qp == queue;
}
bool async_event::is_about(const ibv_cq* queue) const noexcept {
  return is_about_a(subject::completion_queue, kind()) && native_.element.cq == queue;
}
bool async_event::is_about(const ibv_srq* queue) const noexcept {
  return is_about_a(subject::srq, kind()) && native_.element.srq == queue;
}

std::string to_string(const async_event& event) {
  std::string text = fmt::format("{} of {}", to_string(event.kind()), event.object());
  if (const auto meaning = describe(event.kind()); !meaning.empty())
    text.append(": ").append(meaning);
  return text;
}

result<void> context::stop_blocking_for_events() const {
  auto& done = state().parents().memory->events_do_not_block;
  if (done.load(std::memory_order_relaxed)) return {};
  if (const int code = detail::make_non_blocking(native()->async_fd); code != 0)
    return error::from_errno(code, "fcntl", name(),
                             "the descriptor of the asynchronous events is not open; do not close "
                             "async_fd()");
  done.store(true, std::memory_order_relaxed);
  return {};
}

int context::async_fd() const {
  // If the flags of the descriptor cannot be changed, poll_event() returns the error.
  static_cast<void>(stop_blocking_for_events());
  return native()->async_fd;
}

result<std::optional<async_event>> context::poll_event() const {
  VERBENA_TRY_VOID(stop_blocking_for_events());
  const auto& verbs = provider().verbs;
  ibv_async_event pending{};
  const auto status = detail::call(verbs.get_async_event, native(), &pending);
  if (!status.failed) {
    // Also if copying the event fails: destroying its object waits for the acknowledgement.
    const acknowledging afterwards{verbs, pending};
    return std::optional<async_event>(std::in_place, pending, name());
  }
  if (status.code == EAGAIN || status.code == EWOULDBLOCK || status.code == EINTR)
    return std::optional<async_event>();
  const bool gone = status.code == EIO || status.code == ENODEV;
  return error::from_errno(status.code, verbs.get_async_event.name(), name(),
                           gone ? "the device was removed or has failed" : "");
}

result<std::optional<async_event>> context::wait_event(deadline until) const {
  for (;;) {
    VERBENA_TRY(auto event, poll_event());
    if (event) return event;
    VERBENA_TRY(const bool readable, wait_for_fd(async_fd(), POLLIN, until));
    if (!readable) return std::optional<async_event>();
  }
}

}  // namespace verbena::inline VERBENA_ABI

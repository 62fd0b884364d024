// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion_channel.hpp"

#include <poll.h>

#include <cerrno>
#include <utility>

#include "src/verbs/creation.hpp"
#include "src/verbs/descriptor.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

std::shared_ptr<detail::completion_channel_state> make_state(ibv_comp_channel* native,
                                                             const context& of, ownership owner) {
  return std::make_shared<detail::completion_channel_state>(
      detail::completion_channel_state::arguments{.provider = &of.provider(),
                                                  .native = native,
                                                  .owner = owner,
                                                  .name = "completion channel of " + of.name(),
                                                  .parents = {detail::internals::state_of(of)}});
}

}  // namespace

bool completion_event::is_from(const completion_queue& queue) const {
  return queue.native() == queue_;
}

result<completion_channel> context::create_completion_channel() const {
  const auto made = detail::call_create(state().verbs().create_comp_channel, native());
  if (!made) return detail::creation_error(made.code, "ibv_create_comp_channel", name());
  // The state object destroys the channel, even if a later step fails.
  auto channel_state = detail::make_owner(
      state().verbs(), made.native,
      [&](ibv_comp_channel* owned) { return make_state(owned, *this, ownership::take); });
  if (const int code = detail::make_non_blocking(made.native->fd); code != 0)
    return error::from_errno(code, "fcntl", channel_state->name());
  return detail::internals::make<completion_channel>(std::move(channel_state));
}

result<completion_channel> completion_channel::adopt(ibv_comp_channel* native, const context& of,
                                                     ownership owner) {
  VERBENA_ASSERT(native != nullptr, "completion_channel::adopt() with a null pointer");
  VERBENA_ASSERT(native->context == of.native(),
                 "completion_channel::adopt() with another context");
  if (const int code = detail::make_non_blocking(native->fd); code != 0)
    return error::from_errno(code, "fcntl", "completion channel of " + of.name());
  return detail::internals::make<completion_channel>(make_state(native, of, owner));
}

int completion_channel::fd() const { return native()->fd; }

result<std::optional<completion_event>> completion_channel::poll_event() const {
  const auto& verbs = state().verbs();
  ibv_cq* queue = nullptr;
  void* user_context = nullptr;
  errno = 0;
  if (verbs.get_cq_event(native(), &queue, &user_context) == 0) {
    verbs.ack_cq_events(queue, 1);
    return std::optional(completion_event(queue));
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
    return std::optional<completion_event>();
  return error::from_errno(errno, "ibv_get_cq_event", name());
}

result<std::optional<completion_event>> completion_channel::wait(deadline until) const {
  for (;;) {
    VERBENA_TRY(auto event, poll_event());
    if (event) return event;
    VERBENA_TRY(const bool readable, wait_for_fd(fd(), POLLIN, until));
    if (!readable) return std::optional<completion_event>();
  }
}

close_result<completion_channel> completion_channel::close() && {
  return close_handle(std::move(*this));
}

}  // namespace verbena::inline VERBENA_ABI

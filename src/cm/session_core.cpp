// SPDX-License-Identifier: MIT
// What a session is made of, requests, and closing. Waiting and what arrives: session_progress.cpp;
// messages about buffers: session_messages.cpp.
#include "src/cm/session_core.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "src/cm/bring_up.hpp"
#include "src/cm/request_ids.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/read_sink.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {
namespace {

constexpr auto nudge_period = std::chrono::milliseconds(100);

result<protection_domain> domain_for(const bound& side, const context& device,
                                     const session_options& options) {
  if (!options.domain) return device.allocate_pd();
  if (options.domain->native()->context != device.native())
    return error::invalid_argument(
        "session", device.name(),
        "the protection domain is of another device than the one that "
        "reaches " +
            (side.peer_address() ? to_string(*side.peer_address()) : std::string("the peer")));
  return *options.domain;
}

queue_pair_options<rc> queue_options(const session_options& options, std::uint32_t messages,
                                     int most_slices) {
  const auto slices =
      std::clamp(options.max_slices, 1U, static_cast<std::uint32_t>(std::max(most_slices, 1)));
  return {.max_send_wr = options.send_capacity + messages,
          .max_recv_wr = options.receive_capacity + messages,
          .max_send_sge = slices,
          .max_recv_sge = slices,
          .extended = false,
          .access = options.peer_rights,
          .read_depth = options.read_depth};
}

result<unique_fd> make_wake() {
  unique_fd made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made) return error::from_errno(errno, "eventfd", "session");
  return made;
}

result<void> outcome_of(post_status posted) {
  if (posted) return {};
  return posted.error();
}

}  // namespace

result<session_core::parts> session_core::make(bound& side, role which,
                                               const session_options& options) {
  VERBENA_TRY(const auto device, side.context());
  VERBENA_TRY(const auto limits, device.query());
  VERBENA_TRY(auto domain, domain_for(side, device, options));
  const bool iwarp = side.id().is_iwarp();
  // The first message on iWARP has a place too.
  const std::uint32_t messages = std::max(options.max_messages, 1U) + (iwarp ? 1U : 0U);
  VERBENA_TRY(auto channel, device.create_completion_channel());
  VERBENA_TRY(auto sends, device.create_cq(options.send_capacity + messages, {.channel = channel}));
  VERBENA_TRY(auto receives,
              device.create_cq(options.receive_capacity + messages, {.channel = channel}));
  VERBENA_TRY(auto outgoing, message_slots::create(domain, messages));
  VERBENA_TRY(auto incoming, message_slots::create(domain, messages));
  VERBENA_TRY(auto wake, make_wake());
  VERBENA_TRY(auto prepared,
              side.create_queue_pair(domain, sends, receives,
                                     queue_options(options, messages, limits.max_slices())));
  // From here on it takes receives.
  VERBENA_TRY_VOID(initialise(side.id(), prepared));
  return parts{.domain = std::move(domain),
               .channel = std::move(channel),
               .sends = std::move(sends),
               .receives = std::move(receives),
               .outgoing = std::move(outgoing),
               .incoming = std::move(incoming),
               .wake = std::move(wake),
               .prepared = std::move(prepared),
               .which = which,
               .iwarp = iwarp,
               .max_read_slices = static_cast<std::size_t>(std::max(limits.max_read_slices(), 1))};
}

session_core::session_core(parts made, std::string name)
    : objects_(std::move(made)), name_(std::move(name)), queue_(objects_.prepared.native()) {}

result<std::unique_ptr<session_core>> session_core::create(bound& side, role which,
                                                           const session_options& options) {
  VERBENA_TRY(auto made, make(side, which, options));
  std::unique_ptr<session_core> core(new session_core(std::move(made), side.id().name()));
  if (core->objects_.iwarp) {
    // Before any receive of the program.
    const auto slot = core->objects_.incoming.take().value_or(0);
    VERBENA_TRY_VOID(core->post_receive({.id = greeting_mark | slot},
                                        as_list(core->objects_.incoming.slice(slot))));
  }
  return core;
}

access_flags session_core::rights_for(access_flags asked) const {
  if (!asked.contains(access::local_write)) return asked;
  return asked | read_sink_access(objects_.domain.context());
}

prepared_queue_pair<rc> session_core::take_prepared() {
  queue_ = nullptr;
  return std::move(objects_.prepared);
}

result<void> session_core::begin(cm::connection link, deadline until) {
  held lock(mutex_);
  link_.emplace(std::move(link));
  queue_ = link_->queue().native();
  return objects_.iwarp ? greet(lock, until) : result<void>();
}

result<void> session_core::greet(held& lock, deadline until) {
  const bool first = objects_.which == role::asks;
  if (first) VERBENA_TRY_VOID(post_message({}, greeting_mark));
  const auto ready = [this] { return greeted_ || is_ending(); };
  while (!ready()) {
    const auto turn = deadline::at(std::min(until.when(), deadline::after(nudge_period).when()));
    VERBENA_TRY(const bool came, wait(lock, ready, turn));
    if (!came && until.expired())
      return error::timed_out("connect", name_, "the peer did not say its first message");
    if (!came && first) VERBENA_TRY_VOID(nudge());
  }
  if (!greeted_) {
    VERBENA_TRY_VOID(learn_reason(lock, until));
    return *over_;
  }
  return first ? result<void>() : post_message({}, greeting_mark);
}

// siw looks for messages only after it has answered the peer (siw_accept() in siw_cm.c): one that
// was faster lies there until another one comes. A write of no bytes is one that needs nothing.
result<void> session_core::nudge() {
  send_batch<rc, 1> batch(queue_);
  batch.write({.id = greeting_mark, .signaled = true}, std::span<const local_slice>(),
              remote_region());
  return outcome_of(batch.submit());
}

result<void> session_core::check_post(std::string_view call, std::uint64_t id) const {
  if ((id & library_mark) != 0)
    return error::invalid_argument(call, name_, "ids with the highest bit are the library's");
  if (over_) return *over_;
  if (queue_ == nullptr)
    return error::from_errno(ENOTCONN, call, name_, "connecting failed: call the peer anew");
  return {};
}

result<void> session_core::check_remote(remote_place where, std::uint64_t bytes, access right,
                                        std::string_view call) const {
  const auto& [number, name, region, rights] = *where.buffer;
  if (number != 0 && !book_.is_usable(number))
    return error::from_errno(ENOENT, call, to_string(region),
                             "the peer wanted this buffer back, or it was given back");
  if (!rights.contains(right))
    return error::invalid_argument(call, to_string(region),
                                   "the peer lets " + to_string(rights) + " and no more");
  if (where.offset > region.length() || bytes > region.length() - where.offset)
    return error::invalid_argument(
        call, to_string(region),
        std::to_string(bytes) + " bytes at " + std::to_string(where.offset) + " do not fit");
  return {};
}

result<void> session_core::post_receive(receive_request request,
                                        std::span<const local_slice> into) {
  return outcome_of(verbena::detail::post_one_receive(queue_, request, into));
}

result<void> session_core::receive(receive_request request, std::span<const local_slice> into) {
  const held lock(mutex_);
  VERBENA_TRY_VOID(check_post("receive", request.id));
  return post_receive(request, into);
}

result<void> session_core::send(send_request request, std::span<const local_slice> data) {
  const held lock(mutex_);
  VERBENA_TRY_VOID(check_post("send", request.id));
  send_batch<rc, 1> batch(queue_);
  batch.send(request, data);
  return outcome_of(batch.submit());
}

result<void> session_core::write(send_request request, std::span<const local_slice> data,
                                 remote_place to) {
  const held lock(mutex_);
  VERBENA_TRY_VOID(check_post("write", request.id));
  const auto bytes = verbena::detail::total_length(data);
  VERBENA_TRY_VOID(check_remote(to, bytes, access::remote_write, "write"));
  send_batch<rc, 1> batch(queue_);
  batch.write(request, data, to.buffer->region.slice(to.offset, bytes));
  return outcome_of(batch.submit());
}

result<void> session_core::read(send_request request, std::span<const local_slice> into,
                                remote_place from) {
  const held lock(mutex_);
  VERBENA_TRY_VOID(check_post("read", request.id));
  const auto all = verbena::detail::total_length(into);
  VERBENA_TRY_VOID(check_remote(from, all, access::remote_read, "read"));
  do {
    const auto part = into.first(std::min(into.size(), objects_.max_read_slices));
    into = into.subspan(part.size());
    const auto bytes = verbena::detail::total_length(part);
    // Reads end in their order: the last one's completion is that of all.
    send_batch<rc, 1> batch(queue_);
    batch.read(
        {.id = request.id, .signaled = request.signaled && into.empty(), .fenced = request.fenced},
        part, from.buffer->region.slice(from.offset, bytes));
    VERBENA_TRY_VOID(outcome_of(batch.submit()));
    request.fenced = false;
    from.offset += bytes;
  } while (!into.empty());
  return {};
}

result<void> session_core::disconnect() {
  const held lock(mutex_);
  if (disconnected_) return {};
  end(error::from_errno(ECONNABORTED, "disconnect", name_, "this side closed the connection"));
  return link_->disconnect();
}

result<bool> session_core::wait_disconnected(deadline until) {
  held lock(mutex_);
  return wait(lock, [this] { return disconnected_; }, until);
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail

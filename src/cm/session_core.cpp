// SPDX-License-Identifier: MIT
// Creation, requests and closing of a session. session_progress.cpp waits and polls;
// session_messages.cpp has the advertisement messages.
#include "src/cm/session_core.hpp"

#include <fmt/format.h>
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

result<protection_domain> domain_for(const pending_connection& side, const context& device,
                                     const session_options& options) {
  if (!options.domain) return device.allocate_pd();
  if (options.domain->native()->context != device.native())
    return error::invalid_argument(
        "session", device.name(),
        fmt::format(
            "session_options::domain belongs to a different device from the one that reaches {}",
            side.peer_address() ? to_string(*side.peer_address()) : "the peer"));
  return *options.domain;
}

queue_pair_options<rc> queue_options(const session_options& options, std::uint32_t messages,
                                     int device_max_sge) {
  const auto limited = [limit = static_cast<std::uint32_t>(std::max(device_max_sge, 1))](
                           std::uint32_t elements) { return std::clamp(elements, 1U, limit); };
  queue_sizes queues = options.queues;
  queues.max_send_wr += messages;
  queues.max_recv_wr += messages;
  queues.max_send_sge = limited(queues.max_send_sge);
  queues.max_recv_sge = limited(queues.max_recv_sge);
  return {.queues = queues,
          .extended = false,
          .access = options.access,
          .reliability = options.reliability};
}

struct made_queues {
  completion_queue sends;
  completion_queue receives;
  prepared_queue_pair<rc> prepared;
};

struct queue_parents {
  const protection_domain& domain;
  const context& device;
  const completion_channel& channel;
};

// Creates the queue pair and completion queues for all requests that the device grants. Some
// devices grant more than asked for, and the program can post until the queue is full.
result<made_queues> make_queues(const pending_connection& side, const queue_parents& of,
                                const queue_pair_options<rc>& options) {
  const auto make = [&](std::uint32_t sends, std::uint32_t receives) -> result<made_queues> {
    const completion_queue_options with{.channel = of.channel};
    VERBENA_TRY(auto sent, of.device.create_cq(sends, with));
    VERBENA_TRY(auto received, of.device.create_cq(receives, with));
    VERBENA_TRY(auto prepared, side.create_qp(of.domain, sent, received, options));
    return made_queues{std::move(sent), std::move(received), std::move(prepared)};
  };
  const auto& asked = options.queues;
  queue_sizes granted;
  {
    VERBENA_TRY(auto first, make(asked.max_send_wr, asked.max_recv_wr));
    granted = first.prepared.capabilities();
    if (granted.max_send_wr <= first.sends.capacity() &&
        granted.max_recv_wr <= first.receives.capacity())
      return first;
  }
  // The device grants the same sizes again.
  return make(std::max(asked.max_send_wr, granted.max_send_wr),
              std::max(asked.max_recv_wr, granted.max_recv_wr));
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

result<session_core::parts> session_core::make(pending_connection& side, role which,
                                               const session_options& options) {
  VERBENA_TRY(const auto device, side.context());
  VERBENA_TRY(const auto limits, device.query());
  VERBENA_TRY(auto domain, domain_for(side, device, options));
  const bool iwarp = side.id().is_iwarp();
  // The first message on iWARP needs an entry as well.
  const std::uint32_t messages = std::max(options.max_messages, 1U) + (iwarp ? 1U : 0U);
  VERBENA_TRY(auto channel, device.create_completion_channel());
  VERBENA_TRY(auto outgoing, message_slots::create(domain, messages));
  VERBENA_TRY(auto incoming, message_slots::create(domain, messages));
  VERBENA_TRY(auto wake, make_wake());
  VERBENA_TRY(auto made, make_queues(side, {.domain = domain, .device = device, .channel = channel},
                                     queue_options(options, messages, limits.max_sge())));
  // Receives can be posted from here on.
  VERBENA_TRY_VOID(initialise(side.id(), made.prepared));
  return parts{.domain = std::move(domain),
               .channel = std::move(channel),
               .sends = std::move(made.sends),
               .receives = std::move(made.receives),
               .outgoing = std::move(outgoing),
               .incoming = std::move(incoming),
               .wake = std::move(wake),
               .prepared = std::move(made.prepared),
               .which = which,
               .iwarp = iwarp,
               .max_read_sge = static_cast<std::size_t>(std::max(limits.max_read_sge(), 1))};
}

session_core::session_core(parts made, const std::string& name)
    : objects_(std::move(made)), name_(name), queue_(objects_.prepared.native()) {}

result<session_core_owner> session_core::create(pending_connection& side, role which,
                                                const session_options& options) {
  VERBENA_TRY(auto made, make(side, which, options));
  session_core_owner core(new session_core(std::move(made), side.id().name()));
  if (core->objects_.iwarp) {
    // The peer's first message consumes the first receive, so it is posted before the program's.
    const auto slot = core->objects_.incoming.take().value_or(0);
    VERBENA_TRY_VOID(core->post_receive({.id = greeting_mark | slot},
                                        as_list(core->objects_.incoming.slice(slot))));
  }
  return core;
}

access_flags session_core::access_for(access_flags asked) const {
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
  queue_ = link_->qp().native();
  return objects_.iwarp ? greet(lock, until) : result<void>();
}

result<void> session_core::greet(held& lock, deadline until) {
  const bool first = objects_.which == role::active;
  if (first) VERBENA_TRY_VOID(post_message({}, greeting_mark));
  const auto ready = [this] { return greeted_ || is_ending(); };
  while (!ready()) {
    const auto turn = deadline::at(std::min(until.when(), deadline::after(nudge_period).when()));
    VERBENA_TRY(const bool came, wait(lock, ready, turn));
    if (!came && until.expired())
      return error::timed_out(
          "connect", name_,
          "the first message of the peer's session did not arrive; on iWARP both sides must be "
          "sessions");
    if (!came && first) VERBENA_TRY_VOID(nudge());
  }
  if (!greeted_) {
    VERBENA_TRY_VOID(learn_reason(lock, until));
    return *over_;
  }
  return first ? result<void>() : post_message({}, greeting_mark);
}

// Posts a write of zero bytes. siw does not process data that arrives before its reply
// (siw_accept() in siw_cm.c) until more data arrives.
result<void> session_core::nudge() {
  send_batch<rc, 1> batch(queue_);
  batch.write({.id = greeting_mark, .signaled = true}, std::span<const local_slice>(),
              remote_region());
  return outcome_of(batch.submit());
}

result<void> session_core::check_post(std::string_view call, std::uint64_t id) const {
  if ((id & library_mark) != 0)
    return error::invalid_argument(
        call, name_, "ids with bit 63 are reserved for the library; use a smaller id");
  if (over_) return *over_;
  if (queue_ == nullptr)
    return error::from_errno(ENOTCONN, call, name_, "connecting failed; resolve and connect again");
  return {};
}

result<void> session_core::check_remote(remote_place where, std::uint64_t bytes, access needed,
                                        std::string_view call) const {
  const auto& [number, name, region, access] = *where.buffer;
  if (number != 0 && !book_.is_usable(number))
    return error::from_errno(ENOENT, call, to_string(region),
                             "the peer revoked this buffer, or this side released it");
  if (!access.contains(needed))
    return error::invalid_argument(call, to_string(region),
                                   fmt::format("the request needs {}, the peer permits only {}",
                                               to_string(needed), to_string(access)));
  if (where.offset > region.length() || bytes > region.length() - where.offset)
    return error::invalid_argument(call, to_string(region),
                                   fmt::format("the request of {} bytes at offset {} exceeds the "
                                               "buffer of {} bytes",
                                               bytes, where.offset, region.length()));
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
  const auto slices = into.size();
  do {
    const auto part = into.first(std::min(into.size(), objects_.max_read_sge));
    const auto posted_before = slices - into.size();
    into = into.subspan(part.size());
    const auto bytes = verbena::detail::total_length(part);
    // Reads complete in order, so only the last one is signaled.
    send_batch<rc, 1> batch(queue_);
    batch.read(
        {.id = request.id, .signaled = request.signaled && into.empty(), .fenced = request.fenced},
        part, from.buffer->region.slice(from.offset, bytes));
    const auto posted = batch.submit();
    if (!posted && posted_before != 0)
      return end_partial_read(
          request.id, fmt::format("{} of {} slices were posted before: {}", posted_before, slices,
                                  posted.error().message()));
    VERBENA_TRY_VOID(outcome_of(posted));
    request.fenced = false;
    from.offset += bytes;
  } while (!into.empty());
  return {};
}

// The device reads into the first slices, and no completion would report their end.
error session_core::end_partial_read(std::uint64_t id, std::string_view progress) {
  auto why = error::from_errno(
      ECONNABORTED, "read", name_,
      fmt::format("only a part of work request {} was posted, so this side closed the connection: "
                  "{}; keep the memory until the session has been destroyed; increase max_send_wr",
                  id, progress));
  end(why);
  static_cast<void>(link_->disconnect());  // on failure, destroying the session flushes
  return why;
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

// SPDX-License-Identifier: MIT
#include "examples/rcopy/chunks_rdma.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace rcopy {
namespace {

using verbena::error;
using verbena::result;
using message_without_bytes = std::span<const verbena::local_slice>;

error unexpected(const conversation& with, std::string_view what) {
  return error::protocol("copy", with.peer.peer(), std::string("the peer sent ").append(what));
}

}  // namespace

result<rdma_side> rdma_side::connect(const verbena::context& device, flow flow, role role,
                                     const conversation& with) {
  const auto until = with.patience();
  const bool receives = role == role::receiver;
  VERBENA_TRY(const auto pd, device.allocate_pd());
  VERBENA_TRY(auto channel, device.create_completion_channel());
  // Chunks and credits, each on their way or completed but not yet polled.
  const std::uint32_t entries = 4U * flow.window;
  VERBENA_TRY(auto queue, device.create_cq(entries, {.channel = channel}));
  auto rights = verbena::access_flags(verbena::access::local_write);
  if (receives) rights |= verbena::access::remote_write;
  VERBENA_TRY(auto ring, pd.allocate(flow.buffer_bytes(), rights));

  verbena::queue_pair_options<verbena::rc> options{.max_send_wr = 2U * flow.window,
                                                   .max_recv_wr = flow.window};
  if (receives) options.access = rights;
  VERBENA_TRY(auto prepared, pd.create_queue_pair<verbena::rc>(queue, queue, options));

  const auto our_ring = ring.remote().encode();
  rdma_side made(flow, std::move(channel), std::move(queue), std::move(ring));
  VERBENA_TRY(
      const auto their_ring,
      with.peer.exchange(
          receives ? std::span<const std::byte>(our_ring) : std::span<const std::byte>(), until));
  if (!receives) {
    VERBENA_TRY(made.peer_ring_, verbena::remote_region::decode(their_ring));
    if (made.peer_ring_.length() != flow.buffer_bytes())
      return unexpected(with, "a buffer of another size than agreed");
  }
  VERBENA_TRY(auto connected,
              verbena::bringup::connect_queue_pair(
                  std::move(prepared), with.peer, until, [&](auto& pair) -> result<void> {
                    for (int i = 0; i < flow.window; ++i) {
                      const auto posted = pair.post_receive({}, message_without_bytes());
                      if (!posted) return posted.error();
                    }
                    return {};
                  }));
  made.queue_pair_.emplace(std::move(connected));
  return made;
}

result<bool> rdma_side::poll() {
  const auto polled = queue_.poll(completions_);
  if (!polled) return polled.error();
  ready_ = *polled;
  return !ready_.empty();
}

result<verbena::completion> rdma_side::next_completion(const conversation& with) {
  constexpr int polls_before_sleep = 100;
  const auto until = with.patience();
  for (int i = 0; i < polls_before_sleep && ready_.empty(); ++i) VERBENA_TRY_VOID(poll());
  while (ready_.empty()) {
    VERBENA_TRY_VOID(queue_.request_notification(verbena::notify::any_completion));
    VERBENA_TRY(const bool any, poll());
    if (any) break;
    VERBENA_TRY_VOID(wait_for(with, channel_.fd(), POLLIN, until));
    VERBENA_TRY_VOID(channel_.poll_event());
    VERBENA_TRY_VOID(poll());
  }
  const auto done = ready_.front();
  ready_ = ready_.subspan(1);
  auto outcome = done.result();
  if (outcome) return done;
  auto failure = std::move(outcome).error();
  if (const auto reason = queue_.explain(done); !reason.empty())
    failure = std::move(failure).with_diagnosis(reason);
  return cause_of(std::move(failure), with);
}

result<void> rdma_side::post_empty_receive() {
  const auto posted = queue_pair_->post_receive({}, message_without_bytes());
  if (!posted) return posted.error();
  return {};
}

std::span<std::byte> rdma_side::bytes(std::uint64_t number) const {
  return ring_.bytes().subspan(number % flow_.window * flow_.chunk_bytes, flow_.chunk_bytes);
}
verbena::local_slice rdma_side::slice(std::uint64_t number, std::size_t bytes) const {
  return ring_.slice(number % flow_.window * flow_.chunk_bytes, bytes);
}
verbena::remote_region rdma_side::remote(std::uint64_t number, std::size_t bytes) const {
  return peer_ring_.slice(number % flow_.window * flow_.chunk_bytes, bytes);
}

result<std::span<std::byte>> rdma_sender::room() {
  while (sent_ - std::min(completed_, credited_) >= flow_.window)
    VERBENA_TRY_VOID(take_completion());
  return side_.bytes(sent_);
}

result<void> rdma_sender::send(std::size_t bytes) {
  auto batch = side_.queue_pair().start_send();
  batch.write_with_immediate({.id = sent_, .signaled = true}, static_cast<std::uint32_t>(sent_),
                             side_.slice(sent_, bytes), side_.remote(sent_, bytes));
  if (const auto posted = batch.submit(); !posted) return cause_of(posted.error(), with_);
  ++sent_;
  return {};
}

result<void> rdma_sender::finish() {
  while (std::min(completed_, credited_) < sent_) VERBENA_TRY_VOID(take_completion());
  return {};
}

result<void> rdma_sender::take_completion() {
  VERBENA_TRY(const auto done, side_.next_completion(with_));
  if (done.is_receive()) return take_credit(done);
  ++completed_;
  return {};
}

result<void> rdma_sender::take_credit(const verbena::completion& received) {
  const auto number = received.immediate();
  if (!number || *number - static_cast<std::uint32_t>(credited_) == 0 ||
      *number - static_cast<std::uint32_t>(credited_) > sent_ - credited_)
    return unexpected(with_, "a credit for chunks that were not sent");
  credited_ += *number - static_cast<std::uint32_t>(credited_);
  return side_.post_empty_receive();
}

result<std::span<const std::byte>> rdma_receiver::next(std::size_t bytes) {
  while (arrived_.empty()) VERBENA_TRY_VOID(take_completion());
  const auto [number, length] = arrived_.front();
  arrived_.pop_front();
  if (number != static_cast<std::uint32_t>(received_) || length != bytes)
    return unexpected(with_, "a chunk out of turn or of the wrong length");
  return std::span<const std::byte>(side_.bytes(received_).first(bytes));
}

result<void> rdma_receiver::give_back() {
  VERBENA_TRY_VOID(side_.post_empty_receive());
  ++received_;
  // Each credit wakes the sender: one for a quarter of the ring keeps it just as busy.
  if (received_ - announced_ < std::max<std::uint64_t>(1, flow_.window / 4U)) return {};
  return send_credit();
}

result<void> rdma_receiver::finish() {
  if (announced_ == received_) return {};
  return send_credit();
}

result<void> rdma_receiver::send_credit() {
  while (credits_in_flight_ >= 2U * flow_.window) VERBENA_TRY_VOID(take_completion());
  auto batch = side_.queue_pair().start_send();
  batch.send_with_immediate({.signaled = true}, static_cast<std::uint32_t>(received_),
                            message_without_bytes());
  if (const auto posted = batch.submit(); !posted) return cause_of(posted.error(), with_);
  announced_ = received_;
  ++credits_in_flight_;
  return {};
}

result<void> rdma_receiver::take_completion() {
  VERBENA_TRY(const auto done, side_.next_completion(with_));
  if (!done.is_receive()) {
    --credits_in_flight_;
    return {};
  }
  const auto number = done.immediate();
  if (!number) return unexpected(with_, "a message that is no chunk");
  arrived_.push_back({.number = *number, .bytes = done.byte_length()});
  return {};
}

}  // namespace rcopy

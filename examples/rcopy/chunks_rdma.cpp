// SPDX-License-Identifier: MIT
#include "examples/rcopy/chunks_rdma.hpp"

#include <algorithm>
#include <utility>

namespace rcopy {
namespace {

using verbena::error;
using verbena::result;

error protocol_error(const conversation& with, std::string_view what) {
  return error::protocol("copy", with.peer.peer(), std::string("the peer sent ").append(what));
}

}  // namespace

result<std::span<std::byte>> rdma_sender::next_buffer() {
  while (sent_ - std::min(completed_, credited_) >= flow_.window) VERBENA_TRY_VOID(take_next());
  return side_.bytes(sent_);
}

result<void> rdma_sender::send(std::size_t bytes) {
  if (auto posted = side_.send_chunk(sent_, bytes); !posted)
    return cause_of(std::move(posted).error(), with_);
  ++sent_;
  return {};
}

result<void> rdma_sender::finish() {
  while (std::min(completed_, credited_) < sent_) VERBENA_TRY_VOID(take_next());
  return {};
}

result<void> rdma_sender::take_next() {
  VERBENA_TRY(const auto received, side_.next(with_));
  if (received) return take_credit(*received);
  ++completed_;
  return {};
}

result<void> rdma_sender::take_credit(control_message received) {
  const std::uint32_t more = received.number - static_cast<std::uint32_t>(credited_);
  if (more == 0 || more > sent_ - credited_)
    return protocol_error(with_, "a credit for chunks that were not sent");
  credited_ += more;
  return {};
}

result<std::span<const std::byte>> rdma_receiver::next(std::size_t bytes) {
  while (arrived_.empty()) VERBENA_TRY_VOID(take_next());
  const auto [number, length] = arrived_.front();
  arrived_.pop_front();
  if (number != static_cast<std::uint32_t>(received_) || length != bytes)
    return protocol_error(with_, "a chunk with an unexpected number or length");
  return std::span<const std::byte>(side_.bytes(received_).first(bytes));
}

result<void> rdma_receiver::release() {
  ++received_;
  // Each credit wakes the sender. One credit per quarter of the ring does not reduce throughput.
  if (received_ - last_credit_ < std::max<std::uint64_t>(1, flow_.window / 4U)) return {};
  return send_credit();
}

result<void> rdma_receiver::finish() {
  if (last_credit_ == received_) return {};
  return send_credit();
}

result<void> rdma_receiver::send_credit() {
  while (credits_in_flight_ >= flow_.window) VERBENA_TRY_VOID(take_next());
  if (auto posted = side_.send_message({.number = static_cast<std::uint32_t>(received_)}); !posted)
    return cause_of(std::move(posted).error(), with_);
  last_credit_ = received_;
  ++credits_in_flight_;
  return {};
}

result<void> rdma_receiver::take_next() {
  VERBENA_TRY(const auto received, side_.next(with_));
  if (received)
    arrived_.push_back(*received);
  else
    --credits_in_flight_;
  return {};
}

}  // namespace rcopy

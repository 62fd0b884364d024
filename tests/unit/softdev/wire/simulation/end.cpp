// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/wire/simulation/end.hpp"

#include <utility>

namespace verbena::softdev::wire::simulation {
namespace {

std::byte pattern(std::uint64_t seed, std::size_t index) noexcept {
  std::uint64_t x = (seed + index / 8 + 1) * 0x9e37'79b9'7f4a'7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
  return static_cast<std::byte>((x ^ (x >> 27U)) >> (index % 8 * 8));
}

}  // namespace

memory::memory(engine& home, std::size_t bytes) : home_(home), words_(bytes / 8 + 1) {
  key_ = home.register_region({.base = data(),
                               .length = words_.size() * 8,
                               .iova = address(),
                               .rights = everything,
                               .domain = domain})
             .value();
}

memory::~memory() { home_.deregister_region(key_); }

void memory::fill(std::size_t at, std::size_t bytes, std::uint64_t seed) noexcept {
  for (std::size_t i = 0; i < bytes; ++i) data()[at + i] = pattern(seed, i);
}

bool memory::holds(std::size_t at, std::size_t bytes, std::uint64_t seed) noexcept {
  for (std::size_t i = 0; i < bytes; ++i)
    if (data()[at + i] != pattern(seed, i)) return false;
  return true;
}

end::end(engine& home, transport kind, completion_observer* observer)
    : home_(home),
      received_({.capacity = 4 * most_requests, .observer = observer}),
      pair_(home.create({.domain = domain,
                         .transport = kind,
                         .send_queue = &sent_,
                         .receive_queue = &received_,
                         .capabilities = {.max_send_wr = most_requests,
                                          .max_receive_wr = most_requests,
                                          .max_send_sge = 4,
                                          .max_receive_sge = 2,
                                          .max_inline_bytes = 64}})
                .value()) {}

end::~end() {
  if (pair_ != nullptr) destroy();
}

void end::destroy() { home_.destroy(std::exchange(pair_, nullptr)); }

void end::connect(const queue_pair_attributes& attributes) {
  if (pair_->transport() == transport::ud) return activate(attributes);
  const attribute_mask reliable = attribute::max_dest_rd_atomic | attribute::min_rnr_timer |
                                  attribute::timeout | attribute::retry_count |
                                  attribute::rnr_retry | attribute::max_rd_atomic;
  const attribute_mask none;
  const attribute_mask left_out = pair_->transport() == transport::rc ? none : reliable;
  queue_pair_attributes wanted = attributes;
  const auto move = [&](queue_pair_state to, attribute_mask mask) {
    wanted.state = to;
    pair_->modify(wanted, (mask | attribute::state).without(left_out)).value();
  };
  move(queue_pair_state::init, attribute::pkey_index | attribute::port | attribute::access_flags);
  move(queue_pair_state::rtr, attribute::address_vector | attribute::path_mtu |
                                  attribute::destination_qpn | attribute::receive_psn |
                                  attribute::max_dest_rd_atomic | attribute::min_rnr_timer);
  move(queue_pair_state::rts, attribute::timeout | attribute::retry_count | attribute::rnr_retry |
                                  attribute::send_psn | attribute::max_rd_atomic);
}

void end::activate(const queue_pair_attributes& attributes) {
  queue_pair_attributes wanted = attributes;
  const auto move = [&](queue_pair_state to, attribute_mask mask) {
    wanted.state = to;
    pair_->modify(wanted, mask | attribute::state).value();
  };
  move(queue_pair_state::init, attribute::pkey_index | attribute::port | attribute::qkey);
  move(queue_pair_state::rtr, {});
  move(queue_pair_state::rts, attribute::send_psn);
}

bool end::post(const send_request& request, const std::vector<sge>& data,
               const datagram_destination* to) {
  pair_->sends().open();
  const int code =
      pair_->sends().add(request, {data.data(), static_cast<std::uint32_t>(data.size())});
  if (code == 0 && to != nullptr) pair_->sends().set_destination(*to);
  pair_->sends().submit();
  return code == 0;
}

bool end::post_receive(std::uint64_t wr_id, const sge& sink) {
  pair_->receives().open();
  const int code = pair_->receives().add(wr_id, {&sink, 1});
  pair_->receives().close();
  return code == 0;
}

queue_pair_attributes attributes_for(std::uint32_t peer) noexcept {
  return {.rights = everything,
          .port = 1,
          .path_mtu = 1,
          .timeout = 8,
          .retry_count = 7,
          .rnr_retry = 7,
          .min_rnr_timer = 4,
          .max_rd_atomic = 4,
          .max_dest_rd_atomic = 4,
          .receive_psn = 100,
          .send_psn = 100,
          .destination_qpn = peer,
          .qkey = qkey};
}

}  // namespace verbena::softdev::wire::simulation

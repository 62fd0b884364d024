// SPDX-License-Identifier: MIT
#include "bench/scale/scale_side.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace bench {

scale_side::scale_side(const process_pair& pair, const scale_options& options)
    : context_(verbena::open_device("soft0").value()),
      pd_(context_.allocate_pd().value()),
      sends_(context_.create_cq(4096).value()),
      channel_(context_.create_completion_channel().value()),
      receives_(context_.create_cq(4096, {.channel = channel_}).value()),
      shared_(pd_.create_srq({.max_wr = 4 * depth}).value()),
      region_(pd_.allocate(4096, verbena::access::local_write | peer_access).value()),
      qps_(connect(pair, options)),
      peer_(verbena::remote_region::decode(
                std::span<const std::byte>(exchange_bytes(pair, region_.remote().encode()))
                    .first<verbena::remote_region::encoded_size>())
                .value()) {
  pair.meet();
}

std::vector<verbena::queue_pair<verbena::rc>> scale_side::connect(const process_pair& pair,
                                                                  const scale_options& options) {
  const verbena::queue_pair_options<verbena::rc> wanted{
      .queues = {.max_send_wr = depth, .max_recv_wr = options.own_receives ? depth : 1},
      .access = peer_access,
      .reliability = options.reliability};
  std::vector<verbena::prepared_queue_pair<verbena::rc>> prepared;
  std::vector<std::byte> mine;
  for (std::size_t i = 0; i < options.queue_pairs; ++i) {
    prepared.push_back(
        options.own_receives
            ? pd_.create_qp<verbena::rc>(sends_, receives_, wanted).value()
            : pd_.create_qp<verbena::rc>(sends_, receives_, shared_, wanted).value());
    const auto encoded = prepared.back().endpoint().encode();
    mine.insert(mine.end(), encoded.begin(), encoded.end());
  }
  const auto theirs = exchange_bytes(pair, mine);
  std::vector<verbena::queue_pair<verbena::rc>> connected;
  for (std::size_t i = 0; i < options.queue_pairs; ++i) {
    constexpr std::size_t size = verbena::endpoint::encoded_size;
    const auto bytes = std::span(theirs).subspan(i * size).first<size>();
    connected.push_back(
        std::move(prepared[i]).handshake(verbena::endpoint::decode(bytes).value()).value());
  }
  return connected;
}

void scale_side::post_receives(std::size_t count) {
  while (count > 0) {
    auto batch = shared_.start_receive();
    const std::size_t now = std::min<std::size_t>(count, 16);
    for (std::size_t i = 0; i < now; ++i) batch.receive({}, message());
    batch.submit().value();
    count -= now;
  }
}

std::vector<std::byte> exchange_bytes(const process_pair& pair, std::span<const std::byte> mine) {
  std::vector<std::byte> theirs(mine.size());
  if (pair.is_parent()) pair.send(mine);
  pair.receive(theirs);
  if (pair.is_child()) pair.send(mine);
  return theirs;
}

std::size_t poll_once(const verbena::completion_queue& from) {
  std::array<verbena::completion, 64> completions;
  const auto found = from.poll(completions).value();
  for (const auto& done : found) done.result().value();
  return found.size();
}

void drain(const verbena::completion_queue& from, std::size_t wanted) {
  for (std::size_t seen = 0; seen < wanted;) seen += poll_once(from);
}

}  // namespace bench

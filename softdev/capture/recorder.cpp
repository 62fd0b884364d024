// SPDX-License-Identifier: MIT
#include "softdev/capture/recorder.hpp"

#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/same_process.hpp"
#include "softdev/core/transport/rules.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::capture {
namespace {

constexpr std::size_t ethernet_bytes = 14;
constexpr std::uint16_t ethernet_ipv4 = 0x0800;
constexpr std::uint16_t ethernet_ipv6 = 0x86dd;

std::uint64_t wall_clock() noexcept {
  constexpr std::uint64_t second = 1'000'000'000;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * second + static_cast<std::uint64_t>(now.tv_nsec);
}

/// The address of the interface: made of the network address, because soft0 has none.
void put_hardware_address(const wire::network_address& of, std::span<std::byte, 6> out) noexcept {
  const bool multicast = is_multicast(of);
  constexpr std::array<std::byte, 6> locally_administered{std::byte{0x02}};
  std::ranges::copy(locally_administered, out.begin());
  if (wire::is_ipv4(of)) {
    std::ranges::transform(std::span(of).last<4>(), out.begin() + 2,
                           [](std::uint8_t each) { return std::byte{each}; });
    if (!multicast) return;
    out[0] = std::byte{0x01};
    out[2] = std::byte{0x5e};
    out[3] &= std::byte{0x7f};
    return;
  }
  std::ranges::transform(std::span(of).last<4>(), out.begin() + 2,
                         [](std::uint8_t each) { return std::byte{each}; });
  if (multicast) out[0] = out[1] = std::byte{0x33};
}

constexpr conversation_route loopback{
    .source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
    .destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};

/// RoCE v2 has no packets for the parts of requests over SRD.
bool has_packets(const queue_pair& sender) noexcept {
  return rules_of(sender.transport()).carried != carriage::parts;
}

}  // namespace

recorder::recorder(engine& home, remote_path& next, capture_file file, std::size_t packet_bytes)
    : home_(home),
      next_(next),
      packet_bytes_(std::min(packet_bytes, capture_file::max_captured_bytes)),
      file_(std::move(file)) {
  home.routes().observe(*this, *this);
}

void recorder::set_route(std::uint32_t qp_num, const conversation_route& route) {
  const std::lock_guard lock(mutex_);
  routes_[qp_num] = route;
}

conversation& recorder::conversation_of(const queue_pair& sender) {
  const auto known = conversations_.find(sender.number());
  if (known != conversations_.end()) return known->second;
  const auto route = routes_.find(sender.number());
  const queue_pair_attributes& attributes = sender.attributes();
  return conversations_
      .emplace(sender.number(),
               conversation(route != routes_.end() ? route->second : loopback, attributes.send_psn,
                            bytes_of_mtu(attributes.path_mtu)))
      .first->second;
}

template <class Action>
void recorder::record(const queue_pair& sender, Action action) noexcept {
  const std::lock_guard lock(mutex_);
  if (!has_packets(sender)) {
    if (!std::exchange(told_missing_, true))
      verbena::log(log_level::warning,
                   "soft0: requests over SRD are not captured: RoCE v2 has no packets for them");
    return;
  }
  now_ = wall_clock();
  try {
    action(conversation_of(sender));
  } catch (const std::bad_alloc&) {
    file_.note_lost();
  }
  file_.flush();
}

response recorder::submit(queue_pair& sender, const message& what, std::span<const segment> local,
                          bool earlier_done) noexcept {
  // Before the peer can see the request: what it causes comes behind it in the file.
  record(sender, [&](conversation& with) { with.sending(what, local, *this); });
  const response answer = execute(sender, what, local, earlier_done);
  record(sender, [&](conversation& with) { with.sent(what, local, answer, *this); });
  return answer;
}

response recorder::execute(queue_pair& sender, const message& what, std::span<const segment> local,
                           bool earlier_done) noexcept {
  const bool here = what.by == path_to_peer::same_host &&
                    home_.numbers().is_local(what.destination_qpn) && !is_for_group(what);
  if (!here) return next_.submit(sender, what, local, earlier_done);
  queue_pair* const target = home_.find(what.destination_qpn);
  if (target == nullptr) return without_answer(reason::peer_unknown, what);
  const response answer = execute_in_process(*target, what, local);
  // A target in this process counts what it drops.
  const bool silent =
      !rules_of(what.transport).acknowledged && answer.outcome != verdict::local_protection_error;
  return silent ? response{} : answer;
}

void recorder::answered(queue_pair& sender, const answered_request& which,
                        const response& what) noexcept {
  record(sender, [&](conversation& with) { with.answered(which.psn, which.sinks, what, *this); });
}

void recorder::changed(queue_pair& which, bool gone) noexcept {
  if (gone || which.state() == queue_pair_state::reset) {
    const std::lock_guard lock(mutex_);
    conversations_.erase(which.number());
    routes_.erase(which.number());
  }
  next_.changed(which, gone);
}

void recorder::put(const wire::network_header& around, const wire::packet& what) noexcept {
  const std::span<std::byte> frame(frame_);
  const std::size_t transport_bytes = wire::encoded_bytes(what);
  const std::size_t network = wire::network_bytes(around);
  const std::span<std::byte> packet = frame.subspan(ethernet_bytes, network + transport_bytes);
  put_hardware_address(around.destination, frame.first<6>());
  put_hardware_address(around.source, frame.subspan<6, 6>());
  wire::write_network(around, transport_bytes, packet);
  constexpr std::size_t type_offset = 12;
  const bool ipv4 = std::to_integer<unsigned>(packet[0]) >> 4U == 4;
  store_network_order(frame.data() + type_offset, ipv4 ? ethernet_ipv4 : ethernet_ipv6);
  const std::span<std::byte> body = packet.subspan(network);
  const std::size_t covered = wire::encode(what, body);
  wire::store_icrc(wire::icrc(around, body.first(covered)),
                   std::span<std::byte, wire::icrc_bytes>(body.last<wire::icrc_bytes>()));
  wire::write_udp_checksum(packet);
  const std::size_t bytes = ethernet_bytes + packet.size();
  file_.add(now_, frame.first(std::min(bytes, packet_bytes_)), bytes);
}

}  // namespace verbena::softdev::capture

// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/wire/simulation/transfer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "softdev/wire/opcode.hpp"
#include "tests/unit/softdev/random_source.hpp"
#include "tests/unit/softdev/wire/simulation/end.hpp"

namespace verbena::softdev::wire::simulation {
namespace {

constexpr time_ns transfer_start = 1'000'000;
constexpr time_ns longest_transfer = 600'000'000'000;
constexpr std::uint64_t transfer_pattern = 77;

/// Threads: one thread at a time.
class transfer {
 public:
  explicit transfer(const transfer_setting& chosen)
      : setting_(chosen),
        random_(chosen.seed),
        network_(setting_.faults, random_),
        hosts_{host(0, network_, chosen.link, chosen.hosts),
               host(1, network_, chosen.link, chosen.hosts)},
        from_(hosts_[0].device()),
        to_(hosts_[1].device()),
        own_(hosts_[0].device(), chosen.bytes),
        remote_(hosts_[1].device(), chosen.bytes) {
    const bool reads = chosen.kind == opcode::rdma_read;
    (reads ? remote_ : own_).fill(0, chosen.bytes, transfer_pattern);
    hosts_[0].observe([this](const packet& what) { note_sent(what); });
    connect();
  }

  [[nodiscard]] transfer_result run() {
    while (completed_ < setting_.requests && !failed_) {
      post();
      time_ns next = step();
      if (resume_at_ > now) next = std::min(next, resume_at_);
      if (next == never || next > transfer_start + longest_transfer) break;
      now = std::max(now, next);
    }
    memory& sink = setting_.kind == opcode::rdma_read ? own_ : remote_;
    result_.is_right =
        completed_ == setting_.requests && sink.holds(0, setting_.bytes, transfer_pattern);
    result_.elapsed = now - transfer_start;
    result_.packets = hosts_[0].sent() + hosts_[1].sent();
    result_.dropped = network_.dropped();
    result_.retransmitted = hosts_[0].events(packet_event::retransmitted);
    result_.timeouts = hosts_[0].events(packet_event::timed_out);
    return result_;
  }

 private:
  void connect() {
    queue_pair_attributes attributes = attributes_for(to_.pair().number());
    constexpr std::uint8_t mtu_4096 = 5;
    attributes.path_mtu = mtu_4096;
    attributes.timeout = 16;  // 268 ms
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
    attributes.send_psn = psn_mask - 300;
    attributes.receive_psn = 5;
    from_.connect(attributes);
    std::swap(attributes.send_psn, attributes.receive_psn);
    attributes.destination_qpn = from_.pair().number();
    to_.connect(attributes);
  }
  void note_sent(const packet& what) {
    if (operation_of(what.opcode) == operation::acknowledge) return;
    const time_ns round_trip = 2 * setting_.faults.delay;
    if (now < transfer_start + round_trip) ++result_.first_burst;
    if (resume_at_ != 0 && now >= resume_at_ && now < resume_at_ + round_trip) ++result_.late_burst;
  }
  void post() {
    const bool pauses = setting_.pause_after_half != 0;
    const std::uint32_t half = setting_.requests / 2;
    if (pauses && resume_at_ == 0 && completed_ == half)
      resume_at_ = now + setting_.pause_after_half;
    const std::uint32_t end =
        pauses && (resume_at_ == 0 || now < resume_at_) ? half : setting_.requests;
    for (; posted_ < end && posted_ - completed_ < setting_.outstanding; ++posted_) {
      const send_request made{.wr_id = posted_,
                              .opcode = setting_.kind,
                              .flags = send_flag::signaled,
                              .remote_address = remote_.address(),
                              .remote_key = remote_.key()};
      failed_ |= !from_.post(made, {own_.slice(0, setting_.bytes)});
    }
  }
  [[nodiscard]] time_ns step() {
    while (network_.next_arrival() <= now) {
      const travelling_packet packet = network_.take();
      hosts_[packet.host].receive(packet.bytes, packet.marked);
    }
    for (host& each : hosts_) each.run();
    std::array<completion, 16> some;
    const std::size_t count = from_.sent().poll(some);
    for (const completion& each : std::span(some).first(count)) {
      failed_ |= each.status != completion_status::success;
      ++completed_;
    }
    if (count > 0) return now;
    time_ns next = network_.next_arrival();
    for (host& each : hosts_) next = std::min(next, each.next_deadline());
    return next;
  }

  const transfer_setting setting_;
  random_source random_;
  network network_;
  std::array<host, 2> hosts_;
  end from_;
  end to_;
  memory own_;
  memory remote_;
  transfer_result result_;
  std::uint32_t posted_ = 0;
  std::uint32_t completed_ = 0;
  time_ns resume_at_ = 0;
  bool failed_ = false;
};

}  // namespace

transfer_result run_transfer(const transfer_setting& chosen) {
  now = transfer_start;
  return transfer(chosen).run();
}

}  // namespace verbena::softdev::wire::simulation

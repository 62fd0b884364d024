// SPDX-License-Identifier: MIT
// Two queue pairs, one of RC and one of UD. The peer sends arbitrary packets at arbitrary times
// while the program posts requests.
#include "softdev/wire/engine/packet_engine.hpp"
#include "softdev/wire/engine/selective_packets.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/target.hpp"
#include "tests/unit/softdev/wire/simulation/end.hpp"
#include "tests/unit/softdev/wire/simulation/host.hpp"

namespace verbena::softdev::wire {
namespace {

using fuzz::require;

constexpr std::uint32_t slot = 1;
constexpr std::uint32_t mtu = 256;
constexpr std::uint32_t peer_qpn = 0x20'0011;
constexpr std::uint32_t peer_psn = 0xff'fff0;
constexpr std::uint32_t own_psn = 0xff'ff00;
constexpr std::size_t buffer_bytes = 16 * 1024;
constexpr std::size_t largest_receive = 1024;
constexpr std::uint64_t guard_seed = 99;
constexpr network_address here = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
constexpr network_address elsewhere = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};

std::uint32_t byte(fuzz::reader& from) { return from.take<std::uint8_t>(); }
std::uint32_t pair(fuzz::reader& from) { return from.take<std::uint16_t>(); }

/// Checks that each packet can be encoded. Threads: one thread at a time.
class checked_output final : public packet_output {
 public:
  bool has_room() noexcept override { return room > 0; }
  bool put(const queue_pair& /*from*/, const packet& what) noexcept override {
    require(room > 0);
    --room;
    require(what.destination_qpn == peer_qpn && what.payload.size() <= mtu);
    require(encode(what, bytes_) == encoded_bytes(what) - icrc_bytes);
    return true;
  }
  bool put_datagram(const datagram_route& by, const packet& what) noexcept override {
    require(room > 0);
    --room;
    require(by.destination == elsewhere && what.payload.size() <= mtu);
    require(encode(what, bytes_) == encoded_bytes(what) - icrc_bytes);
    return true;
  }

  std::uint32_t room = 0;

 private:
  std::array<std::byte, 2 * mtu> bytes_{};
};

/// The objects that all inputs share, because their construction takes a long time.
struct device {
  engine home{{.process_slot = slot, .clock = +[] { return simulation::now; }}};
  checked_output out;
  packet_engine packets{home, slot, out};
};

/// Threads: one thread at a time.
class scene {
 public:
  explicit scene(device& on) : on_(on) {
    simulation::now = 1'000'000;
    on.out.room = 64;
    target_.fill(0, guard_bytes, guard_seed);
    target_.fill(buffer_bytes - guard_bytes, guard_bytes, guard_seed);
    connect();
    activate();
  }

  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;
  ~scene() { on_.home.deregister_region(region_); }

  void run(fuzz::reader& from) {
    while (!from.empty()) {
      step(from);
      poll();
    }
  }

 private:
  void connect() {
    queue_pair_attributes attributes = simulation::attributes_for(peer_qpn);
    attributes.receive_psn = peer_psn;
    attributes.send_psn = own_psn;
    mine_.connect(attributes);
  }
  void activate() { datagrams_.connect(simulation::attributes_for(0)); }

  void step(fuzz::reader& from) {
    switch (byte(from) % 12) {
      case 0:
        return post(from);
      case 1:
        if (mine_.post_receive(posted_receives_, sink_.slice(0, pair(from) % largest_receive)))
          ++posted_receives_;
        return;
      case 2:
        on_.packets.transmit();
        on_.out.room = byte(from);
        return;
      case 3:
        simulation::now += pair(from) * std::uint64_t{1000};
        return on_.packets.expire(simulation::now);
      case 4:
        return receive_answer(from);
      case 8:
        return post_datagram(from);
      case 9:
        // Between the guard bytes.
        if (datagrams_.post_receive(posted_datagram_receives_,
                                    target_.slice(guard_bytes, pair(from) % largest_receive)))
          ++posted_datagram_receives_;
        return;
      case 10:
      case 11:
        return receive_datagram(from);
      default:
        return receive_request(from);
    }
  }

  void post(fuzz::reader& from) {
    const send_request made{.wr_id = posted_sends_,
                            .opcode = static_cast<opcode>(byte(from) % 7),
                            .flags = byte(from) % 4 == 0 ? send_flag::fence | send_flag::signaled
                                                         : send_flags(send_flag::signaled),
                            .remote_address = 0x1000,
                            .remote_key = 1};
    const std::uint32_t bytes = is_atomic(made.opcode) ? 8 : pair(from) % buffer_bytes;
    if (mine_.post(made, {sink_.slice(0, bytes)})) ++posted_sends_;
  }

  void post_datagram(fuzz::reader& from) {
    datagram_destination to{.address = {{.source = here, .destination = elsewhere}, {}},
                            .qpn = peer_qpn,
                            .qkey = pair(from) << 16U,
                            .known = byte(from) % 16 != 0};
    to.address.set_wire_mtu(1);
    const send_request made{.wr_id = posted_datagrams_,
                            .opcode = byte(from) % 2 == 0 ? opcode::send : opcode::send_with_imm,
                            .flags = send_flag::signaled};
    if (datagrams_.post(made, {sink_.slice(0, pair(from) % (2 * mtu))}, &to)) ++posted_datagrams_;
  }

  /// Receives a packet for the UD queue pair, mostly with the correct Q_Key.
  void receive_datagram(fuzz::reader& from) {
    packet made = next(from, byte(from));
    made.destination_qpn = datagrams_.pair().number();
    made.datagram = {byte(from) % 8 == 0 ? 7 : simulation::qkey, byte(from)};
    made.pkey = byte(from) % 8 == 0 ? 0x8001 : default_partition;
    made.opcode =
        static_cast<packet_opcode>(byte(from) % 4 == 0 ? byte(from) : 0x64 + byte(from) % 2);
    const network_header around{.source = elsewhere, .destination = here};
    require(on_.packets.receive_datagram(made, around));
    if (byte(from) % 8 == 0) static_cast<void>(on_.packets.receive(made));
  }

  packet next(fuzz::reader& from, std::uint32_t psn) {
    packet made;
    made.destination_qpn = mine_.pair().number();
    made.psn = psn & psn_mask;
    made.ack_requested = byte(from) % 2 == 0;
    const std::uint32_t kind = byte(from);
    const std::size_t bytes = kind % 4 == 0 ? mtu : kind % 4 == 1 ? 0 : byte(from) % mtu;
    made.payload = std::span(payload_).first(bytes);
    return made;
  }

  /// Returns up to 16 words with the same bits.
  static psn_set long_report(std::uint32_t first, std::uint32_t bits, std::uint32_t kind) {
    psn_set made{.first = first};
    for (std::uint32_t i = 0; i <= 3 * kind; ++i) made.words[i] = bits * 0x0101'0101'0101'0101U;
    return made;
  }

  /// Receives a response to a packet with a PSN near those that were sent.
  void receive_answer(fuzz::reader& from) {
    const std::uint32_t kind = byte(from) % 6;
    packet made = next(from, own_psn + pair(from) % 2048);
    made.opcode = make_opcode(packet_transport::rc, static_cast<operation>(0x0dU + kind));
    made.answer = {static_cast<std::uint8_t>(byte(from)), byte(from)};
    static_cast<void>(on_.packets.receive(made, made.ack_requested));
    switch (made.answer.msn % 8) {
      case 0:
        made.opcode = packet_opcode::congestion_notification;
        break;
      case 1:
        made = make_selective_acknowledgement(
            {.first = made.psn, .words = {made.answer.syndrome * 0x0101'0101'0101'0101U, kind}},
            base_reach, selective_);
        break;
      case 2:
        made = make_selective_offer(peer_psn + received_, selective_);
        break;
      case 3:
        made = make_window_offer(peer_psn + received_, selective_);
        break;
      case 4:
        made = make_window_grant(made.psn, made.answer.syndrome * 8U, selective_);
        break;
      case 5:
        made = make_selective_acknowledgement(long_report(made.psn, made.answer.syndrome, kind),
                                              psn_set::capacity, selective_);
        break;
      default:
        return;
    }
    made.destination_qpn = mine_.pair().number();
    static_cast<void>(on_.packets.receive(made));
  }

  /// Receives a request packet, mostly with the expected PSN. Some are far ahead.
  void receive_request(fuzz::reader& from) {
    constexpr std::array kinds{0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                               0x09, 0x0a, 0x0b, 0x0c, 0x13, 0x14, 0x16, 0x17, 0x1f};
    const std::uint32_t shift = byte(from);
    const std::uint32_t ahead = shift < 200 ? 0 : shift < 250 ? shift - 228 : (shift - 249) * 200;
    packet made = next(from, peer_psn + received_ + ahead);
    made.opcode =
        make_opcode(packet_transport::rc, static_cast<operation>(kinds[byte(from) % kinds.size()]));
    const std::uint64_t address =
        target_.address() + guard_bytes + pair(from) % (buffer_bytes - 2 * guard_bytes);
    const std::uint32_t key = byte(from) % 16 == 0 ? 1 : region_;
    const std::uint32_t length =
        byte(from) % 2 == 0 ? static_cast<std::uint32_t>(made.payload.size()) : pair(from);
    made.remote = {address, key, length};
    made.atomic = {address & ~std::uint64_t{byte(from) % 4 == 0 ? 0U : 7U}, key, byte(from), 0};
    made.immediate = 7;
    made.solicited = shift % 2 == 0;
    if (shift < 200) ++received_;
    static_cast<void>(on_.packets.receive(made, shift % 4 == 0));
  }

  /// Checks that requests complete once and in order, and that the guard bytes are unchanged.
  void poll() {
    while (on_.home.progress()) {  // flushes requests after a failure
    }
    std::array<completion, 16> some;
    for (std::size_t n = mine_.sent().poll(some); n > 0; n = mine_.sent().poll(some))
      for (const completion& each : std::span(some).first(n)) {
        require(each.wr_id == completed_sends_ && completed_sends_ < posted_sends_);
        ++completed_sends_;
      }
    for (std::size_t n = mine_.received().poll(some); n > 0; n = mine_.received().poll(some))
      for (const completion& each : std::span(some).first(n)) {
        require(each.wr_id == completed_receives_ && completed_receives_ < posted_receives_);
        ++completed_receives_;
      }
    poll_datagrams();
    require(target_.holds(0, guard_bytes, guard_seed) &&
            target_.holds(buffer_bytes - guard_bytes, guard_bytes, guard_seed));
    if (mine_.pair().state() != queue_pair_state::error) return;
    require(completed_sends_ == posted_sends_);
    mine_.pair().modify({.state = queue_pair_state::reset}, attribute::state).value();
    completed_receives_ = posted_receives_;
    received_ = 0;
    connect();
  }

  void poll_datagrams() {
    std::array<completion, 16> some;
    for (std::size_t n = datagrams_.sent().poll(some); n > 0; n = datagrams_.sent().poll(some))
      for (const completion& each : std::span(some).first(n)) {
        require(each.wr_id == completed_datagrams_ && completed_datagrams_ < posted_datagrams_);
        ++completed_datagrams_;
      }
    completion_queue& received = datagrams_.received();
    for (std::size_t n = received.poll(some); n > 0; n = received.poll(some))
      for (const completion& each : std::span(some).first(n)) {
        require(each.wr_id == completed_datagram_receives_ &&
                completed_datagram_receives_ < posted_datagram_receives_);
        require(each.status == completion_status::success && each.byte_count >= grh_bytes &&
                each.byte_count < largest_receive);
        ++completed_datagram_receives_;
      }
    const queue_pair_state state = datagrams_.pair().state();
    require(state == queue_pair_state::rts || state == queue_pair_state::sqe);
    if (state == queue_pair_state::rts) return;
    require(completed_datagrams_ == posted_datagrams_);  // one had no destination
    datagrams_.pair().modify({.state = queue_pair_state::rts}, attribute::state).value();
  }

  static constexpr std::size_t guard_bytes = 1024;
  device& on_;
  simulation::memory target_{on_.home, buffer_bytes};
  simulation::memory sink_{on_.home, buffer_bytes};
  simulation::end mine_{on_.home};
  simulation::end datagrams_{on_.home, transport::ud};
  const std::uint32_t region_ = on_.home
                                    .register_region({.base = target_.data() + guard_bytes,
                                                      .length = buffer_bytes - 2 * guard_bytes,
                                                      .iova = target_.address() + guard_bytes,
                                                      .rights = simulation::everything,
                                                      .domain = simulation::domain})
                                    .value();
  std::array<std::byte, mtu> payload_{};
  selective_payload selective_{};
  std::uint32_t received_ = 0;
  std::uint64_t posted_sends_ = 0;
  std::uint64_t completed_sends_ = 0;
  std::uint64_t posted_receives_ = 0;
  std::uint64_t completed_receives_ = 0;
  std::uint64_t posted_datagrams_ = 0;
  std::uint64_t completed_datagrams_ = 0;
  std::uint64_t posted_datagram_receives_ = 0;
  std::uint64_t completed_datagram_receives_ = 0;
};

void run_engine(fuzz::input input) {
  static device on;
  fuzz::reader from(input);
  scene(on).run(from);
}

/// Inputs: a receive request, a SEND of the peer and its ACK; a WRITE of this side and its ACK; a
/// READ of the peer; a larger window on both sides.
void engine_seeds(fuzz::seed_folder& into) {
  constexpr std::uint8_t receive = 1;
  constexpr std::uint8_t transmit = 2;
  constexpr std::uint8_t answer = 4;
  constexpr std::uint8_t request = 5;
  constexpr std::uint8_t expected = 0;
  const std::uint8_t send[] = {receive, 0, 2, request, expected, 0, 0,        4,
                               0,       0, 1, 0,       1,        0, transmit, 64};
  into.add("send", std::as_bytes(std::span(send)));
  const std::uint8_t write[] = {0, 0, 1, 0, 2, transmit, 64, answer, 4, 0, 1, 1, 0, 0x1f, 1};
  into.add("write", std::as_bytes(std::span(write)));
  const std::uint8_t read[] = {request, expected, 0, 1, 12, 0, 0, 1, 1, 0, 3, 1, 0, transmit, 64};
  into.add("read", std::as_bytes(std::span(read)));
  constexpr std::uint8_t datagram_receive = 9;
  constexpr std::uint8_t datagram = 10;
  const std::uint8_t datagrams[] = {
      datagram_receive, 0, 2, datagram, 0, 0, 2, 16, 1, 5, 1, 1, 0, 1, 8, 0, 0, 1, 0, 0, 1};
  into.add("datagrams", std::as_bytes(std::span(datagrams)));
  // Three WRITEs of 63 packets; an ACK with a grant; a long report; an offer of the peer, and a
  // packet that is 400 PSNs ahead.
  const std::uint8_t window[] = {0, 0,  1, 0, 0x3f, 0,        0,   1,        0,        0x3f,
                                 0, 0,  1, 0, 0x3f, transmit, 255, transmit, 255,      answer,
                                 4, 0,  0, 1, 1,    0x1f,     4,   transmit, 255,      answer,
                                 5, 10, 0, 1, 1,    0x55,     5,   transmit, 255,      answer,
                                 4, 0,  0, 1, 1,    0x1f,     3,   request,  251,      0,
                                 1, 4,  0, 0, 1,    0,        1,   0,        transmit, 64};
  into.add("window", std::as_bytes(std::span(window)));
}

const fuzz::target engines("wire_engine", run_engine, engine_seeds);

}  // namespace
}  // namespace verbena::softdev::wire

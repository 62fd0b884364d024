// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/wire/simulation/simulation.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "softdev/wire/engine/selective_packets.hpp"
#include "tests/unit/softdev/wire/simulation/host.hpp"
#include "tests/unit/softdev/wire/simulation/traffic.hpp"

namespace verbena::softdev::wire::simulation {
namespace {

constexpr time_ns start_of_time = 1'000'000;
constexpr time_ns longest_run = 20'000'000'000;
constexpr std::uint32_t most_connections = 3;

/// The parameters that a seed chooses, besides the traffic.
struct setting {
  network_faults faults;
  link_rate link;
  queue_pair_attributes attributes = attributes_for(0);
  std::uint32_t connections = 1;
  softdev::transport kind = transport::rc;
  time_ns batching = 0;  ///< packets that arrive within this time are one batch
  host_options hosts;
  bool is_old = false;             ///< host 1 does not support larger windows
  bool is_long = false;            ///< longer messages, and a path that needs a larger window
  std::uint64_t refusal_seed = 0;  ///< selects the requests that are refused; 0: none
};

setting choose(std::uint64_t seed, random_source& random) {
  setting made;
  // A separate source, so that the kept RC seeds do not change.
  random_source own(~seed);
  if (own.chance(100)) made.kind = transport::uc;
  constexpr std::array rates{0U, 0U, 2U, 10U, 50U, 150U};
  const auto rate = [&] { return rates[random.below(rates.size())]; };
  // Values of the kept seeds do not change.
  made.hosts.selective_repeat = seed % 2 == 0;
  made.hosts.ack_delay = seed % 4 == 0 ? 2'000 : seed % 8 == 7 ? 4'000'000 : 0;
  // The kept seeds have no marks.
  if (seed % 4 == 2) {
    random_source marks(seed ^ 0x6d61'726bU);
    made.faults.marking = 1 + marks.below(500);
    made.faults.marking_seed = marks.next();
  }
  made.faults.loss = rate();
  made.faults.duplication = rate();
  made.faults.corruption = rate();
  made.faults.reordering = rate();
  made.faults.delay = 500 + random.below(20'000);
  made.faults.jitter = random.below(3'000);
  made.faults.longest_detour = 1 + random.below(100'000);
  if (random.chance(60)) made.faults.partitioned_at = now + random.below(2'000'000);
  made.link.packet_time = 20 + random.below(300);
  made.link.queue_packets = 1 + random.below(100);
  made.batching = random.chance(500) ? random.below(5'000) : 0;
  made.connections = 1 + random.below(most_connections);
  made.attributes.path_mtu = static_cast<std::uint8_t>(1 + random.below(3));
  made.attributes.timeout = static_cast<std::uint8_t>(6 + random.below(5));
  // With a short timeout, ACKs are not postponed.
  if (made.hosts.ack_delay != 0) made.attributes.timeout += 6;
  made.attributes.min_rnr_timer = static_cast<std::uint8_t>(1 + random.below(10));
  made.attributes.max_rd_atomic = static_cast<std::uint8_t>(1 + random.below(8));
  made.attributes.max_dest_rd_atomic =
      static_cast<std::uint8_t>(made.attributes.max_rd_atomic + random.below(2));
  if (made.kind == transport::rc && made.faults.partitioned_at == never && own.chance(100)) {
    made.refusal_seed = own.next();
    if (own.chance(500)) made.faults.loss = made.faults.corruption = made.faults.reordering = 0;
  }
  made.is_old = seed % 32 == 8;
  // No kept seed is one of these.
  made.is_long = seed % 16 == 12;
  if (made.is_long) {
    made.attributes.path_mtu = 1;
    made.faults.delay *= 20;
    made.faults.longest_detour *= 10;
  }
  return made;
}

std::string describe(const setting& what) {
  const auto number = [](const char* name, std::uint64_t value) {
    return std::string(name) + " " + std::to_string(value);
  };
  const network_faults& faults = what.faults;
  return number(what.kind == transport::uc ? "UC, connections" : "RC, connections",
                what.connections) +
         number(", MTU code", what.attributes.path_mtu) +
         number(", timeout", what.attributes.timeout) +
         number(", max_rd_atomic", what.attributes.max_rd_atomic) +
         number("; of 1000 packets: lost", faults.loss) + number(", doubled", faults.duplication) +
         number(", corrupt", faults.corruption) + number(", reordered", faults.reordering) +
         number(", marked", faults.marking) +
         (what.hosts.selective_repeat ? "; selective repeat" : "") +
         (what.is_old ? "; host 1 without larger windows" : "") +
         (what.is_long ? "; long path" : "") + number("; ACK delay", what.hosts.ack_delay) +
         (faults.partitioned_at == never ? "" : "; partitioned") +
         (what.refusal_seed == 0 ? "" : "; requests refused");
}

/// Returns the guarantee for the requests of host `from`. If the setting has refusals, requests of
/// host 0 are refused.
promise promise_of(const setting& what, std::size_t from) {
  const network_faults& faults = what.faults;
  if (what.kind == transport::uc)
    return faults.duplication == 0 && faults.reordering == 0 ? promise::once_in_order
                                                             : promise::bytes;
  const bool loses = faults.loss + faults.corruption + faults.reordering > 0;
  if (what.refusal_seed != 0) return loses || from != 0 ? promise::ends : promise::refused;
  return faults.partitioned_at == never ? promise::reliable : promise::ends;
}

/// Returns the options of host 1.
host_options peer_options(const setting& chosen) {
  host_options made = chosen.hosts;
  made.larger_windows = !chosen.is_old;
  return made;
}

/// Threads: one thread at a time.
class world {
 public:
  world(const setting& chosen, random_source& random, const packet_observer& observer)
      : setting_(chosen),
        network_(chosen.faults, random),
        hosts_{std::make_unique<host>(0, network_, chosen.link, chosen.hosts),
               std::make_unique<host>(1, network_, chosen.link, peer_options(chosen))} {
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i]->observe([this, observer, i](const packet& what) {
        if (observer) observer(now, i, what);
        if (i != 0) note_answer(what);
        if (is_window_grant(what)) ++grants_;
      });
    make_ends();
    random_source refusals(chosen.refusal_seed);
    for (std::uint32_t i = 0; i < chosen.connections; ++i) {
      connect(*ends_[0][i], *ends_[1][i], random);
      const std::uint32_t mtu = (128U << chosen.attributes.path_mtu) * (chosen.is_long ? 4 : 1);
      for (std::size_t from = 0; from < 2; ++from) {
        traffic_.push_back(std::make_unique<traffic>(*ends_[from][i], *ends_[1 - from][i], mtu,
                                                     random, promise_of(chosen, from)));
        if (chosen.refusal_seed != 0 && from == 0) traffic_.back()->refuse(refusals);
      }
    }
  }

  [[nodiscard]] outcome run() {
    outcome made;
    while (made.violation.empty()) {
      const time_ns next = step();
      made.violation = first_violation();
      // Packets in flight have no further effect.
      if (!made.violation.empty() || (all_finished() && network_.next_arrival() == never)) break;
      if (next > start_of_time + longest_run) {
        made.violation = "no progress: " + missing();
        break;
      }
      now = std::max(now, next);
    }
    for (const auto& each : traffic_) {
      each->judge_end();
      made.requests += each->requests();
      made.refused += each->refused();
    }
    if (made.violation.empty()) made.violation = first_violation();
    made.packets = hosts_[0]->sent() + hosts_[1]->sent();
    made.postponed = hosts_[0]->postponed() + hosts_[1]->postponed();
    made.faults = network_.faults();
    made.grants = grants_;
    return made;
  }

 private:
  void note_answer(const packet& what) noexcept {
    for (const auto& each : traffic_) each->note_answer(what);
  }

  /// Queue pair numbers are random. Sorts them in the order of the connections.
  void make_ends() {
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::uint32_t n = 0; n < setting_.connections; ++n)
        ends_[i].push_back(std::make_unique<end>(hosts_[i]->device(), setting_.kind));
      std::ranges::sort(ends_[i], {}, [](const auto& each) { return each->pair().number(); });
    }
  }

  void connect(end& one, end& other, random_source& random) const {
    queue_pair_attributes attributes = setting_.attributes;
    const auto psn = [&] {
      return random.chance(300) ? psn_mask - random.below(64)
                                : static_cast<std::uint32_t>(random.next()) & psn_mask;
    };
    attributes.send_psn = psn();
    attributes.receive_psn = psn();
    attributes.destination_qpn = other.pair().number();
    one.connect(attributes);
    std::swap(attributes.send_psn, attributes.receive_psn);
    attributes.destination_qpn = one.pair().number();
    other.connect(attributes);
  }

  /// Does the work that is due. Returns when further work is due.
  [[nodiscard]] time_ns step() {
    time_ns next = never;
    for (const auto& each : traffic_) next = std::min(next, each->post());
    while (network_.next_arrival() <= now) {
      const travelling_packet packet = network_.take();
      hosts_[packet.host]->receive(packet.bytes, packet.marked);
      if (network_.next_arrival() <= now + setting_.batching)
        now = std::max(now, network_.next_arrival());
    }
    for (const auto& each : hosts_) each->run();
    for (const auto& each : traffic_) each->poll();
    for (const auto& each : hosts_) next = std::min(next, each->next_deadline());
    return std::min(next, network_.next_arrival());
  }

  [[nodiscard]] std::string first_violation() const {
    for (std::size_t i = 0; i < traffic_.size(); ++i)
      if (!traffic_[i]->violation().empty())
        return "connection " + std::to_string(i / 2) + ", from host " + std::to_string(i % 2) +
               ": " + traffic_[i]->violation();
    return {};
  }
  [[nodiscard]] bool all_finished() const {
    return std::ranges::all_of(traffic_, [](const auto& each) { return each->finished(); });
  }
  [[nodiscard]] std::string missing() const {
    std::string text;
    for (const auto& each : traffic_)
      if (!each->finished()) text += each->missing() + "; ";
    return text;
  }

  const setting setting_;
  network network_;
  std::array<std::unique_ptr<host>, 2> hosts_;
  std::array<std::vector<std::unique_ptr<end>>, 2> ends_;
  std::vector<std::unique_ptr<traffic>> traffic_;
  std::uint64_t grants_ = 0;
};

}  // namespace

outcome run_seed(std::uint64_t seed, const packet_observer& observer) {
  now = start_of_time;
  random_source random(seed);
  const setting chosen = choose(seed, random);
  outcome made = world(chosen, random, observer).run();
  made.setting = describe(chosen);
  return made;
}

}  // namespace verbena::softdev::wire::simulation

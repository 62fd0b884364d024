// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/prometheus.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

namespace verbena::tool {
namespace {

struct explained_counter {
  std::string_view name;
  std::string_view help;
};

/// The counters of soft0 (softdev/wire/socket/named_counters.cpp).
constexpr std::array explanations = {
    explained_counter{"sent_pkts", "Packets sent."},
    explained_counter{"sent_bytes", "Bytes of sent packets, from BTH to ICRC."},
    explained_counter{"rcvd_pkts", "Packets delivered to a queue pair."},
    explained_counter{"rcvd_bytes", "Bytes of received packets, from BTH to ICRC."},
    explained_counter{"retransmitted_pkts", "Retransmitted request packets."},
    explained_counter{"local_ack_timeout_err", "ACK timeouts."},
    explained_counter{"retry_exceeded_err", "Requests that failed after the last retry."},
    explained_counter{"rcvd_rnr_err", "Received RNR NAKs."},
    explained_counter{"send_rnr_err", "Sent RNR NAKs."},
    explained_counter{"rcvd_seq_err", "Received NAKs for a PSN sequence error."},
    explained_counter{"out_of_seq_request", "Sent NAKs for a PSN sequence error."},
    explained_counter{"rcvd_selective_acks", "Received selective acknowledgements."},
    explained_counter{"sent_selective_acks", "Sent selective acknowledgements."},
    explained_counter{"np_ecn_marked_roce_packets",
                      "Received RC and UC packets with payload and a congestion mark (CE)."},
    explained_counter{"np_cnp_sent", "Sent congestion notification packets (CNPs)."},
    explained_counter{"rp_cnp_handled", "Received CNPs that reduced a window."},
    explained_counter{"rp_cnp_ignored", "Received CNPs without effect."},
    explained_counter{"send_err", "Packets that the kernel failed to send."},
    explained_counter{"send_queue_full",
                      "Packets that were lost because the send queue of the process was full."},
    explained_counter{"send_auth_err",
                      "Packets that were not sent because libcrypto failed to compute the tag."},
    explained_counter{"forwarded_pkts", "Packets that were forwarded to other processes."},
    explained_counter{"forward_queue_full",
                      "Dropped packets for another process, which was too slow to receive them."},
    explained_counter{"solved_identification",
                      "Packets whose IPv4 identification was deduced from the ICRC."},
    explained_counter{"dropped_malformed", "Dropped packets with a wrong format."},
    explained_counter{"dropped_unknown_qp", "Dropped packets for an unknown queue pair."},
    explained_counter{"dropped_wrong_source",
                      "Dropped packets whose source address is not that of the connection."},
    explained_counter{"dropped_wrong_interface",
                      "Dropped packets that arrived at another interface."},
    explained_counter{"dropped_icrc", "Dropped packets with a wrong ICRC."},
    explained_counter{"dropped_auth_missing", "Dropped packets that are not authenticated."},
    explained_counter{"dropped_auth_failed", "Dropped packets with a wrong authentication tag."},
    explained_counter{"dropped_auth_replayed", "Dropped packets that were received before."},
    explained_counter{"dropped_auth_unexpected",
                      "Dropped authenticated packets of a process without a key."},
    explained_counter{"dropped_busy", "Dropped packets because a queue pair was locked."},
    explained_counter{"dropped_pkey", "Dropped messages with a wrong P_Key."},
    explained_counter{"dropped_qkey", "Dropped messages with a wrong Q_Key."},
    explained_counter{"injected_faults", "Packets with a fault of VERBENA_SOFTDEV_WIRE_FAULTS."},
};

/// The samples of a metric by their labels. Two counters can have one name; the first one counts.
struct metric {
  std::vector<std::pair<std::string, std::uint64_t>> samples;

  void add(const std::string& labels, std::uint64_t value) {
    const auto same = [&](const auto& each) { return each.first == labels; };
    if (std::ranges::none_of(samples, same)) samples.emplace_back(labels, value);
  }
};

/// The metrics in the order of their first samples.
struct metrics {
  std::map<std::string, metric> by_name;
  std::vector<std::string> names;

  void add(const std::string& name, const std::string& labels, std::uint64_t value) {
    const auto [place, added] = by_name.try_emplace(name);
    if (added) names.push_back(name);
    place->second.add(labels, value);
  }
};

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_';
  });
}

std::string label(std::string_view name, std::string_view value) {
  std::string out(name);
  out += "=\"";
  for (const char letter : value) {
    if (letter == '\n') {
      out += "\\n";
      continue;
    }
    if (letter == '\\' || letter == '"') out += '\\';
    out += letter;
  }
  return out + '"';
}

template <class Value>
const Value* find(const section& in, std::string_view key) {
  const auto found = std::ranges::find(in, key, &field::key);
  return found != in.end() ? std::get_if<Value>(&found->value) : nullptr;
}

std::string number_in(const section& in, std::string_view key) {
  const auto* const number = find<std::uint64_t>(in, key);
  return number != nullptr ? std::to_string(*number) : "";
}

const explained_counter* explanation_of(const std::string& counter) {
  const auto* const known = std::ranges::find(explanations, counter, &explained_counter::name);
  return known != explanations.end() ? known : nullptr;
}

/// Adds the counters of `owner` to the metrics. If `any` is false, adds only explained counters.
void add_counters(const section& owner, const std::string& labels, bool any, metrics& to) {
  const auto* const counters = find<section>(owner, "counters");
  if (counters == nullptr) return;
  for (const field& each : *counters)
    if (const auto* const value = std::get_if<std::uint64_t>(&each.value);
        value != nullptr && is_name(each.key) && (any || explanation_of(each.key) != nullptr))
      to.add(each.key, labels, *value);
}

void add_device(const section& which, metrics& to) {
  const auto* const name = find<std::string>(which, "name");
  const std::string device = label("device", name != nullptr ? *name : "");
  if (const auto* const ports = find<std::vector<section>>(which, "ports"))
    for (const section& each : *ports)
      add_counters(each, device + ',' + label("port", number_in(each, "port")), true, to);
  const auto* const processes = find<std::vector<section>>(which, "processes");
  if (processes == nullptr) return;
  for (const section& each : *processes) {
    const auto* const program = find<std::string>(each, "program");
    add_counters(each,
                 device + ',' + label("port", "1") + ',' +
                     label("process", number_in(each, "pid")) + ',' +
                     label("program", program != nullptr ? *program : ""),
                 false, to);
  }
}

}  // namespace

std::string to_prometheus(const std::vector<section>& devices) {
  metrics all;
  for (const section& each : devices) add_device(each, all);
  std::string text;
  for (const std::string& counter : all.names) {
    // Drivers also have gauges among their counters.
    const explained_counter* const known = explanation_of(counter);
    const std::string name = "rdma_" + counter + (known != nullptr ? "_total" : "");
    const std::string help =
        known != nullptr ? std::string(known->help) : "Counter " + counter + " of the driver.";
    text += "# HELP " + name + ' ' + help + "\n# TYPE " + name +
            (known != nullptr ? " counter\n" : " untyped\n");
    for (const auto& [labels, number] : all.by_name.at(counter).samples)
      text += name + '{' + labels + "} " + std::to_string(number) + '\n';
  }
  return text;
}

}  // namespace verbena::tool

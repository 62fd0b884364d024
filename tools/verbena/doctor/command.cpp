// SPDX-License-Identifier: MIT
#include "tools/verbena/doctor/command.hpp"

#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tools/verbena/doctor/peer_endpoint.hpp"
#include "tools/verbena/doctor/report.hpp"
#include "verbena/verbs/endpoint.hpp"

namespace verbena::tool {
namespace {

constexpr int works = 0;
constexpr int fails = 1;
constexpr int wrong_endpoint = 2;

int complain(const std::string& text, int status) {
  std::cerr << "verbena doctor: " << text << '\n';
  return status;
}

bool is_enough(const std::optional<diagnose::usable_port>& usable, wanted_device required) {
  if (!usable) return false;
  switch (required) {
    case wanted_device::any:
      return true;
    case wanted_device::kernel:
      return usable->kind != diagnose::device_kind::soft;
    case wanted_device::hardware:
      return usable->kind == diagnose::device_kind::hardware;
  }
  return false;
}

const char* name_of(wanted_device required) {
  switch (required) {
    case wanted_device::any:
      break;
    case wanted_device::kernel:
      return "a kernel device";
    case wanted_device::hardware:
      return "hardware";
  }
  return "a device";
}

std::string verdict_of(const doctor_report& report, wanted_device required) {
  const char* const wanted = name_of(required);
  if (!report.usable) return std::string("RDMA does not work on this host: no port works");
  const std::string on = report.usable->device + " port " +
                         std::to_string(report.usable->port.value()) + " (" +
                         to_string(report.usable->kind) + ")";
  if (report.enough) return "RDMA works on " + on;
  return std::string("RDMA works only on ") + on + ", but " + wanted + " is required";
}

}  // namespace

int execute(const doctor_options& options) {
  std::optional<endpoint> peer;
  if (!options.endpoint.empty()) {
    const auto read = read_peer_endpoint(options.endpoint);
    if (!read)
      return complain("--endpoint: " + std::string(read.error().diagnosis()), wrong_endpoint);
    peer = *read;
  }
  const auto host = diagnose::gather_host_facts({.root = options.root});
  const auto devices = diagnose::gather_devices_facts();
  doctor_report report{.findings = diagnose::examine(host, devices),
                       .usable = diagnose::best_usable(host, devices)};
  if (peer) {
    auto more = diagnose::examine_peer(host, devices, *peer);
    report.findings.insert(report.findings.end(), std::make_move_iterator(more.begin()),
                           std::make_move_iterator(more.end()));
  }
  report.enough = is_enough(report.usable, options.require);
  report.verdict = verdict_of(report, options.require);
  std::cout << (options.json ? to_json(report) + '\n' : to_text(report)) << std::flush;
  if (!std::cout) return complain("writing to standard output failed", fails);
  return report.enough ? works : fails;
}

}  // namespace verbena::tool

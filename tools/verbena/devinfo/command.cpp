// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/command.hpp"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "tools/verbena/devinfo/absence.hpp"
#include "tools/verbena/devinfo/counters.hpp"
#include "tools/verbena/devinfo/describe.hpp"
#include "tools/verbena/devinfo/json.hpp"
#include "tools/verbena/devinfo/prometheus.hpp"
#include "tools/verbena/devinfo/table.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::tool {
namespace {

constexpr int done = 0;
constexpr int failed = 1;

int complain(const std::string& text) {
  std::cerr << "verbena devinfo: " << text << '\n';
  return failed;
}

// Invalid arguments are reported without the verb and the errno.
std::string text_of(const error& why) {
  if (why.kind() != error_kind::invalid_argument) return why.message();
  return std::string(why.object()).append(": ").append(why.diagnosis());
}

std::string names_of(const std::vector<device>& devices) {
  std::string names;
  for (const auto& each : devices) names += (names.empty() ? "" : ", ") + each.name();
  return names;
}

// Prints `text`. Fails if the output is a closed pipe or a full disk.
int flush(const std::string& text) {
  std::cout << text << std::flush;
  return std::cout ? done : complain("writing to standard output failed");
}

}  // namespace

int execute(const devinfo_options& options) {
  auto listed = list_devices();
  // For other errors, explain_absence() prints one reason per provider.
  if (!listed && listed.error().kind() == error_kind::invalid_argument)
    return complain(text_of(listed.error()));
  auto devices = listed ? *std::move(listed) : std::vector<device>();
  if (devices.empty()) {
    complain("no RDMA device is listed");
    std::cerr << explain_absence();
    return failed;
  }
  if (!options.device.empty()) {
    const auto names = names_of(devices);
    std::erase_if(devices, [&](const device& each) { return each.name() != options.device; });
    if (devices.empty())
      return complain("device '" + options.device + "' does not exist; existing devices: " + names);
  }

  int status = done;
  std::vector<section> described;
  for (const auto& each : devices) {
    if (options.counters) {
      described.push_back(describe_counters(each, options.port));
      continue;
    }
    auto description = describe_device(each, options.port);
    if (description)
      described.push_back(*std::move(description));
    else
      status = complain(text_of(description.error()));
  }
  std::string text;
  if (options.json) {
    text = to_json(described) + '\n';
  } else if (options.prometheus) {
    text = to_prometheus(described);
  } else {
    for (const auto& each : described) text += (text.empty() ? "" : "\n") + to_table(each);
  }
  return std::max(status, flush(text));
}

}  // namespace verbena::tool

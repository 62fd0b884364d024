// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/command.hpp"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "tools/verbena/devinfo/absence.hpp"
#include "tools/verbena/devinfo/describe.hpp"
#include "tools/verbena/devinfo/json.hpp"
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

// What the user got wrong needs no verb and no number.
std::string text_of(const error& why) {
  return why.kind() == error_kind::invalid_argument ? why.object() + ": " + why.diagnosis()
                                                    : why.message();
}

std::string names_of(const std::vector<device>& devices) {
  std::string names;
  for (const auto& each : devices) names += (names.empty() ? "" : ", ") + each.name();
  return names;
}

// A pipe that was closed, a full disk.
int flush(const std::string& text) {
  std::cout << text << std::flush;
  return std::cout ? done : complain("standard output cannot be written to");
}

}  // namespace

int execute(const devinfo_options& options) {
  auto listed = list_devices();
  // What is not there is explained below, one side beside the other.
  if (!listed && listed.error().kind() == error_kind::invalid_argument)
    return complain(text_of(listed.error()));
  auto devices = listed ? *std::move(listed) : std::vector<device>();
  if (devices.empty()) {
    complain("there is no RDMA device");
    std::cerr << explain_absence();
    return failed;
  }
  if (!options.device.empty()) {
    const auto names = names_of(devices);
    std::erase_if(devices, [&](const device& each) { return each.name() != options.device; });
    if (devices.empty())
      return complain("there is no device '" + options.device + "'; there are: " + names);
  }

  int status = done;
  std::vector<section> described;
  for (const auto& each : devices) {
    auto description = describe_device(each, options.port);
    if (description)
      described.push_back(*std::move(description));
    else
      status = complain(text_of(description.error()));
  }
  std::string text;
  if (options.json) {
    text = to_json(described) + '\n';
  } else {
    for (const auto& each : described) text += (text.empty() ? "" : "\n") + to_table(each);
  }
  return std::max(status, flush(text));
}

}  // namespace verbena::tool

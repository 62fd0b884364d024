// SPDX-License-Identifier: MIT
// Prints the attributes of all devices, their ports and their GIDs.
#include <verbena/verbena.hpp>

#include <cstdio>
#include <string>

namespace {

void print(const std::string& text) { std::printf("%s\n", text.c_str()); }

void dump(const verbena::device& device) {
  print("=== " + to_string(device));
  const auto context = device.open().value();
  const auto attributes = context.query().value();
  print(to_string(attributes));
  // Devices without the extended query return an error.
  if (const auto extended = context.query_extended())
    print(to_string(*extended));
  else
    print(extended.error().message());

  for (unsigned number = 1; number <= attributes.port_count(); ++number) {
    const verbena::port_number port(static_cast<std::uint8_t>(number));
    const auto about = context.query_port(port).value();
    print("--- port " + std::to_string(number));
    print(to_string(about));
    for (std::uint16_t i = 0; i < about.pkey_table_length(); ++i)
      std::printf("P_Key %u: 0x%04x\n", unsigned{i},
                  unsigned{context.query_pkey(port, i).value().value()});
  }
  for (const auto& entry : context.gid_table().value()) print(to_string(entry));
}

}  // namespace

int main() {
  const auto devices = verbena::list_devices().value();
  for (const auto& device : devices) dump(device);
  return devices.empty() ? 1 : 0;
}

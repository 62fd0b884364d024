// SPDX-License-Identifier: MIT
#include "tests/conformance/tested_device.hpp"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <charconv>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>

#include "verbena/verbs/device_list.hpp"

namespace verbena::conformance {
namespace {

std::string text_of(const char* variable, std::string_view otherwise) {
  const char* const value = std::getenv(variable);
  return std::string(value != nullptr && *value != '\0' ? value : otherwise);
}

std::optional<device_under_test> opened;
int timeout_factor = 1;

result<device_under_test> open_named(const std::string& name) {
  VERBENA_TRY(const auto devices, list_devices());
  for (const auto& each : devices) {
    if (each.name() != name) continue;
    VERBENA_TRY(auto context, each.open());
    return device_under_test{each, std::move(context)};
  }
  return error::unavailable(0, "VERBENA_TEST_DEVICE", name, "no such device is listed");
}

// Opens the device before the first test. If this fails, GoogleTest runs no test.
class device_environment : public ::testing::Environment {
 public:
  void SetUp() override {
    const std::string factor = text_of("VERBENA_TEST_TIMEOUT_FACTOR", "1");
    const auto [end, failed] =
        std::from_chars(factor.data(), factor.data() + factor.size(), timeout_factor);
    ASSERT_TRUE(failed == std::errc() && end == factor.data() + factor.size() &&
                timeout_factor >= 1 && timeout_factor <= 1000)
        << "VERBENA_TEST_TIMEOUT_FACTOR must be an integer from 1 to 1000, not '" << factor << "'";
    auto found = open_named(text_of("VERBENA_TEST_DEVICE", "soft0"));
    ASSERT_TRUE(found) << found.error().message();
    opened.emplace(*std::move(found));
    utsname system{};
    ASSERT_EQ(uname(&system), 0);
    // scripts/conformance.py reads this line.
    std::cout << "[ DEVICE   ] {\"device\": \"" << opened->listed.name() << "\", \"transport\": \""
              << to_string(opened->listed.transport()) << "\", \"provider\": \""
              << to_string(opened->listed.origin()) << "\", \"kernel\": \"" << system.release
              << "\"}\n"
              << std::flush;
  }
  void TearDown() override { opened.reset(); }
};

[[maybe_unused]] const auto* const registered =
    ::testing::AddGlobalTestEnvironment(new device_environment);

}  // namespace

const device_under_test& tested() { return *opened; }

bool is_iwarp() { return tested().listed.transport() == transport_type::iwarp; }

bool is_infiniband() {
  const auto port = tested().context.query_port(port_number(1)).value();
  return port.link_layer() == link_layer::infiniband;
}

bool is_efa() { return tested().listed.transport() == transport_type::unspecified; }

deadline test_deadline(std::chrono::milliseconds timeout) {
  return deadline::after(timeout * timeout_factor);
}

}  // namespace verbena::conformance

// SPDX-License-Identifier: MIT
// Ticks of a device clock are not nanoseconds: the attributes of the device convert them.
// expect-gcc: conversion from|cannot convert
// expect-clang: no viable conversion
#include <chrono>
#include <optional>

#include "verbena/verbs/device_attributes.hpp"

std::optional<std::chrono::nanoseconds> use(const verbena::extended_device_attributes& device,
                                            verbena::device_clock_time first,
                                            verbena::device_clock_time second) {
#ifdef VERBENA_BAD
  static_cast<void>(device);
  const std::chrono::nanoseconds between = second - first;
  return between;
#else
  return device.duration_of(second - first);
#endif
}

// SPDX-License-Identifier: MIT
// A bare number does not become an identifier by itself.
// expect-gcc: conversion from .int. to non-scalar type|cannot convert
// expect-clang: no viable conversion
#include "verbena/base/ids.hpp"

std::uint8_t use() {
#ifdef VERBENA_BAD
  const verbena::port_number port = 1;
#else
  const verbena::port_number port{1};
#endif
  return port.value();
}

// SPDX-License-Identifier: MIT
// A number does not convert to an identifier implicitly.
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

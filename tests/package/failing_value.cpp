// SPDX-License-Identifier: MIT
// Without exceptions, value() of an error prints the error and aborts.
#include <verbena/verbena.hpp>

#include <cstdio>

int main() {
  auto context = verbena::open_device("no_such_device").value();
  std::printf("survived\n");
  return 0;
}
